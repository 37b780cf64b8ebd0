"""The question: how long from send() to the listener of a waiting consumer, at a paced rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.java_tools import BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, serving

_LEAST_WARM_UP_RATE: Final = 2_000
"""Messages a second: after fewer the client's code is still being compiled when it is measured, and the slowest
hundredth waits for that compiler, whichever server answers.
"""
_SINCE_SEND: Final = {"p99_ms": 0.5, "p999_ms": 0.8}
_SINCE_DUE: Final = {"due_p99_ms": 0.5, "due_p999_ms": 0.8}
"""A thread waits for each answer. Where a server is too slow for the pace, all its messages are sent late: what that
takes is not in a latency that begins with the send.
"""


def _row(name: str, rate: int, goals: Mapping[str, float], *, threads: int = 1, warm_up_rate: int = 0) -> Row:
    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind) as server:
            found = run_program(
                "Latency",
                *("-n", server.nameserver, "-t", "Latency", "--create", "8", "--pid", str(server.broker_pid)),
                *("-u", str(effort.warm_up_s), "-d", str(effort.measured_s), "-r", str(rate), "-w", str(threads)),
                *("--warm", str(warm_up_rate or max(rate, _LEAST_WARM_UP_RATE))),
            )
        if found["failed"] or found["got"] != found["sent"]:
            raise BenchmarkError(f"{kind}: sent {found['sent']}, got {found['got']}, failed {found['failed']}")
        return Measured(
            {
                "p50_ms": found["p50_ms"],
                "p99_ms": found["p99_ms"],
                "p999_ms": found["p999_ms"],
                "messages_per_s": found["sent"] / found["secs"],
                "due_p50_ms": found["due_p50_ms"],
                "due_p99_ms": found["due_p99_ms"],
                "due_p999_ms": found["due_p999_ms"],
                "late_share": found["late"] / found["sent"],
                "server_cpu_us": found["server_cpu_us"],
            }
        )

    return Row(name, measure, dict(goals))


# Without a goal: a fresh client waits mostly for its own compiler, and eight threads that wait for their answers do not
# send 10,000 a second on a slow machine, whatever the server.
ROWS = (
    _row("latency-200", 200, _SINCE_SEND),
    _row("latency-200-fresh", 200, {}, warm_up_rate=200),
    _row("latency-2000", 2_000, _SINCE_SEND),
    _row("latency-10000", 10_000, _SINCE_DUE, threads=32),
    _row("latency-10000-8", 10_000, {}, threads=8),
)
