"""Files that are on the disk only, and reads of them that do not wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

TRIES = 100


def evict(paths: Iterable[Path]) -> None:
    """Nothing of the files stays in memory."""
    for path in paths:
        fd = os.open(path, os.O_RDWR)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def is_left_to_the_disk(read: Callable[[], object | None], evicted: Callable[[], object]) -> bool:
    """Return whether ``read`` once answers None to what ``evicted`` has just taken out of memory.

    Linux asks the disk for missing pages also when the reader will not wait, and then looks for them again. A quick
    disk has answered by then, more often the busier the processors are: such a read has found all in memory. No disk
    is that quick with several MiB, so read as much.
    """
    for _ in range(TRIES):
        evicted()
        if read() is None:
            return True
    return False
