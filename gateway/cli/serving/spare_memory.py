"""Memory that was used and is free again goes back to the system.

The C library keeps what is freed below its top. After a hundred answers of 4 MB were made and sent, all their room may
stay with the process for ever. Looking for such room costs about 0.1 ms for each megabyte that is found, so it is done
only when the size of the process has changed by a share of it, either way, and changes no more.

It can do so of one heap only: what is free at the end of the heap of a thread stays, 8 MB for each thread that once
read large messages. So all threads share one, see ``share_one_heap``.

Objects that know each other in a circle hold their memory until the garbage collector finds them, which rests most of
the time. Requests make none, see ``forget_frames``; should there be some, a process that stays larger looks for them.
And Python keeps thousands of freed tuples for the next ones, each with a megabyte of small objects around it that is
free as well; a look at all objects lets go of them.
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
"""Free memory is looked for when the size of the process has changed by one part of this many."""
SETTLED_BYTES: Final = 4 * 1024 * 1024
"""Change between two looks, in bytes, up to which the size stays."""
FIRST_AGAIN: Final = 4
"""Looks without a change after which free memory is looked for again; then after twice as many, and so on. What was in
use at the last time may be free by now, which changes no size."""
GARBAGE_SHARE: Final = 10
"""Garbage is looked for when the process stays larger by one part of this many."""
ALL: Final = 2
YOUNG: Final = 1
"""The generation of objects up to which it is. A look at all of them may take seconds, one at the young ones ten
milliseconds."""
MOST_LOOKED_AT: Final = 200_000
"""Objects made since the start, up to which all are looked at: about five milliseconds."""
ONE_HEAP: Final = (-8, 1)
"""``M_ARENA_MAX`` of ``mallopt(3)``, and its value."""
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
        """Give memory back if it is time; return whether it was."""
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
    """Let all threads take memory from one heap. Before they begin; where the C library has no such choice, in vain.

    Nearly all memory is taken with Python's lock held: they do not wait for each other.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(*ONE_HEAP)


def spare_memory() -> SpareMemory | None:
    """Return one for this process; None where the C library cannot do it, or the system does not tell its size.

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
    """Free garbage: all of it, and return True, while few objects were made since the start."""
    made = sys.getallocatedblocks() - blocks_at_start
    are_few = made <= MOST_LOOKED_AT
    gc.collect(ALL if are_few else YOUNG)
    return are_few


def own_bytes() -> int:
    """Return the resident bytes of this process without pages of files, which belong to the system.

    :raises OSError: the system does not tell them.
    """
    _, resident, of_files, *_ = SIZES.read_text().split()
    return (int(resident) - int(of_files)) * resource.getpagesize()
