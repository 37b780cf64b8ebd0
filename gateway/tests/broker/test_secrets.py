"""Settings that nobody is shown, and settings that no request changes."""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.live_settings import LiveSettings
from gateway.broker.requests.rare.broker_info import BrokerInfo
from gateway.errors import RequestRefused
from gateway.settings import NameServerSettings, Settings
from gateway.settings.access import AccessSettings
from gateway.settings.declare import MASK, Declaration, Mark, declarations
from gateway.settings.tls import ServerTlsSettings
from gateway.tests.desks import desk_of
from gateway.tests.remoting.conversation import Conversation
from wire.codes import RequestCode, ResponseCode

ALL = declarations(Settings)
SECRET = [declaration for declaration in ALL.values() if Mark.SECRET in declaration.marks]
GUARDED = {field.name for kind in (AccessSettings, ServerTlsSettings) for field in fields(kind)}
VALUE = '{"username":"root","password":"swordfish","accessKey":"root","secretKey":"swordfish"}'


@pytest.fixture
def live() -> LiveSettings:
    """Settings with a value of every secret one."""
    values: dict[str, Any] = {secret.attribute: VALUE for secret in SECRET}
    return LiveSettings(replace(Settings(), **values), lambda: None)


def test_settings_whose_names_speak_of_secrets_are_secret() -> None:
    speaking = [key for key in ALL if any(word in key.lower() for word in ("password", "secret", "credential"))]

    assert {*speaking, "initAuthenticationUser"} == {secret.key for secret in SECRET} | {"gateway.passwordReaders"}


@pytest.mark.parametrize("secret", SECRET, ids=lambda secret: secret.key)
def test_the_settings_that_a_broker_tells_have_no_secret(secret: Declaration, live: LiveSettings) -> None:
    server = Conversation()
    desk = desk_of(live=live, booted=(0, 0), name_servers=lambda _: "")
    BrokerInfo(desk).register(server.dispatch)

    told = bytes(server.connect().ask(RequestCode.GET_BROKER_CONFIG).body).decode()

    assert f"\n{secret.key}={MASK}\n" in f"\n{told}\n"
    assert "swordfish" not in told


@pytest.mark.parametrize("text", [VALUE, VALUE.replace("swordfish", "guess"), "swordfish", ""])
@pytest.mark.parametrize("secret", SECRET, ids=lambda secret: secret.key)
def test_no_request_changes_a_secret_or_finds_out_by_trying(
    secret: Declaration, text: str, live: LiveSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RequestRefused) as refused:
        live.change({secret.key: text})

    assert "swordfish" not in f"{refused.value.remark} {caplog.text}"
    assert getattr(live.current, secret.attribute) == VALUE
    if text == VALUE:
        assert refused.value.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("declaration", ALL.values(), ids=lambda declaration: declaration.key)
def test_no_request_changes_access_tls_or_a_path(declaration: Declaration) -> None:
    if Mark.LIVE in declaration.marks:
        assert declaration.attribute not in GUARDED
        assert declaration.kind is not Path
        assert declaration.kind is not str or declaration.key == "deleteWhen"


def test_a_name_server_has_no_secret_to_tell() -> None:
    assert not [key for key, found in declarations(NameServerSettings).items() if Mark.SECRET in found.marks]
