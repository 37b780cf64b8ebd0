"""Log events: a sentence, then facts as ``key=value``; one line each, through the standard library.

    log = EventLog("store")
    log.info("segment rolled", path=path)

    time=2026-05-04T10:11:12.345Z level=info part=store event="segment rolled" path=/data/…

The line is what is commonly called logfmt: values with a space, a quote, ``=`` or a control character
are quoted as JSON strings, so an event never breaks over two lines, whatever a client sent us. Nothing
is printed unless ``write_lines_to`` was called (the command line does); embedded use stays silent.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import TextIO

from gateway.clock import Milliseconds

ROOT = "gateway"
MAX_VALUE_CHARACTERS = 2_000
"""A longer value is cut: one bad frame must not fill the disk with its own text."""
MAX_TRACEBACK_CHARACTERS = 8_000
_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+")

logging.getLogger(ROOT).addHandler(logging.NullHandler())


class EventLog:
    """Writes the events of one part of the gateway; cheap when the level is off."""

    __slots__ = ("_logger",)

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"{ROOT}.{part}")

    def debug(self, event: str, /, **facts: object) -> None:
        """For someone who follows a single request."""
        self._write(logging.DEBUG, event, facts)

    def info(self, event: str, /, **facts: object) -> None:
        """Something an operator expects to see: started, rolled, registered."""
        self._write(logging.INFO, event, facts)

    def warning(self, event: str, /, **facts: object) -> None:
        """Something an operator should look at; the gateway goes on as before."""
        self._write(logging.WARNING, event, facts)

    def error(self, event: str, /, *, failure: BaseException | None = None, **facts: object) -> None:
        """Something failed; ``failure`` adds its type, text and traceback to the same line."""
        self._write(logging.ERROR, event, facts, failure)

    def _write(self, level: int, event: str, facts: dict[str, object], failure: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"facts": facts, "failure": failure}
            self._logger.log(level, event, extra=extra)


class EventLines(logging.Formatter):
    """A log record as one line; also for records of other libraries, which carry no facts.

    :param facts: what every line says, before the facts of its own.
    """

    def __init__(self, facts: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._facts = dict(facts or {})

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, without the line break."""
        facts: dict[str, object] = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "part": record.name.removeprefix(f"{ROOT}."),
            "event": record.getMessage(),
            **self._facts,
        }
        facts.update(getattr(record, "facts", None) or {})
        failure = getattr(record, "failure", None) or (record.exc_info[1] if record.exc_info else None)
        line = " ".join(f"{key}={fact_text(value)}" for key, value in facts.items())
        return f"{line} {_failure_facts(failure)}" if failure is not None else line


def write_lines_to(
    stream: TextIO, level: int = logging.INFO, facts: Mapping[str, str] | None = None
) -> logging.Handler:
    """From now on write all events of the gateway and of libraries to ``stream``; returns the handler.

    :param facts: what every line says, whatever it tells of.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EventLines(facts))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def fact_text(value: object, limit: int = MAX_VALUE_CHARACTERS) -> str:
    """One value of a line: as it is when that is unambiguous, else a JSON string; never a line break."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    if len(text) > limit:
        text = f"{text[:limit]}…"
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _failure_facts(failure: BaseException) -> str:
    stack = "".join(traceback.format_exception(failure))
    return (
        f"error={fact_text(f'{type(failure).__name__}: {failure}')} "
        f"traceback={fact_text(stack[-MAX_TRACEBACK_CHARACTERS:], MAX_TRACEBACK_CHARACTERS)}"
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Repeats:
    """Lets the same event through once per interval and counts what it holds back.

    A client that fails ten thousand times a second must not write ten thousand lines:

        if (left_out := repeats.due(("bad frame", host))) is not None:
            log.warning("bad frame", remote=host, left_out=left_out)

    Remembers at most ``max_keys`` keys; beyond that the oldest is forgotten and may be let through early.
    """

    __slots__ = ("_clock_ms", "_interval_ms", "_max_keys", "_seen")

    def __init__(self, clock_ms: Milliseconds, *, interval_ms: int = 10_000, max_keys: int = 1_024) -> None:
        self._clock_ms = clock_ms
        self._interval_ms = interval_ms
        self._max_keys = max_keys
        self._seen: dict[Hashable, tuple[int, int]] = {}

    def due(self, key: Hashable) -> int | None:
        """How many were held back since the last one let through, or None to hold this one back."""
        now_ms = self._clock_ms()
        last_ms, left_out = self._seen.get(key, (now_ms - self._interval_ms, 0))
        if 0 <= now_ms - last_ms < self._interval_ms:
            self._seen[key] = (last_ms, left_out + 1)
            return None
        self._seen.pop(key, None)
        if len(self._seen) >= self._max_keys:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = (now_ms, 0)
        return left_out
