"""Whatever a peer repeats, a place in the code writes a bounded number of lines, and says how many it left out."""

from __future__ import annotations

import ast
import functools
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.telemetry.logs import (
    BURST_LINES,
    LINE_INTERVAL_MS,
    MAX_PLACES,
    EventLines,
    EventLog,
    LimitedLines,
    LineLimit,
)
from gateway.tests.remoting.conversation import Conversation
from gateway.tests.remoting.tls.speaking import echoing

SOURCES = Path(__file__).parents[2]
SERVER_PARTS = [
    path
    for path in sorted(SOURCES.rglob("*.py"))
    if "tests" not in path.parts and path.relative_to(SOURCES).parts[0] not in ("client", "spark")
]
EVENTS_BY_NAME = {
    *(("run.py", "notice"), ("run.py", "remark")),
    *(("service.py", "fault"), ("timer_service.py", "what")),
    *(("first_byte.py", "event"), ("link.py", "event")),
}
"""Events that are no constant where they are written: notices and remarks of a start, what the broker finds when it is
told its own address, two fixed sentences, and why a connection was refused or its TLS failed.
"""


PORTS = ("remoting/", "replication/master/", "access/guard.py", "broker/pages/")
"""The parts that write lines for what peers send to a port."""
OWN_EVENTS = {
    *("listening", "listening for slaves", "certificate renewed", "callback failed"),
    "the certificate is not valid today: peers that verify it end their connections",
    "plain connections are let in without a certificate of the client",
    "files of TLS not looked at",
    "files of TLS changed and cannot be used; the earlier ones stay in use",
    "hidden until enough slaves have it; with brokerRole=ASYNC_MASTER a start shows it",
    "enough slaves have what was hidden since the start",
    "too few slaves have the last messages, the next start hides them",
    "slaves have what senders wait for again",
}
"""The events of these parts that tell of starts, stops, files and the end of a fault."""


class Lines:
    """A log in memory, with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.stream = io.StringIO()
        self.handler = LimitedLines(self.stream, lambda: self.now_ms)
        self.handler.setFormatter(EventLines())

    def take(self) -> list[str]:
        """The lines since the last call."""
        lines = self.stream.getvalue().splitlines()
        self.stream.seek(0)
        self.stream.truncate()
        return lines


@pytest.fixture
def lines() -> Iterator[Lines]:
    lines = Lines()
    root = logging.getLogger()
    level = root.level
    root.addHandler(lines.handler)
    root.setLevel(logging.INFO)
    yield lines
    root.removeHandler(lines.handler)
    root.setLevel(level)


def calls_of(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("debug", "info", "warning", "error")
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("log", "_log")
        ):
            yield node


@functools.cache
def calls() -> list[tuple[Path, ast.Call]]:
    """Return the calls of all parts of the servers: reading them takes a second."""
    return [(path, call) for path in SERVER_PARTS for call in calls_of(path)]


def test_point_11_an_event_is_a_fixed_text_so_that_it_names_a_place() -> None:
    found = [(path, call.args[0]) for path, call in calls()]
    assert len(found) > 100
    others = {(path.name, ast.unparse(event)) for path, event in found if not isinstance(event, ast.Constant)}
    assert others <= EVENTS_BY_NAME


def test_point_11_each_event_of_the_servers_a_hundred_times(lines: Lines) -> None:
    events = {ast.literal_eval(call.args[0]) for _, call in calls() if is_constant(call)}
    log = EventLog("trial")
    for event in events:
        for number in range(100):
            log.warning(event, remote=f"10.0.0.1:{number}")
        assert len(lines.take()) == BURST_LINES, event
    lines.handler.tell_left_out(at_end=True)
    told = lines.take()
    assert len(told) == len(events)
    assert all(line.endswith(f" left_out={100 - BURST_LINES}") for line in told)


def test_the_page_of_log_lines_names_events_that_there_are() -> None:
    events = {ast.literal_eval(call.args[0]) for _, call in calls() if is_constant(call)}
    page = (SOURCES.parent / "docs" / "logs.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(named) > 30
    assert not set(named) - events - passed_on()


def test_the_page_of_log_lines_names_every_event_that_a_peer_causes_at_a_port() -> None:
    written = {
        ast.literal_eval(call.args[0])
        for path, call in calls()
        if is_constant(call) and is_levelled(call) and path.relative_to(SOURCES).as_posix().startswith(PORTS)
    }
    page = (SOURCES.parent / "docs" / "logs.md").read_text(encoding="utf-8")
    named = {
        event for row in re.findall(r"^\| (`.+`) \|", page, re.MULTILINE) for event in re.findall(r"`([^`]+)`", row)
    }
    assert written >= OWN_EVENTS
    assert sorted((written | passed_on()) - OWN_EVENTS - named) == []


def test_connections_whose_tls_fails_write_a_burst_and_are_counted(lines: Lines) -> None:
    talk = Conversation(echoing()[0])
    lines.take()  # it listens
    for _ in range(100):
        talk.connect().send_bytes(b"\x16\x03\x01\x00\x05hello")
    assert len(lines.take()) == BURST_LINES
    lines.handler.tell_left_out(at_end=True)
    (told,) = lines.take()
    assert f'of="TLS handshake failed" left_out={100 - BURST_LINES}' in told


def passed_on() -> set[str]:
    """Return the events that functions of the ports of TLS are given as arguments."""
    found = set[str]()
    for path in SERVER_PARTS:
        if path.name in ("first_byte.py", "link.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("_refuse", "self._failed"):
                    values = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                    found |= {value for value in values if isinstance(value, str)}
    return found


def is_levelled(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr != "debug"


def is_constant(call: ast.Call) -> bool:
    return isinstance(call.args[0], ast.Constant)


def test_point_11_after_its_burst_a_place_writes_a_line_now_and_then_that_counts_the_others(lines: Lines) -> None:
    log = EventLog("trial")
    for _ in range(1_000):
        log.warning("bad", remote="a")
    assert len(lines.take()) == BURST_LINES
    lines.now_ms += LINE_INTERVAL_MS
    for _ in range(10):
        log.warning("bad", remote="a")
    (line,) = lines.take()
    assert line.endswith(f"event=bad remote=a left_out={1_000 - BURST_LINES}")


def test_lines_that_no_other_follows_are_told_once(lines: Lines) -> None:
    log = EventLog("trial")
    for _ in range(BURST_LINES + 5):
        log.error("bad")
    lines.take()
    lines.handler.tell_left_out()
    assert lines.take() == []
    lines.now_ms += LINE_INTERVAL_MS
    lines.handler.tell_left_out()
    (line,) = lines.take()
    assert 'level=error part=trial event="lines left out" of=bad left_out=5' in line
    lines.now_ms += LINE_INTERVAL_MS
    lines.handler.tell_left_out()
    assert lines.take() == []


def test_the_end_of_the_log_tells_what_was_left_out(lines: Lines) -> None:
    log = EventLog("trial")
    for _ in range(BURST_LINES + 1):
        log.info("bad")
    lines.take()
    lines.handler.close()
    assert [line.rpartition(" ")[2] for line in lines.take()] == ["left_out=1"]


def test_a_line_of_a_library_is_limited_by_its_place_in_the_code(lines: Lines) -> None:
    logger = logging.getLogger("a library")  # Twisted's finds its callers in a way of its own
    for number in range(100):
        logger.warning("lost %d", number)
        logger.warning(f"failed {number}")
    assert len(lines.take()) == 2 * BURST_LINES


def test_levels_and_parts_do_not_hide_each_other(lines: Lines) -> None:
    for _ in range(100):
        EventLog("a").warning("bad")
    EventLog("a").error("bad")
    EventLog("b").warning("bad")
    assert len(lines.take()) == BURST_LINES + 2


def test_places_beyond_the_limit_share_one_count() -> None:
    limit = LineLimit(lambda: 0)
    for number in range(MAX_PLACES):
        assert limit.take(number) == 0
    written = [limit.take(("more", number)) for number in range(100)]
    assert written == [0] * BURST_LINES + [None] * (100 - BURST_LINES)


def test_a_clock_set_back_does_not_silence_a_place() -> None:
    now_ms = 1_000_000
    limit = LineLimit(lambda: now_ms)
    for _ in range(BURST_LINES):
        limit.take("a")
    assert limit.take("a") is None
    now_ms = 5
    assert limit.take("a") == 1


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "malformed bytes"),
        (b"\x16\x03\x01\x00\x05hello", "TLS handshake failed"),
    ],
)
def test_point_11_malformed_bytes_of_a_thousand_connections(lines: Lines, data: bytes, event: str) -> None:
    conversation = Conversation()
    lines.take()
    for _ in range(1_000):
        conversation.connect().send_bytes(data)
    written = lines.take()
    assert len(written) == BURST_LINES
    assert all(f' event="{event}" ' in line for line in written)
