"""When a processor did nothing for any program: its host was busy elsewhere, or the kernel could not be put aside.

    python -m benchmarks.standstill PROCESSOR                as root, until SIGTERM; then prints [[begin, end], …]

On the processor a thread of real-time priority, which has nothing to do, is woken every five milliseconds. No other
program can hold it up, except by a long call of the kernel. Whether that was it is not seen; a time without any load
tells how often the host alone does so. Times are seconds of ``time.monotonic``, which all processes share.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

PERIOD_S, LATE_S = 0.005, 0.003
_PRIORITY = 1
Interval = tuple[float, float]


def united(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same times in order, without overlaps."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def seconds_within(intervals: Sequence[Interval], begin: float, end: float) -> float:
    """Return how many seconds of a span the times take; they do not overlap."""
    first = bisect_left(intervals, begin, key=lambda interval: interval[1])
    last = bisect_right(intervals, end, key=lambda interval: interval[0])
    return sum(min(end, to) - max(begin, since) for since, to in intervals[first:last])


class Watch(AbstractContextManager["Watch"]):
    """All processors of this process are watched from the begin of a block to its end."""

    def __init__(self) -> None:
        self.intervals: list[Interval] | None = None
        """When one of them stood still, after the block; None where real-time priority is not allowed."""
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Watch:
        for processor in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-m", "benchmarks.standstill", str(processor)]
            self._processes.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.readline()  # else it is asked to end before it listens to that
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        found = [process.communicate()[0] for process in self._processes]
        if all(process.returncode == 0 for process in self._processes):
            self.intervals = united((begin, end) for text in found for begin, end in json.loads(text))


def main() -> None:
    """Watch one processor."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it will tell
    os.sched_setaffinity(0, {int(sys.argv[1])})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError as error:
        sys.exit(f"whether a processor stood still is not known: {error}")
    print("watching", flush=True)
    found = []
    parent = os.getppid()
    while os.getppid() == parent:
        due = time.monotonic() + PERIOD_S
        if signal.sigtimedwait({signal.SIGTERM}, PERIOD_S):
            break
        if (woke := time.monotonic()) - due > LATE_S:
            found.append((due, woke))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
