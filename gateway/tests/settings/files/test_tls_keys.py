"""The keys of TLS: where they are read, and which of them end the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import SettingsError
from gateway.settings.files import tls_keys
from gateway.settings.files.load import Loaded, Role, load_settings
from gateway.settings.tls import ClientCertificates, TlsMode

TLS_PROPERTIES = """\
tls.test.mode.enable=false
tls.server.need.client.auth=require
tls.server.keyPath=/tls/server.key
tls.server.keyPassword=123456
tls.server.certPath=/tls/server.pem
tls.server.authClient=false
tls.server.trustCertPath=/tls/ca.pem
tls.client.keyPath=/tls/client.key
tls.client.certPath=/tls/client.pem
tls.client.authServer=false
"""
"""As Apache RocketMQ's guide writes it."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tls.properties"
    path.write_text(TLS_PROPERTIES)
    return path


def load(*assignments: str, conf: Path | None = None, role: Role = Role.SERVE, **environment: str) -> Loaded:
    return load_settings(role, config_file=conf, environment=environment, assignments=assignments)


def error_of(*assignments: str, conf: Path | None = None) -> str:
    with pytest.raises(SettingsError) as raised:
        load(*assignments, conf=conf)
    return str(raised.value)


@pytest.mark.parametrize("role", Role)
def test_a_file_for_apache_rocketmq_is_read_unchanged(role: Role, file: Path) -> None:
    loaded = load(f"tls.config.file={file}", role=role)
    settings = loaded.settings
    assert (settings.tls_certificate, settings.tls_key) == ("/tls/server.pem", "/tls/server.key")
    assert settings.tls_key_password == "123456"
    assert settings.tls_client_certificates is ClientCertificates.REQUIRE
    assert not settings.tls_verify_clients
    assert settings.tls_mode is TlsMode.PERMISSIVE
    assert loaded.sources["tls.server.certPath"] == f"{file}:5"
    assert "any certificate is accepted" in loaded.notices[0]


def test_the_default_file_is_read_where_it_exists(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_keys, "DEFAULT_FILE", str(file))
    assert load().settings.tls_certificate == "/tls/server.pem"
    file.unlink()
    assert load().settings.tls_certificate == ""


def test_the_file_wins_over_broker_conf_and_loses_to_the_command_line(tmp_path: Path) -> None:
    conf, file = tmp_path / "broker.conf", tmp_path / "tls.properties"
    conf.write_text(f"tls.config.file={file}\ntls.server.mode=disabled\ngateway.tlsHandshakeTimeoutMs=5000\n")
    file.write_text("tls.server.mode=enforcing\n")
    loaded = load(conf=conf)
    assert loaded.settings.tls_mode is TlsMode.ENFORCING
    assert loaded.settings.tls_handshake_timeout_ms == 5_000
    assert load("tls.server.mode=permissive", conf=conf).settings.tls_mode is TlsMode.PERMISSIVE
    inside = load(conf=conf, ROCKETMQ_GATEWAY_TLS_SERVER_MODE="disabled")
    assert inside.settings.tls_mode is TlsMode.DISABLED


@pytest.mark.parametrize("word", ["ENFORCING", "enforcing", "Enforcing"])
def test_modes_are_read_in_any_case(word: str) -> None:
    assert load(f"tls.server.mode={word}").settings.tls_mode is TlsMode.ENFORCING


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tls.server.mode=enforced", "expected disabled or permissive or enforcing"),
        ("tls.server.need.client.auth=required", "expected none or optional or require"),
        ("tls.protocols=TLSv1.1,TLSv1.2", "expected TLSv1.2 or TLSv1.3, or both with a comma"),
        ("tls.protocols=", "expected TLSv1.2 or TLSv1.3"),
        ("tls.test.mode.enable=yes", "expected true or false"),
        ("tls.config.file=/no/such/file", "there is no such file; write it or leave tls.config.file out"),
        ("tls.server.certPath=/tls/server.pem", "set tls.server.keyPath too"),
        ("tls.server.keyPath=/tls/server.key", "set tls.server.certPath too"),
        ("tls.enable=yes", "expected auto or true or false"),
        ("tls.client.certPath=/c", "set tls.client.keyPath too"),
        ("tls.client.keyPath=/k", "set tls.client.certPath too"),
        ("tls.test.mode.enable=false", "false needs a certificate: set tls.server.certPath and tls.server.keyPath"),
        ("tls.server.need.client.auth=require", "set tls.server.trustCertPath, or tls.server.authClient=false"),
        ("tls.server.need.client.auth=optional", "set tls.server.trustCertPath, or tls.server.authClient=false"),
    ],
)
def test_a_value_that_protects_nothing_ends_the_start(written: str, said: str) -> None:
    error = error_of(written)
    assert said in error
    assert written.partition("=")[0] in error


def test_a_certificate_is_used_whatever_the_test_mode_says() -> None:
    both = ("tls.server.certPath=/a", "tls.server.keyPath=/b")
    for mode in ("true", "false"):
        assert load(*both, f"tls.test.mode.enable={mode}").settings.tls_certificate == "/a"


def test_authorities_for_clients_that_are_not_asked_are_named() -> None:
    told = ("tls.server.trustCertPath=/ca", "tls.server.authClient=true")
    assert "has no effect" in load(*told).notices[0]
    assert load(*told, "tls.server.need.client.auth=optional").notices == ()


@pytest.mark.parametrize("place", ["broker.conf", "tls.properties"])
def test_a_misspelt_key_ends_the_start(place: str, tmp_path: Path) -> None:
    path = tmp_path / place
    path.write_text("# comment\ntls.server.moed=enforcing\n")
    error = error_of(conf=path) if place == "broker.conf" else error_of(f"tls.config.file={path}")
    assert error == f"tls.server.moed ({path}:2): no such setting of TLS; did you mean tls.server.mode?"


def test_a_key_that_is_like_no_other_is_told_all(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("tls.xyzzyplugh=1\n")
    assert "known are tls.ciphers, tls.client.authServer, " in error_of(conf=path)


def test_other_keys_in_the_file_end_the_start(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("listenPort=10911\n")
    error = error_of(f"tls.config.file={path}")
    assert error == f"listenPort ({path}:1): this file is for keys that begin with tls.; move it to broker.conf"
