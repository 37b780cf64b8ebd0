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
import subprocess
import sys
from contextlib import AbstractContextManager

_TURNS = 1_000_000
"""Of the loop between two looks whether who started it is still there, some ten milliseconds."""


class Awake(AbstractContextManager["Awake"]):
    """All processors of this process, from the begin of a block to its end."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Awake:
        for processor in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-m", "benchmarks.awake", str(processor)]
            self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        for process in self.processes:
            assert process.stdout is not None
            process.stdout.readline()  # until it gives way to others
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.communicate()


def main() -> None:
    """Keep one processor awake."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it will tell
    os.sched_setaffinity(0, {int(sys.argv[1])})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print("awake", flush=True)
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(_TURNS):
            pass


if __name__ == "__main__":
    main()
