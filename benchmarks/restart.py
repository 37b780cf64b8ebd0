"""The question: how long does a stop take, and how long a start after a kill with a gigabyte in the log."""

from __future__ import annotations

import time

from benchmarks.backlog import fill
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, killed, serving, started_again, stopped

BODY_BYTES = 1_024


def measure(kind: Kind, effort: Effort) -> Measured:
    """Fill, kill, start until clients may connect, stop."""
    with serving(kind) as server:
        fill(server, effort.backlog * 2 // 3, "-s", str(BODY_BYTES))
        killed(server)
        begin = time.monotonic()
        started_again(server)
        ready_s = time.monotonic() - begin
        begin = time.monotonic()
        stopped(server)
        return Measured({"recovery_ms": ready_s * 1e3, "stop_ms": (time.monotonic() - begin) * 1e3})


ROWS = (Row("restart", measure, {"recovery_ms": 0.5, "stop_ms": 0.1}),)
