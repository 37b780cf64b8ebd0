"""Tests of what the log shows in a program that has not set up logging: each kind of problem, once."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.client.default_log import MOST_KINDS, OncePerKind
from gateway.client.errors import BrokerError, RocketMQError
from gateway.client.tests.scripted_broker import run
from gateway.client.transact.check_calls import CheckCalls
from gateway.client.transaction_state import TransactionState

PACKAGE = "gateway.client"
log = logging.getLogger(f"{PACKAGE}.somewhere")
SILENCE = 'logging.getLogger("gateway.client").addHandler(logging.NullHandler())'

PROGRAM = """
import contextlib, logging, queue, sys
from gateway.client import ConsumeFrom, NotCommitted, PushConsumer, PushSettings
from gateway.client.tests.blocking.broker_thread import broker_thread
from wire.codes import RequestCode

exec(sys.argv[1])
calls = queue.SimpleQueue()


def bill(message):
    calls.put(message.body)
    raise KeyError(message.body) if message.queue.queue_id == 0 else ValueError("no such customer")


with broker_thread(queues=2) as server:
    settings = PushSettings(namesrv=server.broker.address, consume_from_where=ConsumeFrom.FIRST_OFFSET)
    server.put("orders", b"1", b"2")
    server.put("orders", b"3", queue_id=1)
    with PushConsumer("billing", bill, settings, subscriptions={"orders": "*"}) as consumer:
        for _ in range(3):
            calls.get(timeout=20)
        server.broker.answer(RequestCode.UPDATE_CONSUMER_OFFSET, 1, "the disk is full")
        server.broker.answer(RequestCode.HEART_BEAT, 16, "who are you?")
        for _ in range(2):
            consumer.subscribe("payments")
            with contextlib.suppress(NotCommitted):
                consumer.commit()
"""


def output_of(set_up: str) -> str:
    """Return what the program writes to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, set_up], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == ""
    return done.stderr


def test_point_15_an_exception_in_a_listener_is_shown_once_where_nobody_has_set_up_logging() -> None:
    shown = output_of("")
    assert shown.count("the listener failed") == 2, shown  # a KeyError and a ValueError, of three calls
    assert shown.count("KeyError: b'1'") + shown.count("KeyError: b'2'") == 1
    assert shown.count("ValueError: no such customer") == 1
    assert shown.count("in bill") == 2, "a traceback says where"
    assert shown.count("the disk is full") == 1, "a commit that fails"
    assert shown.count("who are you?") == 1, "a heartbeat that is refused"
    assert shown.count(SILENCE) == 1, "how to silence it"


@pytest.mark.parametrize("set_up", [SILENCE, "logging.basicConfig(filename='/dev/null')", "logging.lastResort = None"])
def test_point_15_who_sets_up_logging_or_wants_none_is_not_disturbed(set_up: str) -> None:
    assert output_of(set_up) == ""


@contextmanager
def nothing_set_up() -> Iterator[OncePerKind]:
    """Not even pytest's handlers."""
    root, package = logging.getLogger(), logging.getLogger(PACKAGE)
    kept = root.handlers, package.handlers
    handler = OncePerKind()
    root.handlers, package.handlers = [], [handler]
    try:
        yield handler
    finally:
        root.handlers, package.handlers = kept


def test_a_kind_is_a_line_of_the_client_and_what_it_tells_of(capsys: pytest.CaptureFixture[str]) -> None:
    with nothing_set_up():
        for code, address in ((1, "a:1"), (1, "b:1"), (2, "a:1")):
            log.warning("refused: %s", BrokerError(code, "no", address))
        for error in (RocketMQError("first"), RocketMQError("second")):
            log.warning("failed: %s", error)
        log.info("nothing to look at")
    shown = capsys.readouterr().err
    busy = "(the broker is overloaded: send less or retry later)"
    assert [line for line in shown.splitlines() if "Logging is not" not in line] == [
        "WARNING:gateway.client.somewhere:refused: a:1 answered 1 SYSTEM_ERROR: no",
        f"WARNING:gateway.client.somewhere:refused: a:1 answered 2 SYSTEM_BUSY: no {busy}",
        "WARNING:gateway.client.somewhere:failed: first",
    ]


def test_what_the_server_adds_when_it_is_imported_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("gateway.telemetry.logs")
    assert logging.getLogger("gateway").handlers
    with nothing_set_up():
        log.warning("beside a server")
    assert "beside a server" in capsys.readouterr().err


def test_point_15_a_check_of_a_transaction_that_raises_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> TransactionState:
        raise OSError("the database is gone")

    async def scenario() -> None:
        calls = CheckCalls(1, 5, "checks")
        for _ in range(3):
            await calls.run(broken, "Orders.check")
        calls.close()

    with nothing_set_up():
        run(scenario())
    assert capsys.readouterr().err.count("OSError: the database is gone") == 1


def test_the_kinds_are_limited_and_nothing_is_shown_after_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with nothing_set_up() as handler:
        source = "\n".join(f"log.warning('number {number}')" for number in range(MOST_KINDS + 5))
        exec(compile(source, "many", "exec"))
        handler.close()
        log.warning("too late")
    shown = capsys.readouterr().err
    assert shown.count("number") == MOST_KINDS
    assert "too late" not in shown


def test_a_line_that_cannot_be_written_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        code = property(lambda self: [])

        def write(self, text: str) -> None:
            raise OSError

    with nothing_set_up(), monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", None)
        log.warning("no standard error")
        patched.setattr(sys, "stderr", Broken())
        patched.setattr(logging, "raiseExceptions", False)
        log.warning("a broken one")


def test_point_15_every_logger_of_the_client_is_below_the_package() -> None:
    """So that one handler shows them all and one line silences them."""
    package = Path(__file__).parents[2]
    loggers = {
        line.strip()
        for path in package.rglob("*.py")
        if "tests" not in path.parts
        for line in path.read_text().splitlines()
        if "getLogger(" in line and path.name != "default_log.py"
    }
    assert {line.partition(" = ")[2] or line for line in loggers} == {
        "logging.getLogger(__name__)",
        "logging.getLogger(__name__).addHandler(OncePerKind())",
    }
