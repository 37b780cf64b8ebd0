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
from gateway.store.disk.files import FileLayer
from wire.safe_text import safe_json

FILE_NAME = "audit.jsonl"
MAX_FILE_BYTES = 10 << 20
KEPT_FILES = 5
"""The number of full files kept beside the current file. Together they hold some hundred thousand actions."""
MAX_TEXT_CHARACTERS = 2_000
"""The length at which a longer value is cut."""


class AuditLog:
    """The audit file. Each line opens the file again, because actions are rare.

    :param directory: made if missing.
    :param in_thread: runs the writes.
    """

    def __init__(
        self, directory: Path, clock_ms: Milliseconds, *, in_thread: InThread, files: FileLayer | None = None
    ) -> None:
        self.path = directory / FILE_NAME
        self._clock_ms = clock_ms
        self._in_thread = in_thread
        self._files: FileLayer = FileLayer() if files is None else files
        self._lock = threading.Lock()

    def write(self, facts: Mapping[str, object], done: Callable[[Failed | None], None]) -> None:
        """Append a line. ``done`` gets None after the line is on disk, or the failure that prevented the write."""
        line = safe_json(
            {"time": moment_text(self._clock_ms()), **{name: _shortened(value) for name, value in facts.items()}}
        )
        self._in_thread(lambda: self._append(line.encode() + b"\n"), done)

    def _append(self, line: bytes) -> None:
        """Append a line in a thread. Several threads may call at once."""
        files = self._files
        with self._lock:
            files.make_directory(self.path.parent)
            is_new = not files.exists(self.path)
            fd = files.open(self.path, create=True)
            try:
                size = files.size(fd)
                if size and size + len(line) > MAX_FILE_BYTES:
                    files.close(fd)
                    fd = -1
                    self._rotate()
                    fd, size, is_new = files.open(self.path, create=True), 0, True
                if size and files.pread(fd, 1, size - 1) != b"\n":
                    line = b"\n" + line  # ends a line that was cut short by a kill
                files.pwrite(fd, line, size)
                files.fdatasync(fd)
            finally:
                if fd >= 0:
                    files.close(fd)
            if is_new:
                files.fsync_directory(self.path.parent)

    def _rotate(self) -> None:
        files = self._files
        for number in range(KEPT_FILES - 1, 0, -1):
            if files.exists(self._numbered(number)):
                files.rename(self._numbered(number), self._numbered(number + 1))
        files.rename(self.path, self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{FILE_NAME}.{number}")


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        return f"{value[:MAX_TEXT_CHARACTERS]}…"
    return value
