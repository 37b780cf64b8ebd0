"""Short turns on the processor, so that a busy neighbour does not delay answers.

A thread that computes, such as the compiler of a Java client on the same machine, keeps a processor for a turn of some
milliseconds. A server wakes, works for a fraction of a millisecond and sleeps again. From version 6.12 on, Linux lets a
waking thread run at once if it asks for shorter turns than the running thread. The thread's share of the processor
stays the same. ``sched_setattr(2)`` and the kernel's ``sched-eevdf`` describe the details.

A busy server is better off with ordinary turns: more messages arrive before each of its turns, and a larger batch is
cheaper. With 64 threads that send as fast as they can, short turns cost a twentieth of the rate.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gateway.remoting.descriptors import NO_DESCRIPTOR

SHORT_NS = 100_000
"""The shortest turn that Linux grants, in nanoseconds."""
ORDINARY_NS = 0
"""The value for a turn of the system's ordinary length."""
BUSY_SHARE = 0.3
"""The share of one processor above which turns are ordinary.

200 messages a second take 0.06; 64 sending threads take 0.4 to 0.8.
"""
SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
"""The number of the system call ``sched_setattr`` by machine: neither Python nor every C library has a name for it."""
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""Size, policy, flags, niceness, real-time priority, turn in nanoseconds, and two times that other policies have."""
THREADS = Path("/proc/self/task")


class ShortTurns:
    """Short turns for a process that sleeps most of the time, ordinary turns while it works.

    :param seconds: returns the time.
    :param worked: returns the seconds for which all threads of the process together have had a processor.
    :param give: gets the nanoseconds of a turn after a change; returns False if the system refuses.
    """

    def __init__(self, seconds: Callable[[], float], worked: Callable[[], float], give: Callable[[int], bool]) -> None:
        self._seconds = seconds
        self._worked = worked
        self._give = give
        self._looked_at = seconds()
        self._worked_then = worked()
        self._turn_ns = ORDINARY_NS

    def look(self) -> bool:
        """Choose the turns by the work since the last look; return False if the kernel refuses."""
        now, worked = self._seconds(), self._worked()
        turn_ns = turn_of(worked - self._worked_then, now - self._looked_at)
        self._looked_at, self._worked_then = now, worked
        if turn_ns == self._turn_ns:
            return True
        given = self._give(turn_ns)
        self._turn_ns = turn_ns
        return given


def turn_of(worked_s: float, passed_s: float) -> int:
    """Return the nanoseconds of a turn for a process that worked ``worked_s`` of the ``passed_s`` seconds."""
    return ORDINARY_NS if worked_s > BUSY_SHARE * passed_s else SHORT_NS


def give(turn_ns: int) -> bool:
    """Ask for turns of ``turn_ns`` for all threads of this process; their new threads inherit the turns.

    Niceness stays the same. Threads with another policy than the ordinary one are left alone. Kernels before 6.12
    accept the call and change nothing.

    :returns: False if there is no such call, if the system refuses the call, or if the threads cannot be listed.
    :raises OSError: the process has no descriptor left to ask with.
    """
    number = SET_ATTRIBUTES.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long)
    try:
        for thread in (int(path.name) for path in THREADS.iterdir()):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                if os.sched_getscheduler(thread) != os.SCHED_OTHER:
                    continue
                niceness = os.getpriority(os.PRIO_PROCESS, thread)
                wish = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, turn_ns, 0, 0)
                if call(number, thread, wish, 0) != 0:
                    raise OSError(ctypes.get_errno(), "sched_setattr")
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
        return False
    return True
