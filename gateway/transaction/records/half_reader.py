"""Read the records of half messages: many at once for checks, and one for an outcome.

Records in memory are read on the reactor's thread, and longer reads run in another thread. A half message is checked
long after its write, so a busy broker no longer has the record in memory. One batch is read at a time and handed over
whole, in its order. The disk therefore does not change the order of checks.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from gateway.in_thread import Failed, InThread
from gateway.transaction.needs import LogAccess, ReadInTurn
from wire.errors import RecordError
from wire.message.record import StoredMessage

MAX_READ_BYTES = 8 << 20
"""The size at which a batch ends, after the record that reaches the size.

A hundred records of 4 MB would be too much.
"""

LONG_BYTES: Final = 64 * 1_024
"""The record size from which a read runs in a thread even if the record is in memory: 4 MB take some milliseconds."""

Place: TypeAlias = tuple[int, int]
"""The commit log offset and size of a record."""
Found: TypeAlias = StoredMessage | Failed | None
"""A record, or why it could not be read, or None if there is no such record (any more)."""


class HalfReader:
    """Read half messages for one broker. All methods belong to the reactor thread.

    :param in_thread: runs a blocking function in a thread.
    """

    def __init__(self, store: LogAccess, in_thread: InThread) -> None:
        self._store = store
        self._in_thread = in_thread
        self.is_busy = False
        """True while a batch waits for the disk; in this time no other batch may be read."""

    def read(self, places: Sequence[Place], done: Callable[[list[Found]], None]) -> None:
        """Call ``done`` with the records at these places, at once if all of them are in memory."""
        assert not self.is_busy, "one batch at a time"
        found: list[Found] = [self._in_memory(place) for place in places]
        cold = [number for number, half in enumerate(found) if half is None]
        if not cold:
            done(found)
            return
        self.is_busy = True
        self._in_thread(partial(self._read_cold, places, cold, found), partial(self._ended, found, done))

    def _read_cold(self, places: Sequence[Place], cold: Sequence[int], found: list[Found]) -> None:
        """Read the records that are not in memory, in a thread."""
        for number in sorted(cold, key=places.__getitem__):
            found[number] = _on_disk(self._store, places[number])

    def _ended(self, found: list[Found], done: Callable[[list[Found]], None], result: object) -> None:
        self.is_busy = False
        if isinstance(result, Failed):
            found[:] = [result if half is None else half for half in found]
        done(found)

    def _in_memory(self, place: Place) -> StoredMessage | None:
        try:
            return self._store.message_now(*place)
        except OSError:
            return None  # the read in the thread reports the error, if it occurs again


def find_whole(
    store: LogAccess, read: ReadInTurn, place: Place, holder: Hashable, done: Callable[[Found], None]
) -> None:
    """Call ``done`` with the record at a place, body included, at once if the record is short and in memory.

    :param read: reads in a thread, with turns between the askers.
    :raises RequestRefused: too many reads wait.
    """
    half: StoredMessage | None = None
    if place[1] < LONG_BYTES:
        with suppress(OSError):  # the read in the thread reports the error, if it occurs again
            half = store.message_now(*place)
    if half is None:
        read(partial(_on_disk, store, place), done, holder)
    else:
        done(half)


def _on_disk(store: LogAccess, place: Place) -> Found:
    try:
        return store.message_at(*place)
    except RecordError:
        return None
    except OSError as error:
        return Failed(error)
