"""Memory that was used and is free again goes back to the system.

The C library keeps what is freed below its top. After a hundred answers of 4 MB were made and sent, all their room may
stay with the process for ever. Looking for such room costs milliseconds, so it is done only when the size of the
process has changed by much, either way, and changes no more.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.remoting.descriptors import NO_DESCRIPTOR

CHANGED_BYTES: Final = 16 * 1024 * 1024
"""Change of the size of the process, in bytes, after which free memory is looked for."""
SETTLED_BYTES: Final = CHANGED_BYTES // 4
"""Change between two looks, in bytes, below which the size stays."""
SIZES: Final = Path("/proc/self/statm")


class SpareMemory:
    """Decides when free memory is given back.

    :param used: bytes that the process has of its own now.
    :param give_back: gives back what is free.
    """

    def __init__(self, used: Callable[[], int], give_back: Callable[[], None]) -> None:
        self._used = used
        self._give_back = give_back
        self._settled_bytes = self._last_bytes = used()

    def look(self) -> bool:
        """Give memory back if it is time; return whether it was."""
        last_bytes, used_bytes = self._last_bytes, self._used()
        self._last_bytes = used_bytes
        if abs(used_bytes - self._settled_bytes) < CHANGED_BYTES or abs(used_bytes - last_bytes) > SETTLED_BYTES:
            return False
        self._give_back()
        self._settled_bytes = self._last_bytes = self._used()
        return True


def spare_memory() -> SpareMemory | None:
    """Return one for this process; None where the C library cannot do it, or the system does not tell its size.

    :raises OSError: the process has no descriptor left to ask with.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
        return SpareMemory(own_bytes, lambda: trim(0))
    except (AttributeError, ValueError):
        return None
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
        return None


def own_bytes() -> int:
    """Return the resident bytes of this process without pages of files, which belong to the system.

    :raises OSError: the system does not tell them.
    """
    _, resident, of_files, *_ = SIZES.read_text().split()
    return (int(resident) - int(of_files)) * resource.getpagesize()
