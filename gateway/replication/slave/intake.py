"""The stretches of one connection on their way into the log: held until their records are whole, then appended.

Records are on their way to the disk while the next ones are checked and appended, so the log grows in group commits.
The place of each stretch has to be the end of what came before; each record is checked before it is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from gateway.store.log.copied_records import CopiedRecords
from wire.replication.classic import MAX_STRETCH_BODY_BYTES, Stretch

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""The most bytes of one record, or of the filler that ends a file, with the records behind it that came along."""
MAX_HELD_BYTES = 2 * MAX_RECORD_BYTES
"""The most held bytes, twice the default of ``gateway.maxUnreplicatedBytes``. Apache's masters know no such limit."""
PAUSE_BYTES = 2 * MAX_STRETCH_BODY_BYTES
"""The number of held bytes above which nothing is read from the connection while records are on their way."""
MOST_AT_ONCE_BYTES = 1024 * 1024
"""The number of bytes whose records are looked at at once, with the rest of a stretch, unless one record is larger."""
MERGED_BYTES = 4096
"""The number of bytes below which a stretch becomes part of the held bytes before: each object takes 33 bytes more."""
MAX_UNDER_WAY_BYTES = 8 * MOST_AT_ONCE_BYTES
"""The number of bytes on their way to the disk from which on the next ones wait."""


class CopyingLog(Protocol):
    """The log that grows; ``MessageStore`` is one."""

    @property
    def durable_end(self) -> int:
        """The offset below which everything is on disk."""

    @property
    def max_commit_log_offset(self) -> int:
        """The offset after the last record."""

    def copied_records(self, received: bytes) -> CopiedRecords:
        """Return the intact records at the start of bytes that continue the log."""

    def append_copied(self, records: CopiedRecords, on_copied: Callable[[bool], None]) -> None:
        """Append the records; tell whether all of them are on disk and visible: a slave's store syncs each batch.

        More may follow once ``max_commit_log_offset`` has reached the end of the records.
        """

    def give_up_copied(self) -> None:
        """Refuse at once those records that wait until everything before is visible."""


class Intake:
    """The place where the stretches of one connection go.

    :param stored: called when ``durable_end`` of the log has moved on.
    :param failed: called once with the reason why nothing more can be taken.
    """

    def __init__(self, store: CopyingLog, *, stored: Callable[[], None], failed: Callable[[str], None]) -> None:
        self._store = store
        self._stored = stored
        self._failed = failed
        self._held: deque[bytes | bytearray] = deque()
        self._held_bytes = 0
        self._needed_bytes = 0
        self._end = 0
        """The offset after the records that went to the store, valid while ``is_busy``."""
        self._under_way = 0
        self._under_way_bytes = 0
        self._is_storing = False
        self._has_failed = False

    @property
    def is_busy(self) -> bool:
        """True while records are on their way to the disk."""
        return self._under_way > 0

    @property
    def next_offset(self) -> int:
        """The offset of the next byte from the master."""
        if not self.is_busy:
            self._end = self._store.max_commit_log_offset
        return self._end + self._held_bytes

    @property
    def is_full(self) -> bool:
        """True if the connection should send nothing more for a moment: the disk is busy.

        A store whose records are all on the disk may have to show them before it goes on. The connection says how far
        it may, after bytes of which up to ``MAX_HELD_BYTES`` are held.
        """
        waits_for_disk = self._store.durable_end < self._store.max_commit_log_offset
        return self._held_bytes > PAUSE_BYTES and self.is_busy and waits_for_disk

    def take(self, stretch: Stretch) -> None:
        """Take the next stretch; a sign of life is a stretch without bytes."""
        expected = self.next_offset
        if stretch.offset != expected:
            self._fail(f"the master sends its log from {stretch.offset} on, the log here goes on at {expected}")
            return
        if stretch.body:
            self._hold(stretch.body)
        self._store_some()
        if self._held_bytes > MAX_HELD_BYTES:
            self._fail(f"more than {MAX_HELD_BYTES} bytes wait until the records before are confirmed and stored")

    def _hold(self, body: bytes) -> None:
        """Hold bytes; a small stretch is copied behind the last ones, so that thousands of them take little memory."""
        held = self._held
        self._held_bytes += len(body)
        if not held or len(body) >= MERGED_BYTES or len(held[-1]) >= MOST_AT_ONCE_BYTES:
            held.append(body)
            return
        last = held[-1]
        if isinstance(last, bytearray):
            last += body
        elif len(last) < MERGED_BYTES:
            held[-1] = bytearray(last) + body
        else:
            held.append(bytearray(body))

    def close(self) -> None:
        """Take and tell nothing more; records that are on their way to the disk are stored all the same.

        Records that wait for what the master says are given up. Only another connection could bring that.
        """
        self._has_failed = True
        self._held.clear()
        self._held_bytes = 0
        if self.is_busy:
            self._store.give_up_copied()

    def _fail(self, reason: str) -> None:
        if not self._has_failed:
            self.close()
            self._failed(reason)

    def _store_some(self) -> None:
        """Append what is whole of the held bytes; a store that answers at once calls this again, to no effect."""
        if self._is_storing:
            return
        self._is_storing = True
        while not self._has_failed and self._held_bytes >= max(self._needed_bytes, 1) and self._may_append():
            self._append()
        self._is_storing = False

    def _may_append(self) -> bool:
        """Return whether more may go to the store: while records are on their way, only much at once.

        The store must have appended the records before: all but few are, at once.
        """
        if not self.is_busy:
            return True
        return (
            self._held_bytes >= MOST_AT_ONCE_BYTES
            and self._under_way_bytes < MAX_UNDER_WAY_BYTES
            and self._store.max_commit_log_offset == self._end
        )

    def _append(self) -> None:
        received = self._taken(max(self._needed_bytes, MOST_AT_ONCE_BYTES))
        records = self._store.copied_records(received)
        rest = received[len(records.data) :]
        if rest:
            self._held.appendleft(rest)
            self._held_bytes += len(rest)
        if records.data:
            self._needed_bytes = 0
            self._end = records.end
            self._under_way += 1
            self._under_way_bytes += len(records.data)
            self._store.append_copied(records, partial(self._copied, records))
        elif records.problem is not None:
            self._fail(f"the bytes from {records.end} on are no record of a log: {records.problem}")
        elif records.needed_bytes > MAX_RECORD_BYTES:
            self._fail(f"a record or filler at {records.end} takes more than {MAX_RECORD_BYTES} bytes")
        else:
            self._needed_bytes = records.needed_bytes

    def _taken(self, most: int) -> bytes:
        """Take held bytes out, not many more than asked for."""
        parts: list[bytes | bytearray] = []
        count = 0
        while self._held and count < most:
            parts.append(self._held.popleft())
            count += len(parts[-1])
        self._held_bytes -= count
        first = parts[0]
        return first if len(parts) == 1 and isinstance(first, bytes) else b"".join(parts)

    def _copied(self, records: CopiedRecords, is_stored: bool) -> None:
        self._under_way -= 1
        self._under_way_bytes -= len(records.data)
        if not is_stored:
            self._fail("the records cannot be stored now, see the errors of the store")
        else:
            if not self._has_failed:
                self._stored()
            self._store_some()
