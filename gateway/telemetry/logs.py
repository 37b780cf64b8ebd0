"""Log events: a sentence, then facts as ``key=value``; one line each, through the standard library.

    log = EventLog("store")
    log.info("segment rolled", path=path)

    time=2026-05-04T10:11:12.345Z level=info part=store event="segment rolled" path=/data/…

The format is commonly called logfmt. A value with a space, a quote, ``=`` or a control character is written as a JSON
string. An event therefore never breaks over two lines, whatever a client sent. Nothing is printed unless
``write_lines_to`` was called (the command line calls it); embedded use stays silent. The handler limits the lines of
each event (``LineLimit``): an event is a fixed sentence, so it names a place in the code.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

from gateway.clock import Milliseconds
from wire.safe_text import UNSAFE, safe_json

BURST_LINES = 20
"""The number of lines that a place may write without a pause."""
LINE_INTERVAL_MS = 10_000
"""Milliseconds until a place that has written its burst may write one more line."""
MAX_PLACES = 2_000
"""The number of places that have a count of their own; further places share one count. The gateway has about 200."""
OTHER_PLACES = "other places"


@dataclass(slots=True)
class _Place:
    lines: int
    since_ms: int
    left_out: int = 0


class LineLimit:
    """Counts the lines of each place: a burst may be written, then one line now and then, with a count of the others.

    So the log grows by a bounded number of lines an hour, even if a peer repeats a request for ever. Not thread-safe.

    :param clock_ms: milliseconds of any clock; if the clock is set back, every place may write its burst again.
    """

    def __init__(self, clock_ms: Milliseconds) -> None:
        self._clock_ms = clock_ms
        self._places: dict[Hashable, _Place] = {}

    def take(self, place: Hashable) -> int | None:
        """Return how many lines of the place were left out since its last one, or None if this one is left out."""
        now_ms = self._clock_ms()
        known = self._places.get(place)
        if known is None:
            if len(self._places) >= MAX_PLACES and place != OTHER_PLACES:
                return self.take(OTHER_PLACES)
            known = self._places[place] = _Place(BURST_LINES, now_ms)
        _refill(known, now_ms)
        if known.lines == 0:
            known.left_out += 1
            return None
        known.lines -= 1
        left_out, known.left_out = known.left_out, 0
        return left_out

    def untold(self, *, at_end: bool = False) -> Iterator[tuple[Hashable, int]]:
        """Yield each place that left out lines, may write again and has not, with the number of those lines.

        :param at_end: yield all places that left out lines, because nothing more will be written.
        """
        now_ms = self._clock_ms()
        for place, known in list(self._places.items()):
            _refill(known, now_ms)
            if known.left_out and (known.lines or at_end):
                known.lines = max(0, known.lines - 1)
                left_out, known.left_out = known.left_out, 0
                yield place, left_out


def _refill(place: _Place, now_ms: int) -> None:
    if now_ms < place.since_ms:
        place.lines, place.since_ms = BURST_LINES, now_ms
        return
    more = (now_ms - place.since_ms) // LINE_INTERVAL_MS
    if more:
        place.lines = min(BURST_LINES, place.lines + more)
        place.since_ms += more * LINE_INTERVAL_MS


ROOT = "gateway"
MAX_VALUE_CHARACTERS = 2_000
"""The number of characters after which a value is cut, so that one bad frame does not fill the disk with its text."""
MAX_TRACEBACK_CHARACTERS = 8_000
_PLAIN = re.compile(rf"[^\s\"'=\\{UNSAFE}]+")

logging.getLogger(ROOT).addHandler(logging.NullHandler())


class EventLog:
    """Writes the events of one part of the gateway; cheap when the level is off."""

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"{ROOT}.{part}")

    @property
    def has_debug(self) -> bool:
        """True if debug events are written: ask before facts that cost something."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, /, **facts: object) -> None:
        """Log an event for a reader who follows a single request."""
        self._write(logging.DEBUG, event, facts)

    def info(self, event: str, /, **facts: object) -> None:
        """Log an event that an operator expects to see: started, rolled, registered."""
        self._write(logging.INFO, event, facts)

    def warning(self, event: str, /, **facts: object) -> None:
        """Log an event that an operator should look at; the gateway goes on as before."""
        self._write(logging.WARNING, event, facts)

    def error(self, event: str, /, *, failure: BaseException | None = None, **facts: object) -> None:
        """Log a failure; ``failure`` adds its type, text and traceback to the same line."""
        self._write(logging.ERROR, event, facts, failure)

    def _write(self, level: int, event: str, facts: dict[str, object], failure: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"facts": facts, "failure": failure}
            self._logger.log(level, event, extra=extra)


class EventLines(logging.Formatter):
    """Formats a log record as one line; also records of other libraries, which have no facts.

    :param facts: facts that every line has, before its own facts.
    """

    def __init__(self, facts: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._facts = dict(facts or {})

    def format(self, record: logging.LogRecord) -> str:
        """Return the whole line, without the line break."""
        facts: dict[str, object] = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "part": record.name.removeprefix(f"{ROOT}."),
            "event": record.getMessage(),
            **self._facts,
        }
        facts.update(getattr(record, "facts", None) or {})
        if left_out := getattr(record, "left_out", 0):
            facts["left_out"] = left_out
        failure = getattr(record, "failure", None) or (record.exc_info[1] if record.exc_info else None)
        line = " ".join(f"{key}={fact_text(value)}" for key, value in facts.items())
        return f"{line} {_failure_facts(failure)}" if failure is not None else line


class LimitedLines(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, for each event as many as ``LineLimit`` lets through.

    A line after lines that were left out says how many: ``left_out=1234``. If no line follows, ``tell_left_out`` writes
    one.

    :param clock_ms: milliseconds of any clock.
    """

    def __init__(self, stream: TextIO, clock_ms: Milliseconds) -> None:
        super().__init__(stream)
        self._limit = LineLimit(clock_ms)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's line unless its place has written too many."""
        left_out = self._limit.take(_place_of(record))
        if left_out is not None:
            record.__dict__["left_out"] = left_out
            super().emit(record)

    def tell_left_out(self, *, at_end: bool = False) -> None:
        """Write a line for each event whose lines were left out, if no line of the event has come since.

        :param at_end: include events that may not write a line yet, because nothing follows.
        """
        self.acquire()
        try:
            for place, left_out in self._limit.untold(at_end=at_end):
                name, level, event = place if isinstance(place, tuple) else (ROOT, logging.WARNING, place)
                record = logging.LogRecord(name, level, "", 0, "lines left out", None, None)
                record.__dict__.update(facts={"of": event}, left_out=left_out)
                super().emit(record)
        finally:
            self.release()

    def close(self) -> None:
        """Report all lines that were left out, and write nothing more."""
        self.tell_left_out(at_end=True)
        super().close()


def write_lines_to(stream: TextIO, level: int = logging.INFO, facts: Mapping[str, str] | None = None) -> LimitedLines:
    """Write all events of the gateway and of libraries to ``stream`` from now on; return the handler.

    :param facts: facts that every line has, whatever its event.
    """
    handler = LimitedLines(stream, lambda: time.monotonic_ns() // 1_000_000)
    handler.setFormatter(EventLines(facts))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def _place_of(record: logging.LogRecord) -> tuple[str, int, str]:
    """Return the part, the level and the event, which is a fixed text in the gateway.

    For a record of a library, the line of code stands for the event.
    """
    event = str(record.msg) if hasattr(record, "facts") else f"{record.pathname}:{record.lineno}"
    return record.name, record.levelno, event


def fact_text(value: object, limit: int = MAX_VALUE_CHARACTERS) -> str:
    """Return a value as text for a line: unchanged if that is unambiguous, otherwise as a JSON string.

    The text never has a line break.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    if len(text) > limit:
        text = f"{text[:limit]}…"
    return text if _PLAIN.fullmatch(text) else safe_json(text)


def _failure_facts(failure: BaseException) -> str:
    stack = "".join(traceback.format_exception(failure))
    return (
        f"error={fact_text(f'{type(failure).__name__}: {failure}')} "
        f"traceback={fact_text(stack[-MAX_TRACEBACK_CHARACTERS:], MAX_TRACEBACK_CHARACTERS)}"
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Repeats:
    """Lets the same event through once per interval and counts the events that it holds back.

    A client that fails ten thousand times a second must not write ten thousand lines:

        if (left_out := repeats.due(("bad frame", host))) is not None:
            log.warning("bad frame", remote=host, left_out=left_out)

    At most ``max_keys`` keys are remembered. If there are more, the oldest key is forgotten, and its next event may be
    let through early.
    """

    def __init__(self, clock_ms: Milliseconds, *, interval_ms: int = 10_000, max_keys: int = 1_024) -> None:
        self._clock_ms = clock_ms
        self._interval_ms = interval_ms
        self._max_keys = max_keys
        self._seen: dict[int, tuple[int, int]] = {}  # by the hash of the key: a name of a client may be long

    def due(self, key: Hashable) -> int | None:
        """Return how many events were held back since the last one let through, or None to hold this event back."""
        now_ms, seen = self._clock_ms(), hash(key)
        last_ms, left_out = self._seen.get(seen, (now_ms - self._interval_ms, 0))
        if 0 <= now_ms - last_ms < self._interval_ms:
            self._seen[seen] = (last_ms, left_out + 1)
            return None
        self._seen.pop(seen, None)
        if len(self._seen) >= self._max_keys:
            del self._seen[next(iter(self._seen))]
        self._seen[seen] = (now_ms, 0)
        return left_out
