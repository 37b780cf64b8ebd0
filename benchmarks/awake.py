"""Processors that do not sleep while something is measured.

    python -m benchmarks.awake PROCESSOR                     until SIGTERM

A virtual machine's processor that has nothing to do is given to others, and comes back when its host finds time: it is
asked for by a message, and the message waits. A server that always does something does not sleep, whatever is asked of
it. So that both are measured alike each processor has a program that only runs when nothing else wants to, as one would
turn off the idle states of a machine of one's own.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AbstractContextManager

from benchmarks.processors import Processes, start_on_each, stop

_TURNS = 1_000_000
"""Of the loop between two looks whether who started it is still there, some ten milliseconds."""


class Awake(AbstractContextManager["Awake"]):
    """All processors of this process, from the begin of a block to its end."""

    def __init__(self) -> None:
        self.processes: Processes = []

    def __enter__(self) -> Awake:
        self.processes = start_on_each("benchmarks.awake")
        return self

    def __exit__(self, *_: object) -> None:
        stop(self.processes)


def main() -> None:
    """Keep one processor awake."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it will tell
    os.sched_setaffinity(0, {int(sys.argv[1])})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print("gives way to others", flush=True)
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(_TURNS):
            pass


if __name__ == "__main__":
    main()
