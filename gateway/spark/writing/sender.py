"""Sending of rows so that none is lost: many at a time, several batches on their way, each repeated until it is stored.

A task ends only after the broker has answered SEND_OK for every message. After a failure with an unknown outcome, a
batch is sent again, so messages can be stored twice. The properties ``SPARK_QUERY``, ``SPARK_BATCH``, ``SPARK_PART``
and ``SPARK_SEQ`` tell which messages are the same.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from gateway.client.blocking.waiting import pause
from gateway.client.clock import wall_clock_ms
from gateway.client.connect.answers import header_of
from gateway.client.connect.local_address import local_address
from gateway.client.errors import (
    BrokerError,
    BrokerNotFound,
    ConnectError,
    MessageRefused,
    ProtocolError,
    RequestTimeout,
    RocketMQError,
    RouteNotFound,
    broker_error,
)
from gateway.client.formats.outgoing import full_properties
from gateway.client.formats.unique_ids import UniqueIds
from gateway.client.message_queue import MessageQueue
from gateway.client.send.queue_choice import QueueTurns, queue_by_key
from gateway.spark.asking.cluster import Cluster
from gateway.spark.asking.connection import BlockingConnection, request
from gateway.spark.options import WriteOptions
from gateway.spark.writing.decisions import Half, Halves
from gateway.spark.writing.rows import PlainRows, RowToSend, plain_parts
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import RemoteError
from wire.headers.send import SendMessageResponse, ShortSendMessageRequest
from wire.message.batch import BatchPart, build_part, parse_batch
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, build_properties

MAX_PARTS: Final = 2048
"""The most messages of one batch."""
MAX_BYTES: Final = 4_000_000
"""The most bytes of one batch: a little less than a broker's default limit (``maxMessageSize``)."""
_PLAIN_ROWS: Final = 2048
"""The number of rows whose ids have the same time; less than the range of an id's counter."""
_PAUSE_S: Final = 0.1
_CREATE_TOPIC_KEY: Final = "TBW102"
_CREATED_QUEUES: Final = 4
"""The number of queues of a topic that a broker creates for its first message.

Equal to the Java client's ``defaultTopicQueueNums``.
"""
_NOT_FLUSHED: Final = (
    ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """Messages that travel together.

    :param queue: the queue for the messages; None until one is chosen.
    :param is_pinned: whether no other queue will do.
    :param parts: pieces of the body of a batch, which hold ``count`` messages and have ``size`` bytes.
    :param half_id: the unique key of a message that travels alone.
    """

    topic: str
    queue: MessageQueue | None
    is_pinned: bool
    parts: list[bytes | memoryview] = field(default_factory=list)
    count: int = 0
    size: int = 0
    opaque: int = 0
    connection: BlockingConnection | None = None
    half_id: str = ""


class TaskSender:
    """The sender of one task's rows.

    :param stamp: the properties of all messages; each message's number is added.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions,
        stamp: Mapping[str, str],
        *,
        turn: int = 0,
        wait: Callable[[float], object] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._stamp = dict(stamp)
        self._turn = turn
        self._wait = wait or pause
        self._now = now
        self._ids = UniqueIds(local_address(), os.getpid(), clock=wall_clock_ms, random=random.Random())  # noqa: S311
        self._filling: dict[tuple[str, MessageQueue | None], Outgoing] = {}
        self._under_way: deque[Outgoing] = deque()
        self._turns: dict[str, QueueTurns] = {}
        self.count = 0
        """The number of rows that were taken."""
        self.halves = Halves()
        """The half messages that were stored; empty unless the write is transactional."""

    def send(self, row: RowToSend) -> None:
        """Take a row, and send it now or with later rows.

        :raises MessageRefused: the row cannot be sent.
        :raises RocketMQError: an earlier row could not be stored.
        """
        message = row.message
        queue = self._chosen(row)
        msg_id = self._ids.create()
        more = {**self._stamp, "SPARK_SEQ": str(self.count)}
        if self._options.is_transactional:
            more.update({PropertyName.TRAN_MSG: "true", PropertyName.PGROUP: self._options.group})
        properties = build_properties(full_properties(message, msg_id, more))
        if len(properties) > MAX_PROPERTIES_BYTES:
            problem = (
                f"take {len(properties)} bytes, the limit is {MAX_PROPERTIES_BYTES} (row {self.count} of the task)"
            )
            raise MessageRefused("properties", problem)
        part = BatchPart(message.flag, message.body, properties)
        self.count += 1
        if message.is_delayed or self._options.is_transactional:  # neither can be in a batch
            if message.is_delayed and self._options.is_transactional:
                raise MessageRefused("delay", "cannot be combined with deliveryMode=transactional")
            alone = Outgoing(topic=message.topic, queue=queue, is_pinned=queue is not None, half_id=msg_id)
            _put(alone, part)
            self._launch(alone)
            return
        self._join(message.topic, queue, part)

    def _join(self, topic: str, queue: MessageQueue | None, part: BatchPart) -> None:
        """Add a message to the open batch for its queue, or for any queue, and send a full batch."""
        key = topic, queue
        batch = self._filling.get(key)
        if batch is not None and batch.size + len(part.body) + len(part.properties) > MAX_BYTES:
            self._launch(self._filling.pop(key))
            batch = None
        if batch is None:
            batch = self._filling[key] = Outgoing(topic=topic, queue=queue, is_pinned=queue is not None)
        _put(batch, part)
        if self._is_full(batch):
            self._launch(self._filling.pop(key))

    def send_plain(self, rows: PlainRows) -> None:
        """Take rows with only bodies, tags and keys: like ``send``, at a small part of the cost.

        :raises RocketMQError: an earlier row could not be stored.
        """
        assert not self._options.is_transactional, "each half message is a request of its own"
        stamp = build_properties(self._stamp).decode()
        for begin in range(0, len(rows.bodies), _PLAIN_ROWS):
            some = rows.part(begin, _PLAIN_ROWS)
            ids = self._ids.create_all(wall_clock_ms(), len(some.bodies))
            self._join_all(rows.topic, plain_parts(some, ids, stamp, self.count))
            self.count += len(some.bodies)

    def _join_all(self, topic: str, parts: pa.Array) -> None:
        """Add each part to the open batch for any queue, and send full batches, like ``_join``."""
        _, offsets, data = parts.buffers()
        bounds = np.frombuffer(offsets, np.int32)[parts.offset : parts.offset + len(parts) + 1].astype(np.int64)
        body, key, at = memoryview(data), (topic, None), 0
        while at < len(parts):
            batch = self._filling.get(key)
            if batch is None:
                batch = self._filling[key] = Outgoing(topic=topic, queue=None, is_pinned=False)
            # With the part that makes it full, but no more than brokers take.
            wanted, most = bounds[at] + self._options.batch_bytes, bounds[at] + MAX_BYTES
            full = int(np.searchsorted(bounds, wanted - batch.size))
            fitting = int(np.searchsorted(bounds, most - batch.size, "right")) - 1
            end = min(full, fitting, at + MAX_PARTS - batch.count, len(parts))
            if end == at and not batch.count:
                end = at + 1
            batch.parts.append(body[bounds[at] : bounds[end]])
            batch.count += end - at
            batch.size += int(bounds[end] - bounds[at])
            at = end
            if at < len(parts) or self._is_full(batch):
                self._launch(self._filling.pop(key))

    def _is_full(self, batch: Outgoing) -> bool:
        return batch.size >= self._options.batch_bytes or batch.count >= MAX_PARTS

    def finish(self) -> int:
        """Send the rest, wait until all rows are stored, and return how many rows were taken.

        :raises RocketMQError: a row could not be stored.
        """
        for batch in self._filling.values():
            self._launch(batch)
        self._filling.clear()
        while self._under_way:
            self._settle()
        return self.count

    def abandon(self) -> None:
        """Drop the batches on their way, because the task has failed."""
        for batch in self._under_way:
            if batch.connection is not None:
                batch.connection.abandon(batch.opaque)
        self._under_way.clear()

    # --- queues -------------------------------------------------------------------------------------------

    def _chosen(self, row: RowToSend) -> MessageQueue | None:
        """Return the queue that a row must go to; None if any queue will do."""
        key = row.message.sharding_key
        if row.queue_id is None and not key:
            return None
        queues = self._queues(row.message.topic).queues
        if key:
            return queue_by_key(queues, key)
        for queue in queues:
            if queue.queue_id == row.queue_id and row.broker_name in (None, queue.broker_name):
                return queue
        where = f" of broker {row.broker_name}" if row.broker_name is not None else ""
        raise MessageRefused("queueId", f"is {row.queue_id}{where}: {row.message.topic} has {len(queues)} queues")

    def _queues(self, topic: str) -> QueueTurns:
        turns = self._turns.get(topic)
        if turns is None:
            route = self._cluster.route(topic, fresh=True)
            found = self._queues_to_be_made() if route is None else route.publish_queues
            if not found:
                raise RouteNotFound(topic, self._options.access.name_servers, "no broker takes messages for it")
            queues = [MessageQueue(topic, queue.broker_name, queue.queue_id) for queue in found]
            turns = self._turns[topic] = QueueTurns(queues, self._turn)
        return turns

    def _queues_to_be_made(self) -> Sequence[MessageQueue]:
        """Return the queues that a broker will create with a topic's first message, from the template's route."""
        template = self._cluster.route(_CREATE_TOPIC_KEY)
        return [queue for queue in template.publish_queues if queue.queue_id < _CREATED_QUEUES] if template else []

    # --- sending ------------------------------------------------------------------------------------------

    def _launch(self, batch: Outgoing) -> None:
        while len(self._under_way) >= self._options.max_in_flight:
            self._settle()
        if batch.queue is None:
            turns = self._queues(batch.topic)
            batch.queue = turns.queues[turns.next_index()]
        try:
            self._start(batch)
        except (ConnectError, RequestTimeout, BrokerNotFound):
            batch.connection = None  # tried again, and told of, when it is settled
        self._under_way.append(batch)

    def _start(self, batch: Outgoing) -> None:
        assert batch.queue is not None, "a queue is chosen before"
        connection = self._cluster.broker(batch.queue.broker_name, batch.topic)
        batch.opaque = connection.start(self._command(batch, batch.queue), self._options.send_timeout_s)
        batch.connection = connection

    def _settle(self) -> None:
        """Wait for the oldest batch, and send the batch again until it is stored.

        :raises RocketMQError: the broker refuses the batch, or the batch could not be stored for too long.
        """
        batch = self._under_way.popleft()
        failing_since: float | None = None
        while True:
            try:
                if batch.connection is None:
                    self._start(batch)
                assert batch.connection is not None, "it was started"
                answer = batch.connection.finish(batch.opaque, self._options.send_timeout_s)
                self._check(answer, batch.connection.address)
                if self._options.is_transactional:
                    self._note_half(batch, answer, batch.connection.address)
            except RocketMQError as error:
                now = self._now()
                failing_since = now if failing_since is None else failing_since
                may_work = error.retriable or self._has_lost_its_queue(batch, error)
                if not may_work or now - failing_since >= self._options.reconnect_s:
                    raise
                self._move(batch, error)
                self._wait(_PAUSE_S)
            else:
                return

    def _has_lost_its_queue(self, batch: Outgoing, error: RocketMQError) -> bool:
        """Return whether a broker refused a batch because its queue is gone, and another queue will do."""
        if batch.is_pinned or not isinstance(error, BrokerError):
            return False
        self._turns.pop(batch.topic, None)
        return batch.queue not in self._queues(batch.topic).queues

    def _note_half(self, batch: Outgoing, answer: RemotingCommand, address: str) -> None:
        """Keep the place of a half message.

        If the answer was lost, nothing is kept, and a check rolls the half message back.
        """
        assert batch.queue is not None, "it was sent somewhere"
        header = header_of(SendMessageResponse, answer, address)
        try:
            _, commit_log_offset = parse_offset_message_id(header.msg_id)
        except RemoteError as error:
            raise ProtocolError(address, f"the answer to a half message does not say where it is: {error}") from error
        half = Half(header.queue_offset, commit_log_offset, batch.half_id)
        self.halves.add(batch.queue.broker_name, batch.topic, half)

    def _check(self, answer: RemotingCommand, address: str) -> None:
        """Refuse an answer that does not confirm the storing.

        :raises BrokerError: the batch is not stored as safely as required.
        """
        if answer.code == ResponseCode.SUCCESS:
            return
        if answer.code in _NOT_FLUSHED:
            if self._options.accept_flush_timeout:
                return
            raise _NotFlushed(answer.code, answer.remark, address)
        raise broker_error(answer.code, answer.remark, address)

    def _move(self, batch: Outgoing, error: RocketMQError) -> None:
        """Prepare a batch for another try, at another queue if any queue will do."""
        assert batch.queue is not None, "it was sent somewhere"
        if isinstance(error, ConnectError | RequestTimeout | BrokerNotFound):
            self._cluster.forget(batch.queue.broker_name)
        batch.connection = None
        if not batch.is_pinned:
            turns = self._queues(batch.topic)
            batch.queue = turns.queues[turns.next_away_from(batch.queue.broker_name)]

    def _command(self, batch: Outgoing, queue: MessageQueue) -> RemotingCommand:
        body, is_batch = b"".join(batch.parts), batch.count > 1
        first = BatchPart(0, body, b"") if is_batch else parse_batch(body)[0]
        header = ShortSendMessageRequest(
            producer_group=self._options.group,
            topic=queue.topic,
            default_topic=_CREATE_TOPIC_KEY,
            default_topic_queue_nums=_CREATED_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=SysFlag.TRANSACTION_PREPARED if self._options.is_transactional else 0,
            born_timestamp=wall_clock_ms(),
            flag=first.flag,
            properties="WAIT\x01true\x02" if is_batch else first.properties.decode(),
            reconsume_times=0,
            unit_mode=False,
            batch=is_batch,
            broker_name=queue.broker_name,
        )
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        return request(code, header, first.body)


class _NotFlushed(BrokerError):
    """The batch is stored, but not as safely as the broker's settings demand."""

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """True: the broker may flush the next try in time."""
        return True


def _put(batch: Outgoing, part: BatchPart) -> None:
    built = build_part(*part)
    batch.parts.append(built)
    batch.count += 1
    batch.size += len(built)
