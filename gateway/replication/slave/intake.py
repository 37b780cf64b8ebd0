"""The stretches of one connection on their way into the log: held until their records are whole, then appended.

A batch of records is on its way to the disk while the next stretches gather, so the log grows in group commits. The
place of each stretch has to be the end of what came before; each record is checked before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from gateway.in_thread import Failed, InThread
from gateway.store.log.copied_records import CopiedRecords
from wire.replication import MAX_STRETCH_BODY_BYTES, Stretch

MAX_HELD_BYTES = 64 * 1024 * 1024
"""The most bytes of one record, or of the filler that ends a file, with the records behind it that came along."""
PAUSE_BYTES = 2 * MAX_STRETCH_BODY_BYTES
"""The number of held bytes above which nothing is read from the connection while records are on their way."""
MOST_AT_ONCE_BYTES = 1024 * 1024
"""The most bytes whose records are looked at in one turn of the reactor, unless one record is larger."""


class CopyingLog(Protocol):
    """The log that grows; ``MessageStore`` is one."""

    @property
    def durable_end(self) -> int:
        """The offset below which everything is on disk."""

    @property
    def max_commit_log_offset(self) -> int:
        """The offset after the last record."""

    def copied_records(self, received: bytes | bytearray) -> CopiedRecords:
        """Return the intact records at the start of bytes that continue the log."""

    def append_copied(self, records: CopiedRecords, on_copied: Callable[[bool], None]) -> None:
        """Append the records; tell whether all of them are stored and visible."""

    def flush_stored(self) -> bool:
        """Bring the log to the disk up to the last stored record; blocks."""


class Intake:
    """The place where the stretches of one connection go.

    :param stored: called when ``durable_end`` of the log has moved on.
    :param failed: called once with the reason why nothing more can be taken.
    """

    def __init__(
        self, store: CopyingLog, in_thread: InThread, *, stored: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._stored = stored
        self._failed = failed
        self._held = bytearray()
        self._end = 0
        self._needed_bytes = 0
        self._has_failed = False
        self.is_busy = False
        """True while records are on their way to the disk."""

    @property
    def next_offset(self) -> int:
        """The offset of the next byte from the master."""
        if not self.is_busy:
            self._end = self._store.max_commit_log_offset
        return self._end + len(self._held)

    @property
    def is_full(self) -> bool:
        """True if the connection should send nothing more for a moment."""
        return self.is_busy and len(self._held) > PAUSE_BYTES

    def take(self, stretch: Stretch) -> None:
        """Take the next stretch; a sign of life is a stretch without bytes."""
        expected = self.next_offset
        if stretch.offset != expected:
            self._fail(f"the master sends its log from {stretch.offset} on, the log here goes on at {expected}")
            return
        self._held += stretch.body
        self._store_some()

    def close(self) -> None:
        """Take and tell nothing more; records that are on their way are stored all the same."""
        self._has_failed = True
        self._held = bytearray()

    def _fail(self, reason: str) -> None:
        if not self._has_failed:
            self.close()
            self._failed(reason)

    def _store_some(self) -> None:
        """Append what is whole of the held bytes."""
        while not (self.is_busy or self._has_failed) and len(self._held) >= max(self._needed_bytes, 1):
            records = self._store.copied_records(self._held[: max(self._needed_bytes, MOST_AT_ONCE_BYTES)])
            if records.messages:
                self._end = records.start
                self.is_busy = True
                self._store.append_copied(records, partial(self._copied, records))
            elif records.problem is not None:
                self._fail(f"the bytes from {records.end} on are no record of a log: {records.problem}")
            elif records.needed_bytes > MAX_HELD_BYTES:
                self._fail(f"a record or filler at {records.end} takes more than {MAX_HELD_BYTES} bytes")
            else:
                self._needed_bytes = records.needed_bytes

    def _copied(self, records: CopiedRecords, is_stored: bool) -> None:
        if not is_stored:
            self._is_done("the records cannot be stored now, see the errors of the store")
        elif self._store.durable_end < records.end:  # ASYNC_FLUSH
            self._in_thread(self._store.flush_stored, partial(self._flushed, records))
        else:
            self._flushed(records, True)

    def _flushed(self, records: CopiedRecords, result: object) -> None:
        if isinstance(result, Failed) or not result:
            self._is_done("the log cannot be brought to the disk, see the errors of the store")
            return
        if not self._has_failed:
            del self._held[: len(records.data)]
            self._needed_bytes = 0
        self._is_done(None)

    def _is_done(self, fault: str | None) -> None:
        self.is_busy = False
        if fault is not None:
            self._fail(fault)
        elif not self._has_failed:
            self._stored()
            self._store_some()
