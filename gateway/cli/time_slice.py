"""Short turns on the processor, so that a busy neighbour does not hold up those who wait for an answer.

A thread that computes, such as the compiler of a Java client on the same machine, keeps a processor for a turn of some
milliseconds. A server wakes, works for a fraction of one and sleeps again. Linux, from 6.12 on, lets a thread that
wakes run at once if it asks for shorter turns than the one that runs; its share of the processor stays what it was.
See ``sched_setattr(2)`` and the kernel's ``sched-eevdf``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

TIME_SLICE_NS = 100_000
"""The shortest turn that Linux grants."""
THREADS = Path("/proc/self/task")
SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
"""The number of the system call ``sched_setattr`` by machine: neither Python nor every C library has a name for it."""
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""Size, policy, flags, niceness, real-time priority, turn in nanoseconds, and two times that other policies have."""


def shorten() -> bool:
    """Ask for turns of ``TIME_SLICE_NS`` for all threads of this process; threads they start inherit them.

    Niceness stays; so does everything of a thread to which somebody gave another policy than the ordinary one. Kernels
    before 6.12 say yes and change nothing.

    :returns: False where there is no such call, or the kernel refuses it.
    """
    number = SET_ATTRIBUTES.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return False
    call = ctypes.CDLL(None).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long)
    asked = True
    for thread in (int(path.name) for path in THREADS.iterdir()):
        try:
            if os.sched_getscheduler(thread) != os.SCHED_OTHER:
                continue
            niceness = os.getpriority(os.PRIO_PROCESS, thread)
        except ProcessLookupError:  # it has ended meanwhile
            continue
        wish = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, TIME_SLICE_NS, 0, 0)
        asked &= call(number, thread, wish, 0) == 0
    return asked
