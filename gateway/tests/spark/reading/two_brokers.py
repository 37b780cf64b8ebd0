"""Two brokers that are stopped, killed, emptied and brought back at random while a stream reads them.

No Spark and no network: a driver plans batches and reads their ranges as Spark would have it done, with a clock that
only goes on when somebody waits. What is read, what is lost and what is told of as lost are compared in the end.
"""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.client.errors import BrokerNotFound, ConnectionLost, RocketMQError
from gateway.client.message_queue import MessageQueue
from gateway.spark.errors import Away, DataLoss
from gateway.spark.offsets import Checkpoint
from gateway.spark.options import ReadOptions
from gateway.spark.reading import planning
from gateway.spark.reading.micro_batches import MicroBatches
from gateway.spark.reading.planning import QueueRange, queue_text
from gateway.spark.reading.range_reader import RangeReader
from gateway.spark.table.schema import wanted_columns
from gateway.tests.spark.messages import record
from gateway.tests.spark.pretend_cluster import pull_answer, queue
from gateway.tests.spark.reading.test_planning import stream_options
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.pull import PullMessageRequest

Message: TypeAlias = tuple[str, MessageQueue, int]
"""The store, the queue and the offset of a message."""

ACTIONS_PER_S = 0.2
REPLACED_BETWEEN_QUESTIONS = 0.05
"""How often a broker has another store at the next question."""
RECONNECT_S = 30.0
PER_PULL = 3
WANTED = wanted_columns([("queueOffset", "bigint"), ("body", "binary")], json_properties=False)
_SKIPPED = re.compile(r"offsets of (\S+) are skipped: offsets (\d+) to (\d+) cannot be read")


@dataclass
class Broker:
    """A broker with two queues.

    :param store: the name of its store; another one after it was emptied.
    :param hidden: the queues that cannot be read for now.
    :param back_at: when it was started last.
    :param link: what its clients are connected to; another one after each start.
    """

    name: str
    store: str
    records: dict[MessageQueue, list[bytes]]
    is_up: bool = True
    is_registered: bool = True
    hidden: set[MessageQueue] = field(default_factory=set)
    back_at: float = 0.0
    link: Link | None = None


class Link:
    """A connection to a broker, which breaks when that goes down."""

    def __init__(self, world: World, broker: Broker) -> None:
        self.address = f"{broker.name}:10911"
        self._world = world
        self._broker = broker
        self._asked: dict[int, PullMessageRequest] = {}

    def call(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        return self.finish(self.start(command, timeout_s), timeout_s)

    def start(self, command: RemotingCommand, timeout_s: float) -> int:
        opaque = len(self._asked)
        self._asked[opaque] = parse_header(PullMessageRequest, command.ext_fields)
        return opaque

    def finish(self, opaque: int, timeout_s: float) -> RemotingCommand:
        self._world.pass_time(0.1)
        if self._broker.link is not self or not self._broker.is_up:
            raise ConnectionLost(self.address, "reset")
        asked = self._asked[opaque]
        name = MessageQueue(asked.topic, self._broker.name, asked.queue_id)
        if name not in self._broker.records:
            return RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, flag=1, remark="there is no such topic")
        if name in self._broker.hidden:
            return RemotingCommand(ResponseCode.INVALID_PARAMETER, flag=1, remark="queueId is illegal")
        its = self._broker.records[name]
        given = its[asked.queue_offset : asked.queue_offset + min(asked.max_msg_nums, PER_PULL)]
        code = ResponseCode.SUCCESS if given else ResponseCode.PULL_OFFSET_MOVED
        return pull_answer(code, asked.queue_offset + len(given), 0, len(its), b"".join(given))

    def abandon(self, opaque: int) -> None:
        self._asked.pop(opaque)


class World:
    """The brokers, what happens to them, and the clock."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.is_calm = True
        self.written: dict[Message, bytes] = {}
        self.brokers_by_name: dict[str, Broker] = {}
        self._stores = 0
        for name in ("broker-a", "broker-b"):
            self.brokers_by_name[name] = broker = Broker(name, self._new_store(), {})
            self._empty_queues(broker)
            broker.link = Link(self, broker)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, in which something may happen."""
        self.now += seconds
        if not self.is_calm and self.chance.random() < ACTIONS_PER_S * seconds:
            self._act(self.chance.choice(list(self.brokers_by_name.values())))

    def calm_down(self) -> None:
        """Bring back everything, for good."""
        for broker in self.brokers_by_name.values():
            broker.hidden.clear()
            self._empty_queues(broker)
            if not broker.is_up:
                self._start(broker)

    def holds(self, message: Message) -> bool:
        """Return whether a message is still there."""
        store, name, _ = message
        return self.brokers_by_name[name.broker_name].store == store

    def _act(self, broker: Broker) -> None:
        chance = self.chance.random()
        if not broker.is_up:
            if chance < 0.3:
                self._empty(broker)
            elif chance < 0.55:
                broker.is_registered = False
            else:
                self._start(broker)
        elif chance < 0.55:
            self._write(broker)
        elif chance < 0.85:
            broker.is_up = False
            broker.is_registered = chance < 0.7  # killed; when it is stopped, it says goodbye
        else:
            broker.hidden ^= {queue(1, broker_name=broker.name)}

    def _between_questions(self) -> None:
        """Let a broker, now and then, be emptied and brought back before the next question."""
        if not self.is_calm and self.chance.random() < REPLACED_BETWEEN_QUESTIONS:
            broker = self.chance.choice(list(self.brokers_by_name.values()))
            self._empty(broker)
            self._start(broker)

    def _empty(self, broker: Broker) -> None:
        broker.store, broker.records = self._new_store(), {}
        for _ in range(self.chance.choice((0, 1, 9))):  # as if it were back and had new ones at once
            self._write(broker)

    def _write(self, broker: Broker) -> None:
        self._empty_queues(broker)
        name = self.chance.choice(sorted(broker.records))
        its = broker.records[name]
        for _ in range(self.chance.randint(1, 8)):
            body = f"{broker.store}/{queue_text(name)}/{len(its)}".encode()
            self.written[broker.store, name, len(its)] = body
            its.append(record(len(its), body, queue_id=name.queue_id))

    def _start(self, broker: Broker) -> None:
        broker.is_up = broker.is_registered = True
        broker.back_at = self.now
        broker.link = Link(self, broker)

    def _empty_queues(self, broker: Broker) -> None:
        """Make its queues where there are none."""
        for number in range(2):
            broker.records.setdefault(queue(number, broker_name=broker.name), [])

    def _new_store(self) -> str:
        self._stores += 1
        return f"store-{self._stores}"

    # --- as Bounds and Cluster ----------------------------------------------------------------------------

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        registered = [broker for broker in self.brokers_by_name.values() if broker.is_registered]
        return tuple(sorted(name for broker in registered for name in broker.records.keys() - broker.hidden)) or None

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def brokers(self) -> frozenset[str]:
        return frozenset(broker.name for broker in self.brokers_by_name.values() if broker.is_registered)

    def begins(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        self._between_questions()
        return {name: 0 * len(self._records(name)) for name in queues}

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        self._between_questions()
        return {name: len(self._records(name)) for name in queues}

    def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        self._between_questions()
        stores = {name: int(self.brokers_by_name[name.broker_name].store.removeprefix("store-")) for name in queues}
        return {name: stores[name] if self._records(name) else -1 for name in queues}

    def at_time(self, queues: Sequence[MessageQueue], timestamp_ms: Any) -> dict[MessageQueue, int]:
        raise NotImplementedError

    def store_ids(self, broker_names: Iterable[str], topic: str) -> dict[str, str]:
        self.pass_time(0.01)
        self._between_questions()
        for name in broker_names:
            self.broker(name, topic)
        return {name: self.brokers_by_name[name].store for name in broker_names}

    def mean_bytes(self, name: MessageQueue, offset: int) -> int:
        return 100

    def broker(self, broker_name: str, topic: str, *, fresh: bool = False) -> Link:
        broker = self.brokers_by_name[broker_name]
        if not broker.is_registered:
            raise BrokerNotFound(broker_name, 0)
        if not broker.is_up or broker.link is None:
            raise ConnectionLost(f"{broker_name}:10911", "refused")
        return broker.link

    def forget(self, broker_name: str) -> None:
        pass

    def _records(self, name: MessageQueue) -> list[bytes]:
        self.broker(name.broker_name, name.topic)
        return self.brokers_by_name[name.broker_name].records.get(name, [])


class Driver:
    """A query that is started again when it has failed, as its owner would do.

    :param fails: ``failOnDataLoss``. After a loss the owner takes the advice and goes on without what is lost, once.
    """

    def __init__(self, world: World, *, fails: bool) -> None:
        self.world = world
        self.fails = fails
        self.rows: dict[Message, int] = {}
        self.told: set[Message] = set()
        self.known: set[Message] = set()
        self.losses = 0
        self.is_over = False
        self._stores: dict[str, str] = {}
        self._goes_on = False
        self._plan = self._started()
        self._done = through_json(self._plan.initial())
        self._written: Checkpoint | None = None

    def run(self, steps: int) -> None:
        """Plan and read so many batches, or try to."""
        self.world.is_calm = self.is_over
        with self._listening():
            for _ in range(steps):
                self.world.pass_time(self.world.chance.choice((0.3, 2.0, 10.0)))
                try:
                    self._step()
                except DataLoss as loss:
                    self._fail(loss)
                except (RocketMQError, Away) as error:
                    self._check_away(error)
                    self._plan = self._started()

    def finish(self) -> None:
        """Bring everything back and read to the end."""
        self.is_over = True
        self.world.calm_down()
        for _ in range(20):
            self.world.now += RECONNECT_S
            self.run(1)

    def check(self) -> None:
        """Each message is read once or gone; what is told of as lost is gone and was not read; nothing else is gone
        without a word that a batch was to read, or that was known to be there.
        """
        assert all(count == 1 for count in self.rows.values())
        for message in self.world.written:
            assert message in self.rows or not self.world.holds(message), f"{message} was left out"
        for message in self.known - self.rows.keys():
            assert message in self.told, f"{message} was known to be there and is gone without a word"
        for message in self.told:
            assert message in self.world.written, f"{message} is told of as lost and never was"
            assert message not in self.rows, f"{message} is told of as lost and was read"
            assert not self.world.holds(message), f"{message} is told of as lost and is there"

    def _fail(self, loss: DataLoss) -> None:
        """Do what the error says: go on without what is lost."""
        assert self.fails, "a loss is a warning"
        assert not self._goes_on, "it was told to go on"
        assert loss.end is not None, "it is known what is lost"
        self._note(loss.queue, loss.first, loss.end)
        self.losses += 1
        self._goes_on = True
        self._plan = self._started()

    def _started(self) -> MicroBatches:
        return MicroBatches(self.world, self._options(), lambda: self.world.now, self.world.pass_time)

    def _options(self) -> ReadOptions:
        fails = self.fails and not self._goes_on
        return stream_options(startingOffsets="earliest", failOnDataLoss=str(fails).lower())

    def _step(self) -> None:
        start = self._done
        if self._written is None:
            self._stores = dict(start.stores)
            end = self._plan.latest(start, self.world.chance.choice((None, 3, 10)))
            if end is start:
                return
            self._written = through_json(end)
        end = self._written
        self._stores = dict(end.stores)
        rows: list[Message] = []
        for piece in self._plan.ranges(start, end):
            self.world.pass_time(0.5)
            rows += self._read(piece)
        for row in rows:
            self.rows[row] = self.rows.get(row, 0) + 1
        self._check_whole(start, end)
        for name, stop in (end.more or {}).items():
            begin = {**end.away, **end.offsets}[name]
            self.known.update((end.stores[name.broker_name], name, offset) for offset in range(begin, stop))
        self._done, self._written, self._goes_on = end, None, False

    def _read(self, piece: QueueRange) -> list[Message]:
        pretended: Any = self.world
        reader = RangeReader(
            pretended, self._options(), WANTED, piece, wait=self.world.pass_time, now=lambda: self.world.now
        )
        rows: list[Message] = []
        for batch in reader.batches():
            for row in batch.to_pylist():
                message = piece.store, piece.queue, row["queueOffset"]
                assert self.world.written[message] == row["body"], f"{message} is read from another store"
                rows.append(message)
        return rows

    def _check_whole(self, start: Checkpoint, end: Checkpoint) -> None:
        """Check that each message that a batch had to read was read, or reported as lost."""
        for piece in self._plan.ranges(start, end):
            for offset in range(piece.start, piece.end):
                message = piece.store, piece.queue, offset
                assert message in self.rows or message in self.told, f"{message} is missing without a word"

    def _check_away(self, error: Exception) -> None:
        """A query may stop because a queue is away, not because one was away for a moment. A broker may come back
        during the look that finds it away for too long.
        """
        if isinstance(error, Away):
            _, broker_name, number = error.what.split("/")
            broker = self.world.brokers_by_name[broker_name]
            is_hidden = queue(int(number), broker_name=broker_name) in broker.hidden
            assert not broker.is_up or is_hidden or self.world.now - broker.back_at < 1.0

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Take down what warnings say is skipped."""
        listener = _Listener(self._hear)
        planning.log.addHandler(listener)
        try:
            yield
        finally:
            planning.log.removeHandler(listener)

    def _hear(self, text: str) -> None:
        found = _SKIPPED.search(text)
        if found is not None:
            self._note(found[1], int(found[2]), int(found[3]) + 1)
        else:
            assert "skipped" not in text, f"a warning without numbers: {text}"

    def _note(self, name: str, first: int, end: int) -> None:
        topic, broker_name, number = name.split("/")
        its = MessageQueue(topic, broker_name, int(number))
        assert first < end, "a loss has offsets"
        self.told.update((self._stores[broker_name], its, offset) for offset in range(first, end))


class _Listener(logging.Handler):
    """Hands on the texts of warnings."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(record.getMessage())


def through_json(checkpoint: Checkpoint) -> Checkpoint:
    """Return the value after a way through JSON, as Spark keeps it."""
    return Checkpoint.parse(json.loads(json.dumps(checkpoint.to_json())))
