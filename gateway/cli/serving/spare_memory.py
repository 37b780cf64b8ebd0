"""The return of memory to the system after its use.

The C library keeps freed memory below the top of its heap. After a hundred answers of 4 MB, all their memory may stay
with the process for ever. A search for free memory costs about 0.1 ms for each megabyte that it finds. Therefore the
search runs only after the size of the process has grown or shrunk by a certain share, and has settled.

The C library can give back memory of one heap only: free memory at the end of a thread's heap stays, 8 MB for each
thread that once read large messages. Therefore all threads share one heap (``share_one_heap``).

Objects in reference cycles hold their memory until the garbage collector finds them, and the collector rests most of
the time. Requests make no cycles (``forget_frames``). Should cycles exist, a process that stays larger searches for
garbage. Python also keeps thousands of freed tuples for later use, each surrounded by a megabyte of free memory of
small objects. A look at all objects releases these tuples, also if there are no objects to look at.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from gateway.remoting.descriptors import NO_DESCRIPTOR

CHANGED_SHARE: Final = 20
"""The size of the process must change by one part of this many before a search for free memory."""
SETTLED_BYTES: Final = 4 * 1024 * 1024
"""The largest change between two looks, in bytes, at which the size counts as settled."""
FIRST_AGAIN: Final = 4
"""The number of looks without a change before the next search; then the number doubles each time.

Memory that was in use at the last search may be free now, although the size has not changed.
"""
GARBAGE_SHARE: Final = 10
"""The process must stay larger by one part of this many before a search for garbage."""
ALL: Final = 2
YOUNG: Final = 1
"""The oldest generation of objects in a small collection, ``ALL`` in a full one.

A look at all objects may take seconds, a look at the young ones ten milliseconds.
"""
MOST_LOOKED_AT: Final = 200_000
"""The most objects made since the start for which all are looked at: about five milliseconds."""
ONE_HEAP: Final = (-8, 1)
"""The parameter ``M_ARENA_MAX`` of ``mallopt(3)``, and its value."""
SIZES: Final = Path("/proc/self/statm")


class SpareMemory:
    """Decides when free memory is given back.

    :param used: bytes that the process has of its own now.
    :param give_back: gives back what is free.
    :param collect: frees garbage; returns whether it looked at all objects.
    """

    def __init__(
        self, used: Callable[[], int], give_back: Callable[[], None], collect: Callable[[], bool] = lambda: True
    ) -> None:
        self._used = used
        self._give_back = give_back
        self._collect = collect
        self._settled_bytes = self._last_bytes = self._collected_bytes = used()
        self._looks = 0
        self._again_after = FIRST_AGAIN

    def look(self) -> bool:
        """Give memory back if the time has come, and return whether memory was given back."""
        last_bytes, used_bytes = self._last_bytes, self._used()
        self._last_bytes = used_bytes
        self._looks += 1
        has_changed = abs(used_bytes - self._settled_bytes) * CHANGED_SHARE >= self._settled_bytes
        if abs(used_bytes - last_bytes) > SETTLED_BYTES or not (has_changed or self._looks >= self._again_after):
            return False
        self._again_after = FIRST_AGAIN if has_changed else 2 * self._again_after
        self._looks = 0
        self._give_back()
        used_bytes = self._used()
        if (used_bytes - self._collected_bytes) * GARBAGE_SHARE >= self._collected_bytes:
            looked_at_all = self._collect()
            self._give_back()
            used_bytes = self._used()
            if looked_at_all:
                self._collected_bytes = used_bytes
        self._collected_bytes = min(self._collected_bytes, used_bytes)
        self._settled_bytes = self._last_bytes = used_bytes
        return True


def share_one_heap() -> None:
    """Let all threads take memory from one heap. Call before threads start; without effect in some C libraries.

    Threads take nearly all memory while they hold Python's lock, so they do not wait for each other.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(*ONE_HEAP)


def spare_memory() -> SpareMemory | None:
    """Return a ``SpareMemory`` for this process.

    None if the C library cannot give memory back, or if the system does not report the size of the process.

    :raises OSError: the process has no descriptor left to ask with.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
        return SpareMemory(own_bytes, lambda: trim(0), partial(collect, sys.getallocatedblocks()))
    except (AttributeError, ValueError):
        return None
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
        return None


def collect(blocks_at_start: int) -> bool:
    """Free garbage: all of it, and return True, while few objects were made since the start.

    In any case the freed tuples that Python keeps are released.
    """
    made = sys.getallocatedblocks() - blocks_at_start
    are_few = made <= MOST_LOOKED_AT
    gc.collect(ALL if are_few else YOUNG)
    if not are_few:
        # A look at all objects, of which there are none meanwhile: it releases the tuples.
        gc.freeze()
        gc.collect(ALL)
        gc.unfreeze()
    return are_few


def own_bytes() -> int:
    """Return the resident bytes of this process without pages of files, which belong to the system.

    :raises OSError: the system does not report the bytes.
    """
    _, resident, of_files, *_ = SIZES.read_text().split()
    return (int(resident) - int(of_files)) * resource.getpagesize()
