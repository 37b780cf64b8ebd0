"""The question: how many messages a second does a Java producer get stored, and how long does one take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from benchmarks.java_tools import BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Flush, Kind, Server, serving, wait_for
from gateway.client import AdminClient

_QUEUES = "8"
_CHECKS = {"transactionCheckInterval": "6000", "transactionTimeOut": "6000"}
"""Else Apache RocketMQ looks for the first time when all is over, and the gateway after transactionTimeOut."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "sync-1": ("-w", "1"),
    "sync-16": ("-w", "16"),
    "sync-64": ("-w", "64"),
    "sync-64-1k": ("-w", "64", "-s", "1024"),
    "sync-16-64k": ("-w", "16", "-s", "65536"),
    "async": ("-m", "async", "-w", "1"),
    "batch-16": ("-m", "batch", "-b", "16", "-w", "16"),
    "transactions": ("-m", "tx", "-w", "32"),
    "transactions-unknown": ("-m", "tx", "-w", "32", "--un", "0.1"),
    "sync-1-flush": ("-w", "1"),
    "sync-16-flush": ("-w", "16"),
    "sync-64-flush": ("-w", "64"),
    "sync-64-1k-flush": ("-w", "64", "-s", "1024"),
    "sync-16-64k-flush": ("-w", "16", "-s", "65536"),
    "async-flush": ("-m", "async", "-w", "1"),
    "batch-16-flush": ("-m", "batch", "-b", "16", "-w", "16"),
    "transactions-flush": ("-m", "tx", "-w", "64"),
    "durable-64": ("-w", "64"),
}
"""Of the load program, by row."""
LEAST_COMMITTED, LEAST_COMMITTED_OF_UNKNOWN = 0.999, 0.89
"""This share of the transactions the gateway has in the topic's queues afterwards: an outcome is sent without waiting
for an answer, and of those without one, a tenth, a part is still to be checked. Apache RocketMQ's share is told.
"""
OUTCOMES_S = 30
"""After the load, for outcomes that were put off."""
LATENCY_GOALS = {"p99_ms": 0.5, "p999_ms": 0.8, "anonymous_after_mb": 0.15}


def load(server: Server, effort: Effort, *options: str) -> dict[str, Any]:
    """One load program against a topic of its own; an error when a send failed."""
    found = run_program(
        "SendLoad",
        *("-n", server.nameserver, "-t", "Bench", "--create", _QUEUES, "--pid", str(server.broker_pid)),
        *("-u", str(effort.warm_up_s), "-d", str(effort.measured_s), *options),
    )
    if found["failed"] or found["not_ok_status"]:
        raise BenchmarkError(f"{server.kind}: sends failed: {found['failed']} {found['errors']}")
    if found["mode"] == "tx":
        found["outcomes"] = _outcomes(server, found, unknown="--un" in options)
    return found


def _outcomes(server: Server, found: dict[str, Any], *, unknown: bool) -> dict[str, float]:
    """Which share of the transactions is carried out, and how long after the load.

    Half messages alone would be quick, and so would outcomes be that are put off or lost.
    """
    if unknown and not found["checks"]:
        raise BenchmarkError(f"{server.kind}: no transaction was checked")
    begun = found["total_acked"]
    wanted = begun * (LEAST_COMMITTED_OF_UNKNOWN if unknown else LEAST_COMMITTED)
    begin = time.monotonic()
    with AdminClient(namesrv=server.nameserver) as admin:
        with suppress(BenchmarkError):
            wait_for(lambda: stored(admin) >= wanted, server, "commit what was sent", OUTCOMES_S)
        return {"committed_share": stored(admin) / begun, "outcomes_behind_s": time.monotonic() - begin}


def stored(admin: AdminClient) -> int:
    """Return how many messages of the load consumers can see."""
    return sum(queue.max_offset for queue in admin.topics.stats("Bench").values())


def measured(server: Server, found: dict[str, Any]) -> Measured:
    """The values of a load program's result."""
    resident, anonymous = server.memory_bytes()
    return Measured(
        {
            "messages_per_s": found["tps"],
            "p50_ms": found["p50_ms"],
            "p99_ms": found["p99_ms"],
            "p999_ms": found["p999_ms"],
            "server_cpu_us": found["server_cpu_us"],
            "client_cpu_us": found["client_cpu_us"],
            "memory_after_mb": resident / 1e6,
            "anonymous_after_mb": anonymous / 1e6,
            **found.get("outcomes", {}),
        }
    )


def _row(
    name: str,
    goal: float,
    *,
    flush: Flush = "ASYNC_FLUSH",
    settings: Mapping[str, str] | None = None,
    committed: float | None = None,
) -> Row:
    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind, flush, settings=settings) as server:
            return measured(server, load(server, effort, *OPTIONS[name]))

    own_goals = {} if committed is None else {"committed_share": committed}
    return Row(name, measure, {"messages_per_s": goal, **LATENCY_GOALS}, own_goals, flush=flush)


def _durable_beside_not(kind: Kind, effort: Effort) -> Measured:
    """The gateway flushes every message, Apache RocketMQ does not."""
    with serving(kind, "SYNC_FLUSH" if kind == "gateway" else "ASYNC_FLUSH") as server:
        return measured(server, load(server, effort, *OPTIONS["durable-64"]))


ROWS = (
    _row("sync-1", 1.0),
    _row("sync-16", 1.8),
    _row("sync-64", 3.0),
    _row("sync-64-1k", 2.2),
    _row("sync-16-64k", 1.0),
    _row("async", 2.2),
    _row("batch-16", 1.0),
    _row("transactions", 2.0, committed=LEAST_COMMITTED),
    _row("transactions-unknown", 2.0, settings=_CHECKS, committed=LEAST_COMMITTED_OF_UNKNOWN),
    _row("sync-1-flush", 1.0, flush="SYNC_FLUSH"),
    _row("sync-16-flush", 1.0, flush="SYNC_FLUSH"),
    _row("sync-64-flush", 2.0, flush="SYNC_FLUSH"),
    _row("sync-64-1k-flush", 1.0, flush="SYNC_FLUSH"),
    _row("sync-16-64k-flush", 1.0, flush="SYNC_FLUSH"),
    _row("async-flush", 1.0, flush="SYNC_FLUSH"),
    _row("batch-16-flush", 1.0, flush="SYNC_FLUSH"),
    _row("transactions-flush", 1.5, flush="SYNC_FLUSH", committed=LEAST_COMMITTED),
    Row("durable-64", _durable_beside_not, {"messages_per_s": 1.5}),
)
