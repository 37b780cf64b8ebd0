"""The tables of a broker, its cold requests, and clients that ask them over a memory reactor.

The message store is a stand-in that holds store times; its own tests prove the real one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, succeed

from gateway.broker.cold_reads import ColdReads
from gateway.broker.figures.flows import Flows
from gateway.broker.requests.consumers import ConnectedClients
from gateway.broker.requests.groups import GroupRequests
from gateway.broker.requests.heartbeats import HeartbeatRequests
from gateway.broker.requests.locks import LockRequests
from gateway.broker.requests.offsets import OffsetRequests
from gateway.broker.requests.rare.statistics import StatisticsRequests
from gateway.broker.requests.topics import TopicRequests
from gateway.delivery.filters.subscribed import SubscribedFilters
from gateway.in_thread import in_this_thread
from gateway.membership.consumers import Consumers
from gateway.membership.heartbeats import Heartbeats
from gateway.membership.producers import Producers
from gateway.membership.queue_locks import QueueLocks
from gateway.metadata.groups import Groups
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.topics import Topics
from gateway.remoting.turns import Turns
from gateway.settings import Settings
from gateway.tests.delivery.reactor_turns import ReactorTurns
from gateway.tests.desks import desk_of
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.codes import RequestCode

if TYPE_CHECKING:
    from gateway.store.message_store import MessageStore


@dataclass(slots=True)
class StoredQueue:
    """One queue: the offset of its first message, the store time of each, and whether they left memory."""

    first: int = 0
    stored_at_ms: list[int] = field(default_factory=list)
    cold: bool = False


class StandInStore:
    """Queues as the requests of this package see them."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], StoredQueue] = {}
        self.searched: list[tuple[str, int, int, bool]] = []
        self.on_the_way = 0
        self.not_durable = 0
        self.failure: OSError | None = None
        self.deletion = SimpleNamespace(finish=lambda _, done: done(None))

    def put(self, topic: str, queue_id: int, *stored_at_ms: int, first: int = 0, cold: bool = False) -> None:
        """Let a queue hold messages of these store times."""
        self.kept[topic, queue_id] = StoredQueue(first, list(stored_at_ms), cold)

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self.kept.get((topic, queue_id))
        return -1 if queue is None else queue.first

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self.kept.get((topic, queue_id))
        return 0 if queue is None else queue.first + len(queue.stored_at_ms)

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        return self.kept[topic, queue_id].cold

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        queue = self.kept.get((topic, queue_id), StoredQueue())
        place = offset - queue.first
        return queue.stored_at_ms[place] if 0 <= place < len(queue.stored_at_ms) else -1

    def earliest_stored_at_ms(self, topic: str, queue_id: int) -> int:
        return self.stored_at_ms(topic, queue_id, self.min_offset(topic, queue_id))

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        self.searched.append((topic, queue_id, timestamp_ms, upper))
        return 7

    def next_offset(self, topic: str, queue_id: int) -> int:
        return self.max_offset(topic, queue_id) + self.on_the_way

    def durable_max_offset(self, topic: str, queue_id: int) -> int:
        return self.max_offset(topic, queue_id) - self.not_durable

    def retry_topics(self) -> list[str]:
        return list(dict.fromkeys(topic for topic, _ in self.kept if topic.startswith("%RETRY%")))

    def queues(self) -> Iterable[tuple[str, int]]:
        return self.kept

    def delete_topic(self, topic: str, in_thread: Any, done: Any, *, log_end: int | None = None) -> None:
        for key in [key for key in self.kept if key[0] == topic]:
            del self.kept[key]
        in_thread(self.failing, done)

    def failing(self) -> None:
        if self.failure is not None:
            raise self.failure


class SmallBroker:
    """Everything but messages."""

    def __init__(self, directory: Path, **changed: Any) -> None:
        self.now_ms = 1_000_000
        self.in_thread = in_this_thread
        self.settings = Settings(broker_name="broker-a", **changed)
        self.stand_in = StandInStore()
        self.store = cast("MessageStore", self.stand_in)
        self.topics = Topics(
            path=directory / "topics.json",
            settings=self.settings,
            clock_ms=self.clock,
            in_thread=self._in_thread,
        )
        self.groups = Groups(
            path=directory / "groups.json",
            settings=self.settings,
            clock_ms=self.clock,
            in_thread=self._in_thread,
        )
        self.offsets = ConsumerOffsets(path=directory / "offsets.json", clock_ms=self.clock)
        self.producers = Producers()
        self.consumers = Consumers(groups=self.groups)
        self.heartbeats = Heartbeats(
            producers=self.producers,
            consumers=self.consumers,
            groups=self.groups,
            topics=self.topics,
            clock_ms=self.clock,
        )
        self.locks = QueueLocks(self.clock)
        self.server = Conversation()
        self.deleted: list[str] = []
        self._register()

    def _deleted(self, topic: str) -> Deferred[tuple[str, ...]]:
        self.deleted.append(topic)
        return succeed(())

    def clock(self) -> int:
        """The time by hand."""
        return self.now_ms

    def connect(self, host: str = "192.0.2.7") -> Peer:
        """A client."""
        return self.server.connect(host)

    def consumer(self, client_id: str, group: str, *topics: str) -> Peer:
        """A client that has said that it consumes these topics."""
        peer = self.connect()
        subscriptions = [subscription(topic) for topic in topics]
        data = HeartbeatData(client_id, consumers=(ConsumerData(group, subscriptions=subscriptions),))
        peer.ask_all(RequestCode.HEART_BEAT, body=data.build())
        return peer

    def _in_thread(self, work: Any, done: Any) -> None:
        self.in_thread(work, done)

    def _register(self) -> None:
        desk = desk_of(
            settings=self.settings,
            clock=self.clock,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            producers=self.producers,
            consumers=self.consumers,
            heartbeats=self.heartbeats,
            locks=self.locks,
            filters=SubscribedFilters(),
            filter_turns=ReactorTurns(),
            turns=Turns(self.server.reactor),
            flows=Flows(self.clock),
            cold_reads=ColdReads(self._in_thread, threads=2, limit=2),
            in_thread=self._in_thread,
            forget_topic=self._deleted,
        )
        for requests in (
            HeartbeatRequests(desk),
            ConnectedClients(desk),
            OffsetRequests(desk),
            LockRequests(desk),
            TopicRequests(desk),
            GroupRequests(desk),
            StatisticsRequests(desk),
        ):
            requests.register(self.server.dispatch)
