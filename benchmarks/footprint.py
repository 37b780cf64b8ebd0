"""The question: how long from launch to the first stored message, and what does an idle server take."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from benchmarks.java_tools import BenchmarkError, start_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, launched
from gateway.client.testing.server import free_port

_IDLE_S = 5.0


def measure(kind: Kind, effort: Effort) -> Measured:  # noqa: ARG001 - the same for every effort
    """A client that is already waiting, then the launch; then the same server left alone."""
    ports = (free_port(), free_port())
    with ExitStack() as stack:
        waiting = start_program("Ready", "-n", f"127.0.0.1:{ports[0]}", "-t", "Ready")
        stack.callback(waiting.process.kill)  # else it looks for two minutes for a server that does not start
        waiting.wait_for_start()
        server = stack.enter_context(launched(kind, "ASYNC_FLUSH", ports))
        found = waiting.result()
        if found["epoch_ms"] < 0:
            raise BenchmarkError(f"{kind}: no message was stored: {found['last_error']}")
        idle = threading.Event()
        idle.wait(_IDLE_S)
        before = server.cpu_seconds()
        idle.wait(_IDLE_S)
        resident, anonymous = server.memory_bytes()
        return Measured(
            {
                "start_to_first_send_ms": found["epoch_ms"] - server.launched_at_ms,
                "idle_memory_mb": resident / 1e6,
                "idle_anonymous_mb": anonymous / 1e6,
                "idle_cores": (server.cpu_seconds() - before) / _IDLE_S,
            }
        )


ROWS = (Row("footprint", measure, {"start_to_first_send_ms": 0.1, "idle_anonymous_mb": 0.15}),)
