"""The question: how long from send() to the listener of a waiting consumer, at a paced rate."""

from __future__ import annotations

from typing import Final

from benchmarks.java_tools import BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, serving

_LEAST_WARM_UP_RATE: Final = 2_000
"""Messages a second: after fewer the client's code is still being compiled when it is measured, and the slowest
hundredth waits for that compiler, whichever server answers.
"""


def _row(rate: int, threads: int = 1, *, is_fresh: bool = False) -> Row:
    """A fresh client warms up at the row's own rate; what it waits for then is mostly itself, so it has no goal."""
    warm_up_rate = rate if is_fresh else max(rate, _LEAST_WARM_UP_RATE)

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
                "late_share": found["late"] / found["sent"],
                "server_cpu_us": found["server_cpu_us"],
            }
        )

    if is_fresh:
        return Row(f"latency-{rate}-fresh", measure)
    return Row(f"latency-{rate}", measure, {"p99_ms": 0.5, "p999_ms": 0.8})


# A thread waits for each answer: one of them does not keep the last pace. ``messages_per_s`` says which one was kept,
# ``late_share`` how many sends began over 5 ms late; a latency begins with the send, late or not.
ROWS = (_row(200), _row(200, is_fresh=True), _row(2_000), _row(10_000, threads=8))
