"""Every event is one line, whatever is in it; repeats are counted instead of written."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from gateway.telemetry.logs import EventLines, EventLog, Repeats, fact_text, write_lines_to

log = EventLog("trial")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root = logging.getLogger()
    level = root.level
    handler = write_lines_to(stream, logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def test_an_event_is_one_line_of_time_level_part_event_and_facts(lines: io.StringIO) -> None:
    log.info("segment rolled", path="/data/0", size=42, sealed=True, reason=None)
    time, rest = lines.getvalue().split(" ", 1)
    assert time.startswith("time=20")
    assert time.endswith("Z")
    assert rest == 'level=info part=trial event="segment rolled" path=/data/0 size=42 sealed=true reason=-\n'


def test_the_time_is_utc_with_milliseconds() -> None:
    record = logging.LogRecord("gateway.x", logging.INFO, "", 0, "e", None, None)
    record.created = 1_700_000_000.25
    assert EventLines().format(record).startswith("time=2023-11-14T22:13:20.250Z level=info part=x event=e")


def test_what_every_line_says_comes_before_the_facts_of_its_own() -> None:
    record = logging.LogRecord("gateway.x", logging.INFO, "", 0, "e", None, None)
    record.__dict__["facts"] = {"path": "/data"}
    assert EventLines({"broker": "mq-1"}).format(record).endswith(" part=x event=e broker=mq-1 path=/data")


@pytest.mark.parametrize(
    ("method", "level"), [("debug", "debug"), ("info", "info"), ("warning", "warning"), ("error", "error")]
)
def test_each_method_writes_its_level(lines: io.StringIO, method: str, level: str) -> None:
    getattr(log, method)("e")
    assert f" level={level} " in lines.getvalue()


def test_nothing_below_the_level_is_written() -> None:
    stream = io.StringIO()
    handler = write_lines_to(stream, logging.WARNING)
    try:
        log.info("left out")
        log.warning("written")
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger().setLevel(logging.WARNING)
    assert "left out" not in stream.getvalue()
    assert "written" in stream.getvalue()


def test_a_failure_adds_its_type_text_and_traceback_to_the_same_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("no\nway")
    except ValueError as problem:
        log.error("write failed", failure=problem, path="/x")
    assert lines.getvalue().count("\n") == 1
    assert 'path=/x error="ValueError: no\\nway" traceback="Traceback' in lines.getvalue()


def test_a_record_of_another_library_is_a_line_too(lines: io.StringIO) -> None:
    logging.getLogger("twisted").warning("100%% %s", "lost")
    assert 'level=warning part=twisted event="100% lost"' in lines.getvalue()


def test_a_percent_sign_in_an_event_is_only_a_percent_sign(lines: io.StringIO) -> None:
    log.info("disk 90% full %s")
    assert 'event="disk 90% full %s"' in lines.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("line\nbreak", '"line\\nbreak"'),
        ("\x00", '"\\u0000"'),
        ("中文", "中文"),
        ("\x7f\x85\x9b[2J", '"\\u007f\\u0085\\u009b[2J"'),
        ("a\u2028b\u2029\u202ec\ufeff", '"a\\u2028b\\u2029\\u202ec\\ufeff"'),
        ("\ud800", '"\\ud800"'),
        (1.5, "1.5"),
        (None, "-"),
        (False, "false"),
        (b"\x01", "\"b'\\\\x01'\""),
    ],
)
def test_a_value_is_quoted_when_it_would_be_ambiguous(value: object, text: str) -> None:
    assert fact_text(value) == text


def test_a_long_value_is_cut() -> None:
    assert fact_text("x" * 5_000) == "x" * 2_000 + "…"


def test_repeats_within_the_interval_are_held_back_and_counted() -> None:
    now = [1_000_000]
    repeats = Repeats(lambda: now[0], interval_ms=100)
    assert repeats.due("a") == 0
    assert [repeats.due("a") for _ in range(3)] == [None, None, None]
    assert repeats.due("b") == 0
    now[0] += 100
    assert repeats.due("a") == 3
    now[0] += 100
    assert repeats.due("a") == 0


def test_a_clock_set_back_does_not_silence_an_event() -> None:
    now = [1_000_000]
    repeats = Repeats(lambda: now[0], interval_ms=100)
    assert repeats.due("a") == 0
    now[0] = 5
    assert repeats.due("a") == 0


def test_the_oldest_key_is_forgotten_when_there_are_too_many() -> None:
    repeats = Repeats(lambda: 7, interval_ms=100, max_keys=2)
    assert [repeats.due(key) for key in ("a", "b", "c")] == [0, 0, 0]
    assert repeats.due("c") is None
    assert repeats.due("b") is None
    assert repeats.due("a") == 0


def test_a_repeated_event_does_not_keep_the_text_of_its_key() -> None:
    text = "x" * 100
    before = sys.getrefcount(text)
    repeats = Repeats(lambda: 0)
    assert repeats.due((text, "client")) == 0
    assert sys.getrefcount(text) == before
    assert repeats.due((text, "client")) is None
