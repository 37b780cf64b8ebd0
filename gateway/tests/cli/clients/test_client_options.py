from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import click
import pytest

from gateway.cli.clients.client_options import Begin, client_errors
from gateway.client.errors import ConfigurationError, ConnectError, MessageRefused, RocketMQError
from gateway.errors import GatewayError


@pytest.mark.parametrize("word", ["earliest", "latest"])
def test_a_begin_may_be_a_word(word: str) -> None:
    assert Begin().convert(word, None, None) == word


@pytest.mark.parametrize(("text", "age"), [("90s", 90), ("10m", 600), ("1.5h", 5_400), ("2d", 172_800)])
def test_a_begin_may_be_an_age(text: str, age: float) -> None:
    moment = Begin().convert(text, None, None)
    assert isinstance(moment, datetime)
    assert abs(datetime.now(UTC) - moment - timedelta(seconds=age)) < timedelta(seconds=30)


def test_a_begin_may_be_a_time_and_always_has_a_zone() -> None:
    assert Begin().convert("2026-05-01T12:00:00Z", None, None) == datetime(2026, 5, 1, 12, tzinfo=UTC)
    local = Begin().convert("2026-05-01", None, None)
    assert isinstance(local, datetime)
    assert local.tzinfo is not None


@pytest.mark.parametrize("text", ["yesterday", "10", "m", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not earliest, latest"):
        Begin().convert(text, None, None)


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (ConfigurationError("namesrv", "", "an address"), 2),
        (MessageRefused("topic", "is no name"), 2),
        (ConnectError("a:1", "refused"), 1),
    ],
)
def test_an_error_of_the_client_is_a_line_and_an_exit_code(error: RocketMQError, exit_code: int) -> None:
    with pytest.raises(GatewayError) as raised, client_errors():
        raise error
    assert (str(raised.value), raised.value.exit_code) == (str(error), exit_code)


def test_what_a_client_warns_of_is_a_line_without_advice_to_programmers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as unset:
        unset.setattr(logging.getLogger(), "handlers", [])
        with client_errors():
            for _ in range(2):
                logging.getLogger("gateway.client.connect.instance").warning("no route for topic orders")
    assert capsys.readouterr().err == "WARNING: no route for topic orders\n"
