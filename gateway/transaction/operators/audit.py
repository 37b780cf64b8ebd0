"""The audit log of what people did to transactions: an append-only file with one JSON object in each line.

A line is on disk before the action is carried out.

    {"time": "2026-05-04T10:11:12.345Z", "event": "asked", "operator": "alice", "remote": "127.0.0.1:40212", …}
    {"time": …, "event": "done", …, "code": "SUCCESS", "state": "COMMITTED"}

Each action has two lines; a kill between the two leaves the first. A file that has grown to its limit is renamed to
``audit.jsonl.1``, and the former ``.1`` to ``.2``. The oldest file is deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from gateway.clock import Milliseconds
from gateway.in_thread import Failed, InThread
from gateway.readable import moment_text
from gateway.rotated_lines import RotatedLines
from wire.safe_text import safe_json

FILE_NAME = "audit.jsonl"
MAX_FILE_BYTES = 10 << 20
KEPT_FILES = 5
"""The number of full files kept beside the current file. Together they hold some hundred thousand actions."""
MAX_TEXT_CHARACTERS = 2_000
"""The length at which a longer value is cut."""


class AuditLog:
    """The audit file.

    :param directory: made if missing.
    :param in_thread: runs the writes.
    """

    def __init__(self, directory: Path, clock_ms: Milliseconds, *, in_thread: InThread) -> None:
        self.path = directory / FILE_NAME
        self._clock_ms = clock_ms
        self._in_thread = in_thread
        lock = threading.Lock()
        self._file = RotatedLines(
            self.path, max_bytes=MAX_FILE_BYTES, files=KEPT_FILES + 1, lock=lambda: lock, syncs=True
        )

    def write(self, facts: Mapping[str, object], done: Callable[[Failed | None], None]) -> None:
        """Append a line. ``done`` gets None after the line is on disk, or the failure that prevented the write."""
        line = safe_json(
            {"time": moment_text(self._clock_ms()), **{name: _shortened(value) for name, value in facts.items()}}
        )
        self._in_thread(lambda: self._append(line.encode() + b"\n"), done)

    def _append(self, line: bytes) -> None:
        """Append a line in a thread. Several threads may call at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file.append(line)


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        return f"{value[:MAX_TEXT_CHARACTERS]}…"
    return value
