"""The question: what becomes of the rate when connections, or topics, are not only many but all of them in use.

The stock client has one connection for each process, and a JVM for each is more than a machine has room for. These rows
send that client's requests, made beforehand, over plain sockets (`benchmarks.prepared_load`), to both servers alike.
"""

from __future__ import annotations

from benchmarks import prepared_load
from benchmarks.beside import TOPICS, with_topics
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, cpu_s, serving

QUEUES = 8
FRAMES = 2_000
UNDER_WAY = 1_000
"""Messages, over all connections."""


def _row(name: str, connections: int, topics: list[str], queues: int) -> Row:
    places = len(topics) * queues
    load = {"connections": connections, "in_flight": UNDER_WAY // connections}

    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind, prepare=lambda directory: with_topics(directory, *topics)) as server:
            frames = prepared_load.sends(topics, queues, max(FRAMES, places))
            ports = [server.broker_port]
            prepared_load.run(ports, frames, **load, seconds=effort.warm_up_s, least=places)
            before = cpu_s(server.broker_pid)
            found = prepared_load.run(ports, frames, **load, seconds=effort.measured_s)
            used_s = cpu_s(server.broker_pid) - before
            resident, anonymous = server.memory_bytes()
            return Measured(
                {
                    "messages_per_s": found.per_s,
                    "server_cpu_us": used_s / found.answers * 1e6,
                    "client_cpu_us": found.client_cpu_s / found.answers * 1e6,
                    "memory_after_mb": resident / 1e6,
                    "anonymous_after_mb": anonymous / 1e6,
                }
            )

    return Row(name, measure, {"messages_per_s": 1.0, "anonymous_after_mb": 0.15})


ROWS = (
    _row("connections-1-busy", 1, ["Bench"], QUEUES),
    _row("connections-100-busy", 100, ["Bench"], QUEUES),
    _row("connections-1000-busy", 1_000, ["Bench"], QUEUES),
    _row("topics-10000-busy", 100, [f"topic-{number}" for number in range(TOPICS)], 1),
)
