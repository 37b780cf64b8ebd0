"""Reads the records of half messages for checks: many at once, and in a thread when one of them waits for the disk.

What is in memory is read where the reactor runs; a half message is checked long after it was written, so a broker
with much traffic has let go of it by then. One batch is read at a time and handed over whole and in its order, so
who is checked before whom does not depend on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from gateway.in_thread import InThread
from gateway.transaction.log_access import LogAccess
from wire.errors import RecordError
from wire.message.record import StoredMessage

MAX_READ_BYTES = 8 << 20
"""A batch ends with the record that reaches so many bytes: a hundred of 4 MB would be too much to hold."""

Place: TypeAlias = tuple[int, int]
"""Commit log offset and size."""
Found: TypeAlias = StoredMessage | Exception | None
"""A record, why it could not be read, or None when there is none (any more)."""


class HalfReader:
    """Reads for one broker; all methods belong to the reactor thread.

    :param in_thread: runs a blocking function in a thread.
    """

    def __init__(self, store: LogAccess, in_thread: InThread) -> None:
        self._store = store
        self._in_thread = in_thread
        self.is_busy = False
        """A batch waits for the disk; no other may be read meanwhile."""

    def read(self, places: Sequence[Place], done: Callable[[list[Found]], None]) -> None:
        """Call ``done`` with what lies at these places, at once when all of it is in memory."""
        assert not self.is_busy, "one batch at a time"
        found: list[Found] = [self._in_memory(place) for place in places]
        cold = [number for number, half in enumerate(found) if half is None]
        if not cold:
            done(found)
            return
        self.is_busy = True
        self._in_thread(partial(self._read_cold, places, cold, found), partial(self._ended, found, done))

    def _read_cold(self, places: Sequence[Place], cold: Sequence[int], found: list[Found]) -> None:
        """In a thread."""
        for number in sorted(cold, key=places.__getitem__):
            found[number] = self._on_disk(places[number])

    def _ended(self, found: list[Found], done: Callable[[list[Found]], None], result: object) -> None:
        self.is_busy = False
        if isinstance(result, Exception):
            found[:] = [result if half is None else half for half in found]
        done(found)

    def _in_memory(self, place: Place) -> StoredMessage | None:
        try:
            return self._store.message_now(*place)
        except OSError:
            return None  # told of by the thread, if it is still so

    def _on_disk(self, place: Place) -> Found:
        try:
            return self._store.message_at(*place)
        except RecordError:
            return None
        except OSError as error:
            return error
