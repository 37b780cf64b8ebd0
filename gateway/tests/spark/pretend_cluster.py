"""A cluster in memory that answers as brokers and name servers do, and fails when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from gateway.client.errors import BrokerNotFound, RocketMQError
from gateway.client.message_queue import MessageQueue
from gateway.tests.spark.messages import record
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.pull import PullMessageRequest, PullMessageResponse

T = TypeVar("T")

BROKER = "broker-a"


def queue(queue_id: int = 0, topic: str = "orders", broker_name: str = BROKER) -> MessageQueue:
    """A queue."""
    return MessageQueue(topic, broker_name, queue_id)


class PretendCluster:
    """Queues of records; what a test changes in it is what the source finds.

    ``faults`` are raised, or given as answers, one for each pull, before anything is answered; ``questions`` counts.
    """

    def __init__(self, queues: Mapping[MessageQueue, Sequence[bytes]] | None = None, *, per_pull: int = 32) -> None:
        self.records: dict[MessageQueue, list[bytes]] = {name: list(its) for name, its in (queues or {}).items()}
        self.first: dict[MessageQueue, int] = {}
        self.born_ms: dict[MessageQueue, int] = {}
        self.stores: dict[str, str] = {}
        self.registered: set[str] = {BROKER}
        self.hidden: set[MessageQueue] = set()
        self.other_topics: tuple[str, ...] = ()
        self.faults: deque[Exception | RemotingCommand | None] = deque()
        self.down: RocketMQError | None = None
        self.pulls: list[PullMessageRequest] = []
        self.questions = 0
        self.forgotten = 0
        self.per_pull = per_pull
        self.is_open = True
        self.address = "10.0.0.7:10911"
        self.committed: dict[MessageQueue, int] = {}
        self._answers: dict[int, RemotingCommand] = {}

    def fill(self, name: MessageQueue, count: int) -> None:
        """Append messages."""
        its = self.records.setdefault(name, [])
        begin = self.first.get(name, 0) + len(its)
        its += [record(offset, b"%d" % offset, queue_id=name.queue_id) for offset in range(begin, begin + count)]

    def expire(self, name: MessageQueue, count: int) -> None:
        """Remove the first messages, as retention does."""
        self.first[name] = self.first.get(name, 0) + count
        del self.records[name][:count]

    def make_again(self, name: MessageQueue, count: int) -> None:
        """Delete its topic and make it again, with so many messages."""
        self.born_ms[name] = self.born_ms.get(name, 0) + 60_000
        self.first.pop(name, None)
        self.records[name] = []
        self.fill(name, count)

    # --- as Bounds ----------------------------------------------------------------------------------------

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        found = tuple(sorted(name for name in self.records.keys() - self.hidden if name.topic == topic))
        return found or None

    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({name.topic for name in self.records} | set(self.other_topics)))

    def brokers(self) -> frozenset[str]:
        return frozenset(self.registered)

    def begins(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        self._asked()
        return {name: self.first.get(name, 0) for name in queues}

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        self._asked()
        return {name: self.first.get(name, 0) + len(self.records.get(name, ())) for name in queues}

    def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        self._asked()
        return {
            name: self.born_ms.get(name, 0) + self.first.get(name, 0) if self.records.get(name) else -1
            for name in queues
        }

    def at_time(
        self, queues: Sequence[MessageQueue], timestamp_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        ends, begins = self.ends(queues), self.begins(queues)
        from gateway.tests.spark.messages import STORED_AT_MS

        return {name: min(max(timestamp_ms[name] - STORED_AT_MS, begins[name]), ends[name]) for name in queues}

    def store_ids(self, broker_names: Iterable[str], topic: str) -> dict[str, str]:
        return {name: self.stores[name] for name in broker_names if name in self.stores}

    def mean_bytes(self, name: MessageQueue, offset: int) -> int:
        return 100

    def _asked(self) -> None:
        self.questions += 1
        if self.down is not None:
            raise self.down

    # --- as Cluster and BlockingConnection ----------------------------------------------------------------

    def broker(self, broker_name: str, topic: str, *, fresh: bool = False) -> PretendCluster:
        if broker_name not in {name.broker_name for name in self.records}:
            raise BrokerNotFound(broker_name, 0)
        return self

    def forget(self, broker_name: str) -> None:
        self.forgotten += 1

    def call(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        return self.finish(self.start(command, timeout_s), timeout_s)

    def start(self, command: RemotingCommand, timeout_s: float) -> int:
        command.opaque = len(self.pulls) + 1
        self._answers[command.opaque] = command
        self.pulls.append(parse_header(PullMessageRequest, command.ext_fields))
        return command.opaque

    def finish(self, opaque: int, timeout_s: float) -> RemotingCommand:
        command = self._answers.pop(opaque)
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        return self._pulled(command) if fault is None else fault

    def abandon(self, opaque: int) -> None:
        self._answers.pop(opaque, None)

    @property
    def unanswered(self) -> int:
        """Requests nobody waits for any more, nor abandoned."""
        return len(self._answers)

    def _pulled(self, command: RemotingCommand) -> RemotingCommand:
        asked = parse_header(PullMessageRequest, command.ext_fields)
        name = queue(asked.queue_id, asked.topic)
        first = self.first.get(name, 0)
        its = self.records[name]
        place = asked.queue_offset - first
        end = first + len(its)
        if 0 <= place < len(its):
            given = its[place : place + min(asked.max_msg_nums, self.per_pull)]
            return pull_answer(ResponseCode.SUCCESS, asked.queue_offset + len(given), first, end, b"".join(given))
        code = ResponseCode.PULL_NOT_FOUND if place == len(its) else ResponseCode.PULL_OFFSET_MOVED
        return pull_answer(code, min(max(asked.queue_offset, first), end), first, end)


class ChangingCluster(PretendCluster):
    """A cluster in which things happen between one question and the next."""

    def __init__(self, queues: Mapping[MessageQueue, Sequence[bytes]]) -> None:
        super().__init__(queues)
        self.registered |= {name.broker_name for name in queues}
        self._after: dict[str, tuple[Callable[[], object], ...]] = {}

    def after(self, question: str, *actions: Callable[[], object]) -> None:
        """Let something happen when a question, the name of a method, has been answered the next time."""
        self._after[question] = actions

    def empty(self, name: MessageQueue, store: str, count: int) -> None:
        """Put a broker back with another store, which has some messages in one queue."""
        self.stores[name.broker_name] = store
        self.hidden.discard(name)
        self.first.pop(name, None)
        self.records[name] = []
        self.fill(name, count)

    def begins(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return self._answered("begins", super().begins(queues))

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return self._answered("ends", super().ends(queues))

    def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return self._answered("first_stored", super().first_stored(queues))

    def store_ids(self, broker_names: Iterable[str], topic: str) -> dict[str, str]:
        return self._answered("store_ids", super().store_ids(broker_names, topic))

    def _answered(self, question: str, answer: T) -> T:
        for happen in self._after.pop(question, ()):
            happen()
        return answer


def pull_answer(code: int, next_offset: int, first: int, end: int, body: bytes = b"") -> RemotingCommand:
    """An answer to a pull."""
    fields: Any = build_header(
        PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=first, max_offset=end)
    )
    return RemotingCommand(code, flag=1, ext_fields=fields, body=body)
