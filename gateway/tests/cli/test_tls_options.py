"""Commands that connect, against brokers that speak TLS only, plain only, and both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import cli
from gateway.cli.tls_options import TlsOptions
from gateway.client import ConfigurationError, TlsSettings
from gateway.client.testing.server import GatewayServer
from gateway.tests.remoting.tls.speaking import Signed, signed

BODY = '{"body": "hello"}\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Signed:
    return signed(folder, "authority")


@pytest.fixture(scope="module")
def friend(folder: Path, authority: Signed) -> Signed:
    return signed(folder, "friend", by=authority)


@pytest.fixture(scope="module")
def enforcing(folder: Path, authority: Signed, friend: Signed) -> Iterator[GatewayServer]:
    own = signed(folder, "own", by=authority)
    settings = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(own.certificate_file),
        "tls.server.keyPath": str(own.key_file),
        "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": str(authority.certificate_file),
    }
    with GatewayServer(settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def disabled() -> Iterator[GatewayServer]:
    with GatewayServer(settings={"tls.server.mode": "disabled"}) as server:
        yield server


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "_CA_FILE", "_CERT_FILE", "_KEY_FILE", "_KEY_PASSWORD", "_VERIFY"):
        monkeypatch.delenv(f"ROCKETMQ_TLS{name}", raising=False)


def shown(authority: Signed, friend: Signed) -> list[str]:
    """The options that the enforcing server wants."""
    files = {
        "--tls-ca": authority.certificate_file,
        "--tls-cert": friend.certificate_file,
        "--tls-key": friend.key_file,
    }
    return [text for name, file in files.items() for text in (name, str(file))]


def stats(server: GatewayServer, *more: str) -> Result:
    return CliRunner().invoke(cli, ["transactions", "stats", "--json", "-b", server.broker, *more])


def produced(server: GatewayServer, *more: str) -> Result:
    return CliRunner().invoke(cli, ["produce", "orders", "-n", server.nameserver, *more], input=BODY)


def test_every_command_works_with_options(enforcing: GatewayServer, authority: Signed, friend: Signed) -> None:
    options = shown(authority, friend)
    assert json.loads(stats(enforcing, *options).stdout)["pending"] == 0
    assert produced(enforcing, *options).exit_code == 0
    at = ["orders", "-n", enforcing.nameserver, "--from", "earliest", "--count", "1", *options]
    for command in (["tail", "--no-follow"], ["consume", "--group", "g", "--idle", "20"]):
        result = CliRunner().invoke(cli, [*command, *at])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["body"] == "hello"


def test_every_command_works_with_the_environment(
    enforcing: GatewayServer, authority: Signed, friend: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_TLS_CA_FILE", str(authority.certificate_file))
    monkeypatch.setenv("ROCKETMQ_TLS_CERT_FILE", str(friend.certificate_file))
    monkeypatch.setenv("ROCKETMQ_TLS_KEY_FILE", str(friend.key_file))
    assert stats(enforcing).exit_code == 0
    assert produced(enforcing).exit_code == 0
    refused = stats(enforcing, "--no-tls")
    assert (refused.exit_code, "add --tls" in refused.stderr) == (2, True)


def test_a_plain_command_at_a_server_of_tls_is_told_what_to_add(enforcing: GatewayServer) -> None:
    result = stats(enforcing)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: the connection to {enforcing.broker} failed: closed by the other side; if the server speaks TLS only "
        "(tls.server.mode=enforcing), add --tls\n"
    )
    result = produced(enforcing)
    assert result.exit_code == 1
    assert "does the server speak TLS only? tls=True, or ROCKETMQ_TLS=true" in result.stderr


def test_a_command_of_tls_at_a_plain_server_is_told_what_to_leave_out(disabled: GatewayServer) -> None:
    result = stats(disabled, "--tls-any")
    assert result.exit_code == 2
    assert f"Error: no TLS with {disabled.broker}: " in result.stderr
    assert result.stderr.endswith("; does the server speak TLS there? --no-tls connects in plain\n")
    assert "does the server speak TLS here" in produced(disabled, "--tls-any").stderr
    assert stats(disabled, "--tls-any", "--no-tls").exit_code == 0


def test_a_certificate_that_nobody_trusts_is_told_with_what_to_do(enforcing: GatewayServer) -> None:
    result = stats(enforcing, "--tls")
    assert result.exit_code == 2
    assert "; --tls-ca FILE names the authorities that sign it; --tls-any accepts any\n" in result.stderr
    assert "_ssl.c" not in result.stderr


def test_a_missing_certificate_of_the_client_is_told(enforcing: GatewayServer, authority: Signed) -> None:
    result = stats(enforcing, "--tls-ca", str(authority.certificate_file))
    assert result.exit_code == 2
    assert "CERTIFICATE_REQUIRED" in result.stderr


def test_a_file_that_is_not_there_is_a_mistake_of_the_user(disabled: GatewayServer) -> None:
    for result in (stats(disabled, "--tls-ca", "/no/ca.pem"), produced(disabled, "--tls-ca", "/no/ca.pem")):
        assert result.exit_code == 2
        assert "made of readable PEM files" in result.stderr
        assert "/no/ca.pem" in result.stderr


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        ({}, TlsOptions(), False),
        ({"": "true"}, TlsOptions(), True),
        ({"": "true"}, TlsOptions(tls=False), False),
        ({}, TlsOptions(tls=True), True),
        ({"": "false"}, TlsOptions(tls_any=True), TlsSettings(verify=False)),
        ({"": "false", "_CA_FILE": "ca"}, TlsOptions(), False),
        ({"_CA_FILE": "ca", "_VERIFY": "false"}, TlsOptions(), TlsSettings(ca_file="ca", verify=False)),
        ({"_CA_FILE": "ca", "_KEY_PASSWORD": "p"}, TlsOptions(tls_ca="b"), TlsSettings(ca_file="b", key_password="p")),
    ],
)
def test_options_win_over_the_environment(
    environment: dict[str, str], options: TlsOptions, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environment.items():
        monkeypatch.setenv(f"ROCKETMQ_TLS{name}", text)
    assert options.settings() == expected


def test_a_word_without_meaning_does_not_switch_verification_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_TLS_VERIFY", "no")
    with pytest.raises(ConfigurationError, match="ROCKETMQ_TLS_VERIFY is 'no'; it must be true or false"):
        TlsOptions().settings()
