"""The question: how long from send() to the listener of a waiting consumer, at 200 messages a second."""

from __future__ import annotations

from benchmarks.java_tools import BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, serving


def measure(kind: Kind, effort: Effort) -> Measured:
    """End-to-end times of paced messages, sender and receiver in one JVM."""
    with serving(kind) as server:
        found = run_program(
            "Latency",
            *("-n", server.nameserver, "-t", "Latency", "--create", "8", "--pid", str(server.broker_pid)),
            *("-u", str(effort.warm_up_s), "-d", str(effort.measured_s)),
        )
    if found["failed"] or found["got"] != found["sent"]:
        raise BenchmarkError(f"{kind}: sent {found['sent']}, got {found['got']}, failed {found['failed']}")
    return Measured(
        {
            "p50_ms": found["p50_ms"],
            "p99_ms": found["p99_ms"],
            "p999_ms": found["p999_ms"],
            "server_cpu_us": found["server_cpu_us"],
        }
    )


ROWS = (Row("latency", measure, {"p99_ms": 1.0}),)
