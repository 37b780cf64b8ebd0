"""Figures of the memory that the process uses, for those who see its size and ask what it is.

The system shows a process with all memory that it has, also with free memory between objects in use, which the next
work takes. After a burst of work the size of a process may therefore stay larger for long, while it uses as much as
before. A loss of memory makes the figures here rise as well.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Final

from gateway.telemetry.metrics import Registry

BLOCKS: Final = "rocketmq_gateway_memory_blocks"
HEAP: Final = "rocketmq_gateway_heap_bytes"


class _HeapFacts(ctypes.Structure):
    """The numbers of the C library about its heap, as in ``mallinfo2(3)``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def watch_memory(registry: Registry) -> None:
    """Declare the figures. Without ``mallinfo2`` (glibc since 2.33 has it) there is only that of Python's blocks."""
    registry.watch(BLOCKS, "Blocks of up to 512 bytes that Python's objects use", sys.getallocatedblocks)
    ask = heap_bytes()
    if ask is not None:
        registry.watch(HEAP, "Bytes in use of the C library's heap, which larger objects are in", ask)


def heap_bytes() -> Callable[[], int] | None:
    """Return a function that tells the bytes in use of the C library's heap; None if the library does not tell."""
    try:
        facts = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return None
    facts.restype = _HeapFacts

    def ask() -> int:
        found = facts()
        return int(found.uordblks) + int(found.hblkhd)

    return ask
