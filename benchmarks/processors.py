"""The same program of the benchmarks on each processor of this process.

It gets the processor's number, prints a line when it is ready, and ends at SIGTERM.
"""

from __future__ import annotations

import os
import subprocess
import sys

Processes = list[subprocess.Popen[bytes]]


def start_on_each(module: str) -> Processes:
    """One for each processor; all are ready."""
    processes = [
        subprocess.Popen([sys.executable, "-m", module, str(processor)], stdout=subprocess.PIPE)
        for processor in sorted(os.sched_getaffinity(0))
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    return processes


def stop(processes: Processes) -> list[bytes]:
    """What each printed since it was ready."""
    for process in processes:
        process.terminate()
    return [process.communicate()[0] for process in processes]
