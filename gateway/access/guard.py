"""The decision about each request: its sender, its signature, and its rights.

The order: the white lists of ACL 1.0, the account's existence, its signature, whether it is enabled, and then its
rights. An unknown account costs as much time as a wrong signature. What passed once is remembered until the account
changes.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.access.audit import Told
from gateway.access.failures import Failures
from gateway.access.model import Account, Accounts, Ruling, needs_own_name
from gateway.access.needs import needs_of
from gateway.access.refusals import Refusals, cut, words
from gateway.errors import RequestRefused
from gateway.remoting.channel import Channel
from gateway.remoting.declared import Action, Kind, Need, Right, Who
from gateway.remoting.dispatch import Request
from gateway.telemetry.logs import EventLog
from wire.codes import RequestCode, request_code_name
from wire.command import RemotingCommand
from wire.json_header import parse_ext_fields
from wire.quick.sent import SentHeader
from wire.signature import SigningKey
from wire.signed_fields import ACCESS_KEY

log = EventLog("access")

MAX_CALLERS: Final = 10_000
"""The pairs of account and address that are remembered; the one remembered longest is then forgotten."""
MAX_PASSED: Final = 1_000
"""The kinds of requests of one caller that are remembered as allowed; then all are forgotten."""
MAX_REMEMBERED_BYTES: Final = 67_108_864
"""The memory of what all callers were allowed; the caller remembered longest is then forgotten."""
UTF8_BYTES: Final = 4
"""The bytes of a character in UTF-8, at most."""
KIND_BYTES: Final = 256
"""The memory of one remembered kind or right besides its names, at most."""
MAX_KIND_CHARACTERS: Final = 512
"""The characters of the names of one kind; longer ones are judged each time, because peers may send names of 16 MiB."""
MAX_NOTED: Final = 64
"""The refusals of one request that are noted one by one; a body may have thousands of entries."""
MORE: Final = "and more of the same request"
UNPROVEN: Final = "account not proven; "
"""The beginning of the rule that let in a request of a named account: a white list asks for no signature."""
TOO_MANY_FAILURES: Final = "too many requests with a wrong key (gateway.failedAttemptsPerAddress)"
SEARCHED_BYTES: Final = 1_024
"""The first bytes of a refused heartbeat, where its client id is looked for; clients write it first."""
_CLIENT_ID: Final = re.compile(rb'"clientID"\s*:\s*"([^"\\]+)')
_FREE: Final = Ruling(True, "authorizationWhitelist")
_UNJUDGED: Final = Ruling(True, "authorizationEnabled=false")
_NOBODYS_KEY: Final = SigningKey(b"nobody's key")


CHANGES: Final = Action.CREATE | Action.UPDATE | Action.DELETE
_NO_CHANGES: Final = (~CHANGES).value
ROUTINE: Final = frozenset(
    {
        *(RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.BROKER_HEARTBEAT),
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        *(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER),
        *(RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL),
    }
)
"""Requests by which brokers keep routes, about which no person decides, and those that tell of their changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one server.

    :param cluster: the server's own cluster.
    :param judges: False if accounts may do everything that concerns no cluster (``authorizationEnabled=false``).
    :param open_codes: request codes that need no account.
    :param free_codes: request codes that need an account and no right.
    """

    refusals: Refusals
    cluster: str
    judges: bool = True
    open_codes: frozenset[int] = field(default_factory=frozenset)
    free_codes: frozenset[int] = field(default_factory=frozenset)


class Guard:
    """Admits the requests of one server.

    :param refused: is told of every refusal.
    :param changed: is told of every administrative change, before it is carried out.
    """

    def __init__(
        self,
        accounts: Accounts,
        rules: Rules,
        failures: Failures,
        refused: Callable[[Told], None] | None = None,
        changed: Callable[[Told], None] | None = None,
    ) -> None:
        self._accounts = accounts
        self._rules = rules
        self._failures = failures
        self._refused = refused
        self._changed = changed
        self._callers: dict[tuple[str, str], KnownCaller] = {}
        self._remembered = 0
        self.remembered_limit = MAX_REMEMBERED_BYTES
        """The most bytes of memory for what callers were allowed."""
        self._noting: tuple[object, ...] = ()
        self._noted = 0
        self.client_of: Callable[[Channel], str] = _no_client
        """A function that returns the client id that a connection gave; a broker sets it."""

    def admit(self, request: Request, right: Right) -> None:
        """Let a request through, and note its caller in the request.

        :raises RequestRefused: the sender is nobody, not who it says, or lacks a right.
        """
        command = request.command
        if type(command.header) is SentHeader and self._has_admitted(request, command.header):
            return
        if right.who is Who.EVERYBODY:
            return
        self._noted = 0
        fields = fields_of(command)
        host = request.channel.remote[0]
        name = fields.get(ACCESS_KEY)
        is_open = command.code in self._rules.open_codes
        rule = "authenticationWhitelist" if is_open else self._accounts.unsigned(host, name)
        if rule is not None:
            proved = self._proved(request, name, host, fields) if is_open else None
            if name and proved is None:
                rule = UNPROVEN + rule
            request.caller = LetIn(self, name or "", rule) if proved is None else proved
            for need in needs_of(right, fields, self._rules.cluster):
                self.note_change(request, name or "", need, rule)
            return
        caller = self._caller(request, name, host, fields)
        request.caller = caller
        caller.check(request, right, fields)

    def _has_admitted(self, request: Request, header: SentHeader) -> bool:
        """Admit a send like an earlier one, without reading its fields; return False if it has to be looked at."""
        form = header.form
        if not form.access_key:
            return False
        caller = self.known(form.access_key, request.channel.remote[0])
        if (
            caller is None
            or not caller.has_passed((form.code, form.topic))
            or not caller.key.is_signature(header.signature, header.signed_values(), request.command.body)
            or not caller.account.is_enabled
        ):
            return False
        request.caller = caller
        return True

    def _caller(self, request: Request, name: str | None, host: str, fields: Mapping[str, str]) -> KnownCaller:
        """Return who sent a request.

        :raises RequestRefused: nobody did, or somebody else than the request says.
        """
        refusals = self._rules.refusals
        if not name:
            raise self._failed(request, "", refusals.nobody(), "no access key")
        caller = self.known(name, host)
        body = request.command.body
        if caller is None:
            _NOBODYS_KEY.has_signed(fields, body)
            raise self._failed(request, name, refusals.unknown(name), "no such account")
        if not caller.key.has_signed(fields, body):
            raise self._failed(request, name, refusals.unsigned(name), "wrong signature")
        if not caller.account.is_enabled:
            raise self._failed(request, name, refusals.disabled(name), "disabled account")
        return caller

    def _proved(self, request: Request, name: str | None, host: str, fields: Mapping[str, str]) -> KnownCaller | None:
        """Return who signed a request that needs no signature; None if nobody did rightly."""
        caller = self.known(name, host) if name else None
        if caller is None or not caller.account.is_enabled or not caller.key.has_signed(fields, request.command.body):
            return None
        return caller

    def find(self, name: str) -> Account | None:
        """Return the account of a name as it is now; None if there is none."""
        return self._accounts.find(name)

    def known(self, name: str, host: str) -> KnownCaller | None:
        """Return the account of a name at an address; None if there is none."""
        account = self._accounts.find(name)
        if account is None:
            return None
        known = self._callers.get((name, host))
        if known is None or known.account is not account:
            if known is not None:
                self._forget((name, host))
            elif len(self._callers) >= MAX_CALLERS:
                self._forget(next(iter(self._callers)))
            known = self._callers[name, host] = KnownCaller(self, self._rules, account, host)
        return known

    @property
    def remembered(self) -> int:
        """The bytes of memory for what callers were allowed."""
        return self._remembered

    def make_room(self, caller: KnownCaller, size: int) -> bool:
        """Count what a caller will remember; return False if the caller itself is not remembered any more."""
        while self._remembered + size > self.remembered_limit and self._callers:
            self._forget(next(iter(self._callers)))
        if self._callers.get((caller.name, caller.host)) is not caller:
            return False
        self._remembered += size
        return True

    def give_back(self, size: int) -> None:
        """Count no more what a caller has forgotten."""
        self._remembered -= size

    def _forget(self, key: tuple[str, str]) -> None:
        self._callers.pop(key).forget()

    def _failed(self, request: Request, name: str, refusal: RequestRefused, reason: str) -> RequestRefused:
        """Note a failed attempt; after too many of them its connection is closed behind the answer."""
        channel = request.channel
        self.note(request, name, "", Action(0), reason)
        if self._failures.failed(channel.remote[0]):
            request.answer(refusal.code, remark=refusal.remark)
            channel.close(TOO_MANY_FAILURES)
        return refusal

    def note(self, request: Request, name: str, resource: str, actions: Action, rule: str) -> None:
        """Write a refusal to the log, and tell of it; beyond ``MAX_NOTED`` of one request, only tell how many."""
        about = request.channel.remote, request.command.opaque, request.command.code
        if about != self._noting:  # a request that waited is judged again between others
            self._noting, self._noted = about, 0
        self._noted += 1
        if self._noted > MAX_NOTED:
            if self._refused is not None:
                self._refused(Told(name, request.channel.remote[0], request.command.code, "", "", MORE))
            return
        refused = self._told(request, name, resource, actions, rule)
        log.warning(
            "request refused",
            account=cut(name),
            remote=request.channel.remote_text,
            client=cut(refused.client),
            code=request_code_name(request.command.code),
            resource=cut(resource),
            action=refused.action,
            rule=rule,
        )
        if self._refused is not None:
            self._refused(refused)

    def note_need(self, request: Request, name: str, need: Need, rule: str) -> None:
        """Note that a right was refused."""
        self.note(request, name, f"{need.kind.value}:{need.name}", need.actions, rule)

    def note_change(self, request: Request, name: str, need: Need, rule: str) -> None:
        """Tell of a request that was admitted, if it is an administrative change."""
        if self._changed is not None and is_change(need) and request.command.code not in ROUTINE:
            self._changed(self._told(request, name, f"{need.kind.value}:{need.name}", need.actions, rule))

    def _told(self, request: Request, name: str, resource: str, actions: Action, rule: str) -> Told:
        channel, command = request.channel, request.command
        client = self.client_of(channel)
        if not client and command.code == RequestCode.HEART_BEAT:
            found = _CLIENT_ID.search(command.body, 0, SEARCHED_BYTES)
            client = "" if found is None else found[1].decode(errors="replace")
        return Told(name, channel.remote[0], command.code, resource, words(actions), rule, client)


class LetIn:
    """The sender of a request that a white list let in: it may be anybody, and may do all; implements ``Caller``."""

    __slots__ = ("_guard", "_named", "_rule")
    name = ""
    is_admin = True
    is_current = True

    def __init__(self, guard: Guard, named: str, rule: str) -> None:
        self._guard = guard
        self._named = named
        self._rule = rule

    def may(self, need: Need, /) -> bool:  # noqa: ARG002 - as declared
        """Return True."""
        return True

    def may_get(self, request: Request, needs: Iterable[Need], /) -> bool:  # noqa: ARG002 - as declared
        """Return True."""
        return True

    def allows(self, request: Request, need: Need, /) -> bool:
        """Return True, after the change is noted if it is one."""
        self.require(request, need)
        return True

    def require(self, request: Request, need: Need, /, shown: str = "") -> str:  # noqa: ARG002 - as declared
        """Return the rule of the white list."""
        self._guard.note_change(request, self._named, need, self._rule)
        return self._rule


class KnownCaller:
    """One account at one address, with what it was allowed so far; implements ``Caller``."""

    __slots__ = ("_guard", "_may", "_passed", "_remembered", "_rules", "account", "host", "key")

    def __init__(self, guard: Guard, rules: Rules, account: Account, host: str) -> None:
        self._guard = guard
        self._rules = rules
        self.account = account
        self.host = host
        self.key = SigningKey(account.secret)
        self._passed: set[tuple[object, ...]] = set()
        self._may: dict[Need, bool] = {}
        self._remembered = 0

    @property
    def name(self) -> str:
        """The access key or user name."""
        return self.account.name

    @property
    def is_admin(self) -> bool:
        """True for an administrator."""
        return self.account.is_admin

    @property
    def is_current(self) -> bool:
        """True while the account was not replaced by a changed one, or removed."""
        return self._guard.find(self.name) is self.account

    def has_passed(self, kind: tuple[object, ...]) -> bool:
        """Return whether requests with this code and these names are known to be allowed."""
        return kind in self._passed

    def check(self, request: Request, right: Right, fields: Mapping[str, str]) -> None:
        """Return if the account may send a request.

        :raises RequestRefused: the account lacks a right.
        """
        names = [fields.get(named.field) for named in right.named]
        kind = (request.command.code, *names)
        if right.who is not Who.ACCOUNT:  # not remembered: the servers of a process may want other rights for a code
            self._require_admin(request)
        if self.has_passed(kind):
            return
        needs = needs_of(right, fields, self._rules.cluster)
        for need in needs:
            self.require(request, need)
        if any(map(is_change, needs)):  # each is told of
            return
        if self._has_room(names):
            self._passed.add(kind)

    def may(self, need: Need, /) -> bool:
        """Return whether the account, as it is now, is enabled, and has the same secret key and a right."""
        known = self._guard.known(self.name, self.host)
        if known is None or not known.account.is_enabled or known.account.secret != self.account.secret:
            return False
        return known.has(need)

    def has(self, need: Need) -> bool:
        """Return whether the account has a right; remembered, because many connections may be asked about."""
        found = self._may.get(need)
        if found is None:
            found = not self._rules.judges or self.account.judge(need, self.host).allowed
            if self._has_room([need.name]):
                self._may[need] = found
        return found

    def forget(self) -> None:
        """Forget what the account was allowed: the next request is judged again."""
        self._passed.clear()
        self._may.clear()
        self._guard.give_back(self._remembered)
        self._remembered = 0

    def _has_room(self, names: list[str | None]) -> bool:
        """Count one more kind or right with these names; return False if it is not to be remembered."""
        if sum(len(name) for name in names if name) > MAX_KIND_CHARACTERS:
            return False
        if len(self._passed) + len(self._may) >= MAX_PASSED:
            self.forget()
        size = KIND_BYTES + sum(_bytes_of(name) for name in names if name)
        if not self._guard.make_room(self, size):
            return False
        self._remembered += size
        return True

    def may_get(self, request: Request, needs: Iterable[Need], /) -> bool:
        """Return whether a client of the account may get a request of the broker; a refusal is noted."""
        try:
            account = self._current(request)
        except RequestRefused:
            return False
        for need in needs if self._rules.judges else ():
            ruling = account.judge(need, self.host)
            if not ruling.allowed:
                self._guard.note_need(request, account.name, need, ruling.rule)
                return False
        return True

    def allows(self, request: Request, need: Need, /) -> bool:
        """Return whether the account has a right; a refusal is noted."""
        try:
            return self._ruled(request, need).allowed
        except RequestRefused:
            return False

    def require(self, request: Request, need: Need, /, shown: str = "") -> str:
        """Return the rule that gives the account a right.

        :param shown: the name in a refusal, if the sender is not to learn the real one.
        :raises RequestRefused: the account lacks the right.
        """
        ruling = self._ruled(request, need)
        if not ruling.allowed:
            named = Need(need.kind, shown, need.actions) if shown else need
            raise self._rules.refusals.denied(self.name, request.command.code, self.host, named, ruling)
        return ruling.rule

    def _ruled(self, request: Request, need: Need) -> Ruling:
        """Decide about a right; a refusal is noted, and so is a change that is allowed.

        :raises RequestRefused: the account is gone or disabled, or only administrators have the right.
        """
        account, rules = self._current(request), self._rules
        if request.command.code in rules.free_codes:
            ruling = _FREE
        elif not rules.judges:
            if need.kind is Kind.CLUSTER or needs_own_name(need):
                self._require_admin(request)
            ruling = _UNJUDGED
        else:
            ruling = account.judge(need, self.host)
        if ruling.allowed:
            self._guard.note_change(request, account.name, need, ruling.rule)
        else:
            self._guard.note_need(request, account.name, need, ruling.rule)
        return ruling

    def _current(self, request: Request) -> Account:
        """Return the account as it is now, because the request may have waited.

        :raises RequestRefused: the account is gone or disabled, or has another secret key.
        """
        now, refusals = self._guard.find(self.name), self._rules.refusals
        if now is self.account:
            return now
        if now is None:
            refusal, reason = refusals.unknown(self.name), "no such account"
        elif not now.is_enabled:
            refusal, reason = refusals.disabled(self.name), "disabled account"
        elif now.secret != self.account.secret:
            refusal, reason = refusals.unsigned(self.name), "wrong signature"
        else:
            return now
        self._guard.note(request, self.name, "", Action(0), reason)
        raise refusal

    def _require_admin(self, request: Request) -> None:
        account, code, rules = self.account, request.command.code, self._rules
        if not account.is_admin and code not in rules.free_codes:
            self._guard.note(request, account.name, f"Cluster:{rules.cluster}", Action(0), "no admin")
            raise rules.refusals.no_admin(account.name, code, self.host, rules.cluster)


def _bytes_of(name: str) -> int:
    """Return the memory of a name, with its UTF-8 form, which Python keeps beside it once somebody has asked for it."""
    return sys.getsizeof(name) + (0 if name.isascii() else UTF8_BYTES * len(name))


def _no_client(_channel: Channel) -> str:
    return ""


def is_change(need: Need) -> bool:
    """Return whether only a change needs this."""
    return not need.actions.value & _NO_CHANGES


def fields_of(command: RemotingCommand) -> Mapping[str, str]:
    """Return the header fields of a command, which keeps the form in which its header was read."""
    text = command.fields_json()
    return command.ext_fields if text is None else parse_ext_fields(text)
