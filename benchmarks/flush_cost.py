"""The question: what does waiting for the disk cost, and how many messages share one sync.

Each server runs twice, with ASYNC_FLUSH and with SYNC_FLUSH, under the same load; ``sync_over_async`` is the part of
its throughput that a server keeps. Syncs are what the gateway counts itself; disk flushes are what the kernel counts
for all disks of the machine, so that both servers are measured alike (other programs flush too: close them).
"""

from __future__ import annotations

import socket
from pathlib import Path

from benchmarks.java_tools import BenchmarkError
from benchmarks.row import Effort, Measured, Row
from benchmarks.sending import load
from benchmarks.servers import Flush, Kind, Server, serving
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.connection import Connection

ANSWER_TIMEOUT_S = 10.0
SYNCS = "rocketmq_gateway_log_syncs_total"
_FLUSHES_FIELD = 18
"""Of a line of /proc/diskstats (Linux 5.5): flush requests completed."""
_OF = {"messages_per_s": "tps", "p99_ms": "p99_ms", "server_cpu_us": "server_cpu_us"}
"""What is kept of a load program's result."""
_WHOLE_DISKS = ("sd", "vd", "nvme", "xvd")


def disk_flushes() -> int | None:
    """Flush requests of all disks since boot; None where the kernel does not say."""
    try:
        lines = Path("/proc/diskstats").read_text().splitlines()
    except OSError:
        return None
    fields = [line.split() for line in lines]
    counted = [line for line in fields if len(line) > _FLUSHES_FIELD and line[2].startswith(_WHOLE_DISKS)]
    return sum(int(line[_FLUSHES_FIELD]) for line in counted) if counted else None


def broker_figures(server: Server) -> dict[str, str]:
    """Return the figures that a broker reports about itself (GET_BROKER_RUNTIME_INFO)."""
    connection = Connection()
    with socket.create_connection(("127.0.0.1", server.broker_port), ANSWER_TIMEOUT_S) as client:
        client.sendall(connection.send(RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=1)))
        while True:
            data = client.recv(1 << 16)
            if not data:
                raise BenchmarkError(f"{server.kind} closed the connection instead of telling its figures")
            for answer in connection.receive_data(data):
                return dict(KVTable.parse(answer.body).table)


def _run(kind: Kind, flush: Flush, effort: Effort, options: tuple[str, ...]) -> dict[str, float]:
    with serving(kind, flush) as server:
        flushes = disk_flushes()
        found = load(server, effort, *options)
        figures = broker_figures(server)
        messages = int(figures["msgPutTotalTodayNow"])
        values = {name: found[of] for name, of in _OF.items()}
        if SYNCS in figures:
            values["messages_per_sync"] = messages / max(int(figures[SYNCS]), 1)
        if flushes is not None:
            values["messages_per_disk_flush"] = messages / max((disk_flushes() or 0) - flushes, 1)
        return values


def _row(name: str, goal: float, *options: str) -> Row:
    def measure(kind: Kind, effort: Effort) -> Measured:
        with_async = _run(kind, "ASYNC_FLUSH", effort, options)
        with_sync = _run(kind, "SYNC_FLUSH", effort, options)
        values = {"sync_over_async": 0.0}
        for name in _OF:
            values |= {f"async_{name}": with_async[name], f"sync_{name}": with_sync.pop(name)}
        values |= with_sync
        values["sync_over_async"] = values["sync_messages_per_s"] / values["async_messages_per_s"]
        return Measured(values)

    return Row(name, measure, own_goals={"sync_over_async": goal, "messages_per_sync": 10.0}, flush="SYNC_FLUSH")


ROWS = (
    _row("flush-cost-64", 0.5, "-w", "64"),
    _row("flush-cost-async", 0.7, "-m", "async", "-w", "1"),
)
