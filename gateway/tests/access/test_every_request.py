"""Every request code and every kind of sender: who is let in, and the words of the others' refusals.

The table is made from what the requests declare, so a request that is added is tested without a line here. The
accounts are those of a file of ACL 1.0, of users and policies, and plain ones without a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Any, Protocol

import pytest

from gateway.access.guard import CHANGES, Guard
from gateway.access.needs import needs_of
from gateway.access.plain.accounts import PlainAccount
from gateway.access.policies.policy import PolicyEntry, PolicyType
from gateway.access.policies.users import User, UserStatus, UserType
from gateway.errors import RequestRefused
from gateway.remoting.channel import Channel
from gateway.remoting.declared import ADMIN, Kind, Need, Right, Who
from gateway.remoting.dispatch import Request
from gateway.tests.access.accounts import CLUSTER, PLAIN, USERS, FakeAccount, everything, guard_of
from gateway.tests.remoting.conversation import Conversation
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.signature import RequestSigner

SCRIPT = Path(__file__).parents[3] / "docs" / "request_codes.py"
HOST = "192.0.2.7"
CODES = sorted(RequestCode)
SIGNATURE_ENOUGH = {RequestCode.CHECK_CLIENT_CONFIG}
"""Requests of every account: whether a filter can be read."""
FOR_EVERYBODY = {RequestCode.GET_ROUTEINFO_BY_TOPIC}
"""Where the queues of a topic are: Go's pull consumer asks unsigned, and a Java client with a wrong key could not tell
why it finds no route."""
GUARDED = [code for code in CODES if code not in FOR_EVERYBODY]


@cache
def rights() -> dict[int, Right]:
    """Return the declared right of each code that a server answers."""
    script = run_path(str(SCRIPT))
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        broker, name_server = script["_declared"](Path(directory))
    return {code: entry.right for code, entry in (broker | name_server).items()}


def right_of(code: int) -> Right:
    """Return what the sender of a code needs; a code without a rule needs an admin."""
    return rights().get(code, ADMIN)


@cache
def channel() -> Channel:
    """Return a connection of a peer."""
    return Conversation().connect(HOST).channel


def fields_of(code: int, name: str = "x") -> dict[str, str]:
    """Return a header that names resources in every field that the right of the code knows."""
    fields = {"other": "value"}
    for named in right_of(code).named:
        if named.field:
            fields[named.field] = CLUSTER if named.kind is Kind.CLUSTER else f"{name}-{named.field}"
    return fields


class Keys(Protocol):
    """The keys of an account, whatever its file."""

    @property
    def name(self) -> str:
        """The access key."""

    @property
    def secret(self) -> bytes:
        """The secret key."""


def outcome(guard: Guard, code: int, account: Keys | None, *, spoilt: bool = False) -> RequestRefused | None:
    """Ask the guard about a request of an account; return its refusal, or None if the request was admitted."""
    command = RemotingCommand(code, ext_fields=fields_of(code))
    if account is not None:
        RequestSigner(account.name, account.secret.decode()).sign(command)
    if spoilt:
        command.ext_fields["other"] = "changed"
    try:
        guard.admit(Request(channel(), command), right_of(code))
    except RequestRefused as refusal:
        return refusal
    return None


def rights_on(code: int, name: str) -> list[Need]:
    """Return what a request needs that names a resource of this name."""
    return needs_of(right_of(code), fields_of(code, name), CLUSTER)


@pytest.mark.parametrize("code", sorted(FOR_EVERYBODY))
def test_a_request_for_everybody_needs_no_account(code: RequestCode) -> None:
    guard = guard_of(FakeAccount("off", is_enabled=False))
    for account in (None, FakeAccount("stranger"), FakeAccount("off")):
        assert outcome(guard, code, account, spoilt=True) is None


def test_every_code_has_a_rule_and_only_these_need_no_more_than_a_signature() -> None:
    for code in CODES:
        right = right_of(code)
        assert (right.who is Who.EVERYBODY) is (code in FOR_EVERYBODY), f"{code.name} is for {right.who.value}"
        if right.who is Who.ACCOUNT:
            assert right.named or right.in_body or code in SIGNATURE_ENOUGH, f"{code.name} has no rule"


@pytest.mark.parametrize("code", GUARDED)
@pytest.mark.parametrize(
    ("refusals", "answer", "texts"),
    [
        (
            USERS,
            ResponseCode.NO_PERMISSION,
            {
                "nobody": "username cannot be null.",
                "unknown": "User:stranger is not found.",
                "unsigned": "check signature failed.",
                "disabled": "User:off is disabled.",
                "denied": "User:shop has no permission to access ",
            },
        ),
        (
            PLAIN,
            ResponseCode.SYSTEM_ERROR,
            {
                "nobody": "org.apache.rocketmq.acl.common.AclException: No accessKey is configured, ",
                "unknown": "org.apache.rocketmq.acl.common.AclException: No acl config for stranger, ",
                "unsigned": "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=",
                "disabled": "org.apache.rocketmq.acl.common.AclException: No acl config for off, ",
                "denied": "org.apache.rocketmq.acl.common.AclException: N",  # No default, Need admin
            },
        ),
    ],
    ids=["5.3", "4.9"],
)
def test_who_may_send_a_request(code: RequestCode, refusals: Any, answer: int, texts: dict[str, str]) -> None:
    def check(refusal: RequestRefused | None, kind: str) -> None:
        assert refusal is not None, f"{code.name} was let in: {kind}"
        assert (refusal.code, refusal.remark[: len(texts[kind])]) == (answer, texts[kind])

    shop, off = FakeAccount("shop"), FakeAccount("off", *everything(), is_enabled=False)
    admin = FakeAccount("root", is_admin=True)
    guard = guard_of(shop, off, admin, refusals=refusals)
    check(outcome(guard, code, None), "nobody")
    check(outcome(guard, code, FakeAccount("stranger")), "unknown")
    check(outcome(guard, code, shop, spoilt=True), "unsigned")
    check(outcome(guard, code, off), "disabled")
    check(outcome(guard, code, off, spoilt=True), "unsigned")
    assert outcome(guard, code, admin) is None
    assert outcome(guard_of(white=[HOST], refusals=refusals), code, None) is None
    right = right_of(code)
    needed, needs = rights_on(code, "x"), everything()
    for account, is_let_in in (
        (FakeAccount("shop"), right.who is Who.ACCOUNT and not needed),
        (FakeAccount("shop", *rights_on(code, "another")), right.who is Who.ACCOUNT and _has_no_names(needed)),
        (FakeAccount("shop", *needed), right.who is Who.ACCOUNT),
        (FakeAccount("shop", *needs), right.who is Who.ACCOUNT),
        (FakeAccount("shop", *needs, denied=needed), right.who is Who.ACCOUNT and not needed),
    ):
        refusal = outcome(guard_of(account, refusals=refusals), code, account)
        if is_let_in:
            assert refusal is None, refusal
        else:
            check(refusal, "denied")


def _has_no_names(needed: list[Need]) -> bool:
    return all(need.kind is Kind.CLUSTER for need in needed)


@pytest.mark.parametrize("code", GUARDED)
def test_each_single_right_is_needed(code: RequestCode) -> None:
    needed = rights_on(code, "x")
    for left_out in needed:
        account = FakeAccount("shop", *(need for need in needed if need is not left_out))
        assert outcome(guard_of(account), code, account) is not None, f"{code.name} does not need {left_out}"


def user(*allowed: Need, denied: Iterable[Need] = (), **facts: Any) -> User:
    """Return a user whose policy has an entry for each need."""
    entries = [
        PolicyEntry.of(f"{need.kind.value}:{need.name}", [str(action.name) for action in need.actions], [], decision)
        for needs, decision in ((allowed, "Allow"), (denied, "Deny"))
        for need in needs
    ]
    return User("shop", "shop-secret", **facts).with_policies({PolicyType.CUSTOM: tuple(entries)})


@pytest.mark.parametrize("code", GUARDED)
def test_users_with_policies_are_let_in_by_what_they_may_do(code: RequestCode) -> None:
    def is_let_in(account: User) -> bool:
        return outcome(guard_of(account), code, account) is None

    right, needed = right_of(code), rights_on(code, "x")
    for_accounts = right.who is Who.ACCOUNT
    assert is_let_in(user(type=UserType.SUPER))
    assert not is_let_in(user(type=UserType.SUPER, status=UserStatus.DISABLE))
    assert is_let_in(user()) == (for_accounts and not needed)
    assert is_let_in(user(*needed)) == for_accounts
    assert is_let_in(user(*everything())) == for_accounts
    assert is_let_in(user(*everything(), denied=needed)) == (for_accounts and not needed)
    assert is_let_in(user(*rights_on(code, "another"))) == (for_accounts and _has_no_names(needed))


@pytest.mark.parametrize("code", GUARDED)
def test_accounts_of_acl_1_are_let_in_by_their_permissions(code: RequestCode) -> None:
    def is_let_in(**facts: Any) -> bool:
        account = PlainAccount(name="shop-key", secret=b"shop-secret", **facts)
        return outcome(guard_of(account, refusals=PLAIN), code, account) is None

    right, needed = right_of(code), rights_on(code, "x")
    entries = {need.name if need.kind is Kind.TOPIC else f"%RETRY%{need.name}": "PUB|SUB" for need in needed}
    of_messages = all(need.kind is not Kind.CLUSTER and need.actions & ~CHANGES for need in needed)
    assert is_let_in(is_admin=True)
    assert is_let_in() == (right.who is Who.ACCOUNT and not needed)
    assert is_let_in(entries=entries) == (right.who is Who.ACCOUNT and of_messages)
    denied = is_let_in(entries=dict.fromkeys(entries, "DENY"), default_topic="PUB|SUB", default_group="PUB|SUB")
    assert denied == (right.who is Who.ACCOUNT and not needed)


def test_an_account_with_every_right_is_no_admin() -> None:
    shop = FakeAccount("shop", *everything())
    only_admins = {code for code in rights() if outcome(guard_of(shop), code, shop) is not None}
    assert {
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GATEWAY_SETTLE_TRANSACTION,
    } <= only_admins
