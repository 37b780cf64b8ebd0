"""Servers with accounts, as processes: who gets in, what the log and the audit file say, and what ends a start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from gateway.client import AclError, Message, Producer, ProducerSettings
from gateway.client.testing.server import GatewayServer

PLAIN_ACL = """\
globalWhiteRemoteAddresses:
accounts:
- accessKey: rocketmq2
  secretKey: "12345678"
  admin: true
- accessKey: shop-key
  secretKey: shop-secret
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB|SUB
"""
ROOT = {"username": "root", "password": "root-secret"}
SHOP = {
    "username": "shop-key",
    "password": "shop-secret",
    "policies": [
        {"entries": [{"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}]},
    ],
}


def producer(server: GatewayServer, access_key: str | None, secret_key: str | None) -> Producer:
    """Return a producer with these keys."""
    return Producer(
        "producers",
        ProducerSettings(namesrv=server.nameserver, access_key=access_key, secret_key=secret_key),
    )


def files_of(kind: str, directory: Path) -> dict[str, str]:
    """Write the accounts of a generation, and return the settings that switch it on."""
    if kind == "plain":
        file = directory / "plain_acl.yml"
        file.write_text(PLAIN_ACL)
        return {"aclEnable": "true", "gateway.aclFile": str(file)}
    file = directory / "access.json"
    file.write_text(json.dumps({"users": [SHOP]}))
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "gateway.accessFile": str(file),
        "initAuthenticationUser": json.dumps(ROOT),
    }


@pytest.mark.parametrize(
    ("kind", "refused", "unknown", "nobody"),
    [
        ("plain", "No default permission for topic:others", "No acl config for stranger", "No accessKey is configured"),
        ("users", "User:shop-key has no permission to access Topic:others", "User:stranger is", "username cannot be"),
    ],
)
def test_a_broker_and_its_name_server_let_in_who_has_an_account(
    tmp_path: Path, kind: str, refused: str, unknown: str, nobody: str
) -> None:
    audit = tmp_path / "audit.jsonl"
    settings = {**files_of(kind, tmp_path), "gateway.auditFile": str(audit)}
    with GatewayServer(settings=settings) as server:
        with producer(server, "shop-key", "shop-secret") as shop:
            shop.send(Message("orders", b"paid"))
            with pytest.raises(AclError, match=refused):
                shop.send(Message("others", b"paid"))
        for keys, text in ((("shop-key", "wrong-secret"), "ignature failed"), (("stranger", "secret-1"), unknown)):
            with producer(server, *keys) as other, pytest.raises(AclError, match=text):
                other.send(Message("orders", b"paid"))
        with producer(server, None, None) as open_, pytest.raises(AclError, match=nobody):
            open_.send(Message("orders", b"paid"))
        log = server.log.read_text()
        accounts = {"plain": "ACL 1.0", "users": "users of 5.3"}[kind]
        told = [line for line in log.splitlines() if "every request is checked" in line]
        for enforced in ('server="name server"', "server=broker"):
            (line,) = [line for line in told if enforced in line]
            assert f'accounts="{accounts}"' in line
            assert settings.get("gateway.aclFile", settings.get("gateway.accessFile", "")) in line
        assert "secret" not in log
    entries = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {entry["account"] for entry in entries if "account" in entry} == {"shop-key", "stranger"}
    assert {entry.get("resource") for entry in entries} == {None, "Topic:others"}
    with_client = {(entry["request"], entry.get("resource")) for entry in entries if "@" in entry.get("client", "")}
    assert with_client >= {("HEART_BEAT", None), ("SEND_MESSAGE_V2", "Topic:others")}
    assert "secret" not in audit.read_text()
    assert audit.stat().st_mode & 0o777 == 0o600


def test_a_changed_file_counts_within_a_second(tmp_path: Path) -> None:
    settings = files_of("users", tmp_path)
    with GatewayServer(settings=settings) as server, producer(server, "shop-key", "shop-secret") as shop:
        shop.send(Message("orders", b"paid"))
        file = Path(settings["gateway.accessFile"])
        file.write_text(json.dumps({"users": [{**SHOP, "userStatus": "disable"}, {**ROOT, "userType": "Super"}]}))
        with pytest.raises(AclError, match="User:shop-key is disabled"):
            _send_many(shop)


def _send_many(shop: Producer) -> None:
    until = monotonic() + 30  # a busy machine may be late
    while monotonic() < until:
        shop.send(Message("orders", b"paid"))


def test_brokers_of_one_command_register_with_their_own_keys(tmp_path: Path) -> None:
    settings = files_of("users", tmp_path)
    command = [sys.executable, "-m", "gateway.cli", "serve", "--brokers", "2", "--data", str(tmp_path / "data")]
    command += ["--port", "0", "--nameserver-port", "0"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "innerClientAuthenticationCredentials" in done.stderr
    command += ["--set", 'innerClientAuthenticationCredentials={"accessKey": "inner", "secretKey": "inner-secret"}']
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        nameserver = process.stdout.readline().split()[1].partition("=")[2]
        try:
            keys = ProducerSettings(namesrv=nameserver, access_key="root", secret_key="root-secret")
            with Producer("producers", keys) as root:
                brokers = {root.send(Message("orders", b"paid")).queue.broker_name for _ in range(40)}
            assert len(brokers) == 2
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"aclEnable": "true"}, "nothing says where plain_acl.yml is"),
        ({"aclEnable": "true", "gateway.aclFile": "/no/where.yml"}, "/no/where.yml"),
        ({"authenticationEnabled": "true"}, "has no enabled user of type Super"),
        ({"authorizationEnabled": "true"}, "anybody could send any user's name"),
        ({"authenticationEnabled": "true", "aclEnable": "true"}, "one kind of accounts at a time"),
    ],
)
def test_a_start_ends_if_nobody_could_be_let_in(tmp_path: Path, settings: dict[str, str], text: str) -> None:
    command = [sys.executable, "-m", "gateway.cli", "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
    assert text in done.stderr.splitlines()[-1]
    assert "listening" not in done.stderr
