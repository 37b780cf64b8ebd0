"""Reads the records of half messages: for checks many at once, for an outcome one, in a thread where that takes long.

What is in memory is read where the reactor runs; a half message is checked long after it was written, so a broker
with much traffic has let go of it by then. One batch is read at a time and handed over whole and in its order, so
who is checked before whom does not depend on the disk.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from gateway.in_thread import Failed, InThread
from gateway.transaction.log_access import LogAccess
from wire.errors import RecordError
from wire.message.record import StoredMessage

MAX_READ_BYTES = 8 << 20
"""A batch ends with the record that reaches so many bytes: a hundred of 4 MB would be too much to hold."""

LONG_BYTES: Final = 64 * 1_024
"""A record from this size on is read in a thread also when it is in memory: 4 MB take some milliseconds."""

ReadInTurn: TypeAlias = Callable[[Callable[[], Any], Callable[[Any], None], Hashable], None]
"""``read(work, done, holder)``: ``work`` runs in a thread, ``done`` gets its value or ``Failed``; holders take turns.

It raises RequestRefused when too many reads wait.
"""


def without_turns(in_thread: InThread) -> ReadInTurn:
    """Return a ``ReadInTurn`` that reads at once and lets everybody in."""
    return lambda work, done, _holder: in_thread(work, done)


Place: TypeAlias = tuple[int, int]
"""Commit log offset and size."""
Found: TypeAlias = StoredMessage | Failed | None
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
        if isinstance(result, Failed):
            found[:] = [result if half is None else half for half in found]
        done(found)

    def _in_memory(self, place: Place) -> StoredMessage | None:
        try:
            return self._store.message_now(*place)
        except OSError:
            return None  # told of by the thread, if it is still so

    def _on_disk(self, place: Place) -> Found:
        return _on_disk(self._store, place)


class WholeMessages:
    """Reads messages of which head and properties have been read once more, with their bodies, one at a time.

    :param read: reads in a thread, those who ask in turn.
    """

    def __init__(self, store: LogAccess, read: ReadInTurn) -> None:
        self._store = store
        self._read = read

    def read(self, place: Place, holder: Hashable, done: Callable[[Found], None]) -> None:
        """Call ``done`` with what lies there, at once when it is short and in memory.

        :raises RequestRefused: too many reads wait.
        """
        half: StoredMessage | None = None
        if place[1] < LONG_BYTES:
            with suppress(OSError):  # told of by the thread, if it is still so
                half = self._store.message_now(*place)
        if half is None:
            self._read(partial(_on_disk, self._store, place), done, holder)
        else:
            done(half)


def _on_disk(store: LogAccess, place: Place) -> Found:
    try:
        return store.message_at(*place)
    except RecordError:
        return None
    except OSError as error:
        return Failed(error)
