"""The question: how many messages a second does a Java producer get stored, and how long does one take."""

from __future__ import annotations

from typing import Any

from benchmarks.java_tools import BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Flush, Kind, Server, serving

_QUEUES = "8"


def load(server: Server, effort: Effort, *options: str) -> dict[str, Any]:
    """One load program against a topic of its own; an error when a send failed."""
    found = run_program(
        "SendLoad",
        *("-n", server.nameserver, "-t", "Bench", "--create", _QUEUES, "--pid", str(server.broker_pid)),
        *("-u", str(effort.warm_up_s), "-d", str(effort.measured_s), *options),
    )
    if found["failed"] or found["not_ok_status"]:
        raise BenchmarkError(f"{server.kind}: sends failed: {found['failed']} {found['errors']}")
    return found


def measured(server: Server, found: dict[str, Any]) -> Measured:
    """The values of a load program's result."""
    resident, anonymous = server.memory_bytes()
    return Measured(
        {
            "messages_per_s": found["tps"],
            "p50_ms": found["p50_ms"],
            "p99_ms": found["p99_ms"],
            "server_cpu_us": found["server_cpu_us"],
            "client_cpu_us": found["client_cpu_us"],
            "memory_after_mb": resident / 1e6,
            "anonymous_after_mb": anonymous / 1e6,
        }
    )


def _row(name: str, goal: float, *options: str, flush: Flush = "ASYNC_FLUSH") -> Row:
    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind, flush) as server:
            return measured(server, load(server, effort, *options))

    return Row(name, measure, {"messages_per_s": goal, "p99_ms": 1.0}, flush=flush)


ROWS = (
    _row("sync-1", 0.9, "-w", "1"),
    _row("sync-16", 1.5, "-w", "16"),
    _row("sync-64", 1.5, "-w", "64"),
    _row("sync-1-flush", 0.9, "-w", "1", flush="SYNC_FLUSH"),
    _row("sync-64-flush", 1.5, "-w", "64", flush="SYNC_FLUSH"),
    _row("async", 1.5, "-m", "async", "-w", "1"),
    _row("transactions", 1.2, "-m", "tx", "-w", "32"),
    _row("transactions-flush", 1.5, "-m", "tx", "-w", "64", flush="SYNC_FLUSH"),
)
