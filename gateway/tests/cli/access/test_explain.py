"""``access explain`` says what the guard of a server does; ``access check`` looks at files before their use."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.access.explain import steps
from gateway.cli.access.rights import _in_body, right_of
from gateway.cli.main import cli
from gateway.errors import RequestRefused
from gateway.remoting.declared import Kind, Need, Who
from gateway.remoting.dispatch import Request
from gateway.tests.access.accounts import FakeAccount, FakeAccounts, everything, guard_of
from gateway.tests.access.test_every_request import channel, rights
from gateway.tests.cli.access.users_server import UsersServer
from wire.codes import RequestCode
from wire.command import RemotingCommand

PLAIN_ACL = """\
globalWhiteRemoteAddresses:
- 10.9.9.*
accounts:
- accessKey: shop-key
  secretKey: very-secret
  whiteRemoteAddress: 192.0.2.1
  defaultTopicPerm: DENY
  topicPerms:
  - orders=PUB
- accessKey: root-key
  secretKey: very-secret
  admin: true
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with a user that may send to orders, from one network only."""
    found = str(tmp_path / "access.json")
    for arguments in (
        ("user", "create", "shop", "--generate"),
        ("user", "create", "root", "--super", "--generate"),
        ("acl", "allow", "shop", "Topic:ord*", "Pub", "--from", "10.0.0.0/8"),
        ("acl", "deny", "shop", "Topic:order-log", "All"),
        ("acl", "role", "shop", "client"),
    ):
        assert run(*arguments, "--file", found).exit_code == 0
    return found


@pytest.fixture
def plain(tmp_path: Path) -> str:
    found = tmp_path / "plain_acl.yml"
    found.write_text(PLAIN_ACL)
    found.chmod(0o600)
    return str(found)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["access", *arguments])


@pytest.mark.parametrize(
    ("arguments", "code", "texts"),
    [
        (["shop", "310", "Topic:orders"], 0, ["Topic:orders Pub from 10.1.2.3: Custom Topic:ord* Allow Pub from 10."]),
        (["shop", "send_message_v2", "topic:order-log"], 1, ["refused", "Custom Topic:order-log Deny All"]),
        (["shop", "310", "Topic:bills"], 1, ["no matched policies"]),
        (["shop", "310", "Topic:orders", "--from", "192.0.2.1"], 1, ["no matched policies"]),
        (["shop", "PULL_MESSAGE", "Topic:orders", "Group:g"], 1, ["Topic:orders Sub", "Group:g Sub"]),
        (["shop", "HEART_BEAT", "Group:g"], 1, ["Group:g Sub", "no matched policies"]),
        (["shop", "UPDATE_BROKER_CONFIG"], 1, ["an administrator: is none"]),
        (["root", "UPDATE_BROKER_CONFIG"], 0, ["an administrator: is one"]),
        (["root", "310", "Topic:any"], 0, ["Super user"]),
        (["nobody", "310", "Topic:orders"], 1, ["there is no such account"]),
        (["shop", "310"], 0, ["not looked at, since none was given: Topic:NAME"]),
        (["shop", "4711"], 1, ["of no name (4711)", "an administrator: is none"]),
        (["shop", "310", "Topic:RMQ_SYS_TRACE_TOPIC"], 0, ["Default Topic:RMQ_SYS_TRACE_TOPIC Allow Pub"]),
    ],
)
def test_the_rule_that_decides_is_named(file: str, arguments: list[str], code: int, texts: list[str]) -> None:
    result = run("explain", "--from", "10.1.2.3", *arguments, "--file", file)
    assert result.exit_code == code, result.output
    for text in texts:
        assert text in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["shop-key", "310", "Topic:orders"], 0, "topicPerms: orders=PUB"),
        (["shop-key", "310", "Topic:bills"], 1, "defaultTopicPerm: DENY"),
        (["shop-key", "310", "Topic:bills", "--from", "192.0.2.1"], 0, "whiteRemoteAddress of shop-key"),
        (["nobody", "25", "--from", "10.9.9.7"], 0, "globalWhiteRemoteAddresses: 10.9.9.*"),
        (["root-key", "17", "Topic:new"], 0, "admin: true"),
        (["shop-key", "17", "Topic:new"], 1, "admin: false"),
    ],
)
def test_accounts_of_acl_1_are_explained_as_well(plain: str, arguments: list[str], code: int, text: str) -> None:
    result = run("explain", *arguments, "--acl", plain)
    assert result.exit_code == code, result.output
    assert text in result.output
    assert "very-secret" not in result.output


def test_a_running_broker_is_asked_about_the_user_only(monkeypatch: pytest.MonkeyPatch) -> None:
    server = UsersServer()
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: server)
    assert run("user", "create", "shop", "--generate").exit_code == 0
    assert run("acl", "allow", "shop", "Topic:orders", "Pub").exit_code == 0
    server.asked.clear()
    assert run("explain", "shop", "310", "Topic:orders").exit_code == 0
    assert run("explain", "shop", "310", "Topic:bills").exit_code == 1
    assert {command.code for command in server.asked} == {RequestCode.AUTH_GET_USER, RequestCode.AUTH_GET_ACL}
    assert run("user", "change", "shop", "--disable").exit_code == 0
    assert "the user is disabled" in run("explain", "shop", "310", "Topic:orders").output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["shop", "SEND_MESAGE", "Topic:t"], "is no request code"),
        (["shop", "send_message_v", "Topic:t"], "did you mean SEND_MESSAGE_V2"),
        (["shop", "310", "orders"], "is not Topic:NAME"),
        (["shop", "310", "Topic:a", "Topic:b"], "one resource of each kind"),
        (["shop", "310", "Topic:a", "--from", "home"], "'home' is no IP address"),
    ],
)
def test_what_cannot_be_explained_names_the_fix(file: str, arguments: list[str], text: str) -> None:
    result = run("explain", *arguments, "--file", file)
    assert result.exit_code == 2
    assert text in result.output


@cache
def _accounts() -> list[FakeAccount]:
    return [
        FakeAccount("shop"),
        FakeAccount("shop", *everything()),
        FakeAccount("shop", *everything(Kind.TOPIC)),
        FakeAccount("shop", *everything(), denied=[Need(Kind.TOPIC, "t", everything()[0].actions)]),
        FakeAccount("shop", is_admin=True),
        FakeAccount("shop", *everything(), is_enabled=False),
    ]


@pytest.mark.parametrize("code", sorted(rights()))
def test_what_is_explained_is_what_the_guard_does(code: int) -> None:
    right = right_of(code)
    assert right == rights()[code]
    names = {Kind.TOPIC: "t", Kind.GROUP: "g", Kind.CLUSTER: "DefaultCluster"}
    fields = {named.field: names[named.kind] for named in right.named if named.field}
    resources = {named.kind: names[named.kind] for named in right.named if named.field}
    for account in _accounts():
        command = account.sign(RemotingCommand(code, ext_fields=dict(fields)))
        try:
            guard_of(account).admit(Request(channel(), command), right)
            is_admitted = True
        except RequestRefused:
            is_admitted = False
        found = list(steps(FakeAccounts(account), "shop", right, resources, "192.0.2.7"))
        assert all(step.is_allowed for step in found) is is_admitted, found


def test_the_text_about_every_body_can_be_read() -> None:
    for right in rights().values():
        assert right.who is Who.ACCOUNT or not right.in_body
        assert bool(_in_body(right)) == bool(right.in_body), right.in_body


def test_a_good_file_is_summed_up_with_warnings(file: str, plain: str) -> None:
    shown = run("check", file)
    assert shown.exit_code == 0
    assert "2 users, 5 entries of policies" in shown.output
    assert "Warning" not in shown.output
    shown = run("check", plain)
    assert "2 accounts, 1 entries of the global white list" in shown.output


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.json", '{"users": [{"username": "a", "password": "very-secret"}]}', "no enabled user is Super"),
        ("a.json", '{"users": [{"username": "a", "password": "very-secret"}]}', "user a has no policies"),
        ("a.yml", PLAIN_ACL.replace("10.9.9.*", "'*'"), "lets every peer do everything without a key"),
        ("a.yml", PLAIN_ACL.replace("admin: true", "admin: false"), "no account has admin: true"),
        ("a.yml", PLAIN_ACL + "  topicPerms:\n  - t=PUB\n", "root-key is admin, and its topicPerms"),
        ("a.yml", PLAIN_ACL.replace("192.0.2.1", "'*'"), "whiteRemoteAddress of shop-key lets everybody"),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(tmp_path: Path, name: str, content: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    result = run("check", str(file))
    assert result.exit_code == 0, result.output
    assert text in result.output
    assert f"chmod 600 {file}" in result.output
    assert "very-secret" not in result.output


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.json", '{"users": [\n{"username": "a", "passwort": "very-secret"}]}', "a.json, line 2: "),
        ("a.json", "", "a.json, line 1: "),
        ("a.yml", PLAIN_ACL.replace("orders=PUB", "orders=SEND"), "line 9"),
        ("a.yml", PLAIN_ACL.replace("very-secret", "short"), "at least 7"),
        ("a.yml", "accounts:\n\t- a: b\n", "line 2"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_line(
    tmp_path: Path, name: str, content: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    result = run("check", str(file))
    assert result.exit_code in (1, 2)
    assert text in result.output
    assert "very-secret" not in result.output


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    assert run("check", str(tmp_path / "none.yml")).exit_code == 2
