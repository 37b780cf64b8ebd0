"""The question: what does a load lose beside consumers, beside idle connections, beside ten thousand topics."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.java_tools import start_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.sending import LATENCY_GOALS, load, measured, stored
from benchmarks.servers import Kind, Server, serving, wait_for
from gateway.client import AdminClient, NothingConsumed
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.disk.config_json import TopicsFile

TOPICS = 10_000
SENDERS = ("-w", "64")
CATCH_UP_S = 300
"""For a consumer that was left behind by the load."""
TOLD_MS = 1_000
"""So often a consumer tells the broker what it has read, from ten seconds after its start on."""


@contextmanager
def idle_connections(server: Server, count: int) -> Iterator[None]:
    """Clients that said hello and do nothing else."""
    with ExitStack() as stack:
        for number in range(count):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.broker_port), 10))
            body = HeartbeatData(client_id=f"idle-{number}", producers=("idle",)).build()
            client.sendall(Connection().send(RemotingCommand(RequestCode.HEART_BEAT, opaque=1, body=body)))
        yield


@contextmanager
def consumer(server: Server, effort: Effort) -> Iterator[None]:
    """A Java push consumer that takes what the load sends for as long as it lasts, from when the broker knows it."""
    seconds = str(effort.warm_up_s + effort.measured_s + CATCH_UP_S)
    common = ("-n", server.nameserver, "-t", "Bench", "-c", "1000000000", "-m", "push")
    running = start_program("Backlog", *common, "--max", seconds, "--persist", str(TOLD_MS))
    try:
        with AdminClient(namesrv=server.nameserver) as admin:
            wait_for(lambda: bool(admin.groups.of_topic("Bench")), server, "see its consumer")
        yield
    finally:
        running.process.kill()
        running.process.communicate()


def one_topic(directory: Path) -> None:
    """A store whose broker has the topic of the load: a consumer that finds none looks again half a minute later."""
    with_topics(directory, "Bench")


def many_topics(directory: Path) -> None:
    """A store whose broker has ten thousand topics of 8 queues."""
    with_topics(directory, *(f"topic-{number}" for number in range(TOPICS)))


def with_topics(directory: Path, *names: str) -> None:
    """A store whose broker has topics of 8 queues."""
    topics = {name: TopicConfig(topic_name=name, read_queue_nums=8, write_queue_nums=8, perm=6) for name in names}
    path = directory / "store" / "config" / "topics.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(TopicsFile(topics, DataVersion(timestamp=1), {}).build())


def _beside_connections(count: int) -> Callable[[Kind, Effort], Measured]:
    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind) as server, idle_connections(server, count):
            return measured(server, load(server, effort, *SENDERS))

    return measure


def _beside_consumer(kind: Kind, effort: Effort) -> Measured:
    """Return rates of a load with a consumer beside it. A message counts once it is read."""
    with serving(kind, prepare=one_topic) as server, consumer(server, effort):
        begin = time.monotonic()
        values = measured(server, load(server, effort, *SENDERS)).values
        sent = time.monotonic()
        with AdminClient(namesrv=server.nameserver) as admin:
            wait_for(lambda: _is_read(admin), server, "deliver what it stored", CATCH_UP_S)
            read = time.monotonic()
            delivered = stored(admin)
        return Measured({**values, "delivered_per_s": delivered / (read - begin), "consumer_behind_s": read - sent})


def _is_read(admin: AdminClient) -> bool:
    """Return whether the consumer has said so."""
    try:
        groups = admin.groups.of_topic("Bench")
        return bool(groups) and admin.offsets.lag(groups[0], "Bench") == 0
    except NothingConsumed:
        return False


def _beside_topics(kind: Kind, effort: Effort) -> Measured:
    with serving(kind, prepare=many_topics) as server:
        return measured(server, load(server, effort, *SENDERS))


def _row(name: str, measure: Callable[[Kind, Effort], Measured], **goals: float) -> Row:
    return Row(name, measure, {"messages_per_s": 1.5, **goals, **LATENCY_GOALS})


ROWS = (
    _row("mixed-64", _beside_consumer, delivered_per_s=1.0),
    _row("connections-100", _beside_connections(100)),
    _row("connections-1000", _beside_connections(1_000)),
    _row("topics-10000", _beside_topics),
)
