"""The question: how long from send() to the listener of a waiting consumer, at a paced rate."""

from __future__ import annotations

from typing import Final

from benchmarks.java_tools import BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, serving

_WARM_UP_RATE: Final = 2_000
"""Messages a second, at least: after fewer the client's code is still being compiled when it is measured, and the
slowest hundredth waits for that compiler, whichever server answers.
"""
_GOALS: Final = {"p99_ms": 0.5, "p999_ms": 0.8}


def _row(name: str, rate: int, *, warm_up_rate: int, threads: int = 1, goals: dict[str, float] = _GOALS) -> Row:
    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind) as server:
            found = run_program(
                "Latency",
                *("-n", server.nameserver, "-t", "Latency", "--create", "8", "--pid", str(server.broker_pid)),
                *("-u", str(effort.warm_up_s), "-d", str(effort.measured_s), "-r", str(rate), "-w", str(threads)),
                *("--warm", str(warm_up_rate)),
            )
        if found["failed"] or found["got"] != found["sent"]:
            raise BenchmarkError(f"{kind}: sent {found['sent']}, got {found['got']}, failed {found['failed']}")
        return Measured(
            {
                "p50_ms": found["p50_ms"],
                "p99_ms": found["p99_ms"],
                "p999_ms": found["p999_ms"],
                "messages_per_s": found["sent"] / found["secs"],
                "server_cpu_us": found["server_cpu_us"],
            }
        )

    return Row(name, measure, goals)


# A thread waits for each answer: one of them does not keep the last pace. ``messages_per_s`` says which one was kept.
# The fresh client has sent 2,000 messages when it is measured; what it waits for is mostly itself, so no goal is set.
ROWS = (
    _row("latency-200", 200, warm_up_rate=_WARM_UP_RATE),
    _row("latency-200-fresh", 200, warm_up_rate=200, goals={}),
    _row("latency-2000", 2_000, warm_up_rate=2_000),
    _row("latency-10000", 10_000, warm_up_rate=10_000, threads=8),
)
