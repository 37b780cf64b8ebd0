"""``access user`` and ``access acl`` against a server's own edits, over a socket that is none."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.access.policies.access_file import parse_users
from gateway.cli.main import cli
from gateway.remoting.declared import Action, Kind, Need
from gateway.tests.cli.access.users_server import UsersServer

PASSWORD = "very-secret"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> UsersServer:
    server = UsersServer()
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: server)
    return server


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["access", *arguments], input=given)


def done(*arguments: str, given: str | None = None) -> str:
    result = run(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def shop(*arguments: str) -> None:
    done("user", "create", "shop", *arguments, "--password-file", "-", given=f"{PASSWORD}\n")


def judged(server: UsersServer, kind: Kind, name: str, action: Action, host: str = "10.1.2.3") -> bool:
    return server.users["shop"].judge(Need(kind, name, action), host).allowed


def test_a_user_is_made_shown_changed_and_deleted(server: UsersServer) -> None:
    shop()
    assert server.users["shop"].password == PASSWORD
    assert [line.split() for line in done("user", "list").splitlines()] == [
        ["USER", "KIND", "STATUS"],
        ["shop", "Normal", "enable"],
    ]
    done("user", "change", "shop", "--disable", "--super")
    assert (server.users["shop"].is_enabled, server.users["shop"].is_admin) == (False, True)
    assert server.users["shop"].password == PASSWORD, "what is not named stays"
    done("user", "delete", "shop")
    assert "shop" not in server.users


def test_a_password_is_never_an_argument_and_never_printed(server: UsersServer, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{PASSWORD}\nanother line\n")
    done("user", "create", "shop", "--password-file", str(file))
    shown = done("user", "list", "--json") + done("user", "show", "shop", "--json") + done("user", "show", "shop")
    assert PASSWORD not in shown
    assert "password" not in shown
    assert PASSWORD not in str(run("user", "create", "shop", "--password-file", "-", given=f"{PASSWORD}\n").output)
    assert "Usage" in run("user", "create", "other", PASSWORD).output


def test_a_generated_password_is_long_and_printed_once(server: UsersServer) -> None:
    printed = done("user", "create", "shop", "--generate")
    assert f"password: {server.users['shop'].password}" in printed
    assert len(server.users["shop"].password) >= 32
    before = server.users["shop"].password
    done("user", "change", "shop", "--generate")
    assert server.users["shop"].password != before


@pytest.mark.parametrize(
    ("arguments", "given", "text"),
    [
        (("user", "create", "shop"), "", "--password-file FILE, or --generate"),
        (("user", "create", "shop", "--password-file", "-"), "\n", "the first line of - is empty"),
        (("user", "create", "shop", "--password-file", "/none"), "", "/none cannot be read"),
        (("user", "create", "shop", "--password-file", "-", "--generate"), "x\n", "exclude each other"),
        (("user", "change", "shop"), "", "nothing to change"),
        (("acl", "remove", "shop"), "", "or --all"),
        (("user", "list", "--broker", "nowhere"), "", "'nowhere' is not one HOST:PORT"),
    ],
)
def test_what_cannot_work_names_the_fix(server: UsersServer, arguments: list[str], given: str, text: str) -> None:
    result = run(*arguments, given=given)
    assert result.exit_code == 2
    assert text in result.output
    assert not server.asked


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("user", "show", "nobody"), "there is no user 'nobody'"),
        (("user", "delete", "nobody"), "there is no user 'nobody'"),
        (("acl", "allow", "nobody", "Topic:t", "Pub"), "User:nobody is not exist"),
        (("acl", "allow", "shop", "Topc:t", "Pub"), "'Topc:t' is not TYPE:NAME"),
        (("acl", "allow", "shop", "Topic:t", "Send"), "'Send' is none of All, Pub"),
        (("acl", "allow", "shop", "Topic:t", "Pub", "--from", "home"), "'home' is no IP address"),
        (("acl", "remove", "shop", "--all"), "The acl is not exist"),
    ],
)
def test_a_refusal_of_the_server_is_one_line(server: UsersServer, arguments: list[str], text: str) -> None:
    shop()
    result = run(*arguments)
    assert result.exit_code == 1
    assert text in result.output


def test_entries_are_added_listed_and_removed(server: UsersServer) -> None:
    shop()
    done("acl", "allow", "shop", "Topic:shop-*", "pub,sub", "--from", "10.1.0.0/16,10.2.0.1", "--from", "::1")
    done("acl", "deny", "shop", "Topic:shop-secret", "All")
    assert judged(server, Kind.TOPIC, "shop-orders", Action.PUB)
    assert not judged(server, Kind.TOPIC, "shop-orders", Action.PUB, host="10.2.0.2")
    assert not judged(server, Kind.TOPIC, "shop-secret", Action.PUB)
    rows = [line.split() for line in done("acl", "list", "--resource", "shop-").splitlines()[1:]]
    assert rows == [
        ["shop", "Custom", "Topic:shop-*", "Allow", "Pub,Sub", "10.1.0.0/16,10.2.0.1,::1"],
        ["shop", "Custom", "Topic:shop-secret", "Deny", "All", "everywhere"],
    ]
    assert [info["subject"] for info in json.loads(done("acl", "list", "--user", "sho", "--json"))] == ["User:shop"]
    done("acl", "remove", "shop", "Topic:shop-secret")
    assert judged(server, Kind.TOPIC, "shop-secret", Action.PUB)
    done("acl", "remove", "shop", "--all")
    assert done("user", "show", "shop").splitlines()[-1] == "no policies"


def test_a_role_is_in_the_default_policy_and_can_be_taken_back(server: UsersServer) -> None:
    shop()
    done("acl", "role", "shop", "client")
    assert judged(server, Kind.TOPIC, "RMQ_SYS_TRACE_TOPIC", Action.PUB)
    assert judged(server, Kind.TOPIC, "TBW102", Action.GET)
    assert not judged(server, Kind.TOPIC, "orders", Action.PUB)
    shown = done("user", "show", "shop", "--json")
    assert {policy["policyType"] for policy in json.loads(shown)["policies"]} == {"Default"}
    done("acl", "deny", "shop", "Topic:TBW102", "Get")
    assert not judged(server, Kind.TOPIC, "TBW102", Action.GET), "a Custom entry wins"
    done("acl", "remove", "shop", "Topic:RMQ_SYS_TRACE_TOPIC", "--default")
    assert not judged(server, Kind.TOPIC, "RMQ_SYS_TRACE_TOPIC", Action.PUB)


def test_a_viewer_may_look_at_everything_and_change_nothing(server: UsersServer) -> None:
    shop()
    done("acl", "role", "shop", "viewer")
    for kind in Kind:
        assert judged(server, kind, "anything", Action.GET)
        for action in (Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE, Action.DELETE):
            assert not judged(server, kind, "anything", action)


def test_a_table_of_the_server_cannot_move_the_cursor(server: UsersServer, monkeypatch: pytest.MonkeyPatch) -> None:
    shop()
    monkeypatch.setattr("gateway.cli.access.users._cells", lambda info: ("\x1b[2J\nroot", "Super", "enable"))
    assert r"\u001b[2J\u000aroot" in done("user", "list")


def test_requests_are_signed_with_the_keys_of_the_environment(
    server: UsersServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server.secret = b"hush"
    refused = run("user", "list")
    assert refused.exit_code == 1
    assert "username cannot be null." in refused.output
    assert "ROCKETMQ_ACCESS_KEY" in refused.output
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "root")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "hush")
    done("user", "list")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "other")
    assert "check signature failed." in run("user", "list").output
    monkeypatch.delenv("ROCKETMQ_ACCESS_KEY")
    monkeypatch.delenv("ROCKETMQ_SECRET_KEY")
    file = tmp_path / "key"
    file.write_text("AccessKey=root\nSecretKey=hush\n")
    monkeypatch.setenv("ROCKETMQ_CREDENTIALS_FILE", str(file))
    done("user", "list")
    monkeypatch.setenv("ROCKETMQ_CREDENTIALS_FILE", str(tmp_path / "none"))
    missing = run("user", "list")
    assert missing.exit_code == 2
    assert "credentials_file is" in missing.output


def test_the_connection_is_encrypted_if_the_environment_says_so(
    server: UsersServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped: list[str] = []

    class Context:
        def wrap_socket(self, plain: UsersServer, *, server_hostname: str) -> UsersServer:
            wrapped.append(server_hostname)
            return plain

    monkeypatch.setattr("gateway.client.connect.tls.tls_context", lambda tls: Context())
    monkeypatch.setenv("ROCKETMQ_TLS", "true")
    done("user", "list", "--broker", "mq.example.com:10911")
    assert wrapped == ["mq.example.com"]


def test_the_terminal_is_asked_for_a_password(server: UsersServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cli.access.users._asks_terminal", lambda: True)
    printed = done("user", "create", "shop", given=f"{PASSWORD}\n{PASSWORD}\n")
    assert server.users["shop"].password == PASSWORD
    assert PASSWORD not in printed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "access.json"


def test_the_file_of_a_server_is_changed_in_the_same_way(file: Path) -> None:
    at = ("--file", str(file))
    done("user", "create", "shop", "--password-file", "-", *at, given=f"{PASSWORD}\n")
    done("acl", "role", "shop", "client", *at)
    done("acl", "allow", "shop", "Topic:orders", "Pub", *at)
    done("user", "change", "shop", "--disable", *at)
    users = parse_users(file.read_bytes())
    assert users["shop"].password == PASSWORD
    assert not users["shop"].is_enabled
    assert users["shop"].judge(Need(Kind.TOPIC, "orders", Action.PUB), "::1").allowed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "orders" in done("acl", "list", "--user", "shop", "--resource", "orders", *at)
    assert PASSWORD not in done("user", "list", *at) + done("user", "show", "shop", *at)
    done("acl", "remove", "shop", "--all", *at)
    done("user", "delete", "shop", *at)
    assert not parse_users(file.read_bytes())


def test_a_file_that_cannot_be_used_is_not_written(file: Path) -> None:
    file.write_text('{"users": [\n{"username": "a", "password": "very-secret", "usertype": "Super"}]}')
    before = file.read_bytes()
    result = run("user", "create", "shop", "--generate", "--file", str(file))
    assert result.exit_code == 2
    assert "line 2" in result.output
    assert "very-secret" not in result.output
    assert file.read_bytes() == before


def test_a_refused_change_leaves_the_file_as_it_was(file: Path) -> None:
    done("user", "create", "shop", "--password-file", "-", "--file", str(file), given=f"{PASSWORD}\n")
    before = file.read_bytes()
    result = run("acl", "allow", "nobody", "Topic:t", "Pub", "--file", str(file))
    assert result.exit_code == 1
    assert "User:nobody is not exist" in result.output
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["user", "list"],
        ["user", "show", "shop"],
        ["user", "change", "shop", "--disable"],
        ["user", "delete", "shop"],
        ["acl", "list"],
        ["acl", "allow", "shop", "Topic:t", "Pub"],
        ["acl", "remove", "shop", "--all"],
        ["explain", "shop", "310", "Topic:t"],
    ],
)
def test_a_misspelt_file_is_no_file_without_users(tmp_path: Path, arguments: list[str]) -> None:
    misspelt = tmp_path / "config" / "acess.json"
    result = run(*arguments, "--file", str(misspelt))
    assert (result.exit_code, f"there is no file {misspelt}" in result.output) == (2, True)
    assert not misspelt.parent.exists()
