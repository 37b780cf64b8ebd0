"""Pulls of a range: the answers of a broker in order, each requested again until it arrives.

The reader does not wait idly: while one answer is read, the next answers are on their way. The offsets of the next
answers are predictable as long as the broker leaves nothing out, and every answer has as many messages as the one
before.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gateway.client.connect.answers import header_of
from gateway.client.errors import (
    AclError,
    BrokerError,
    BrokerNotFound,
    ConnectError,
    RequestTimeout,
    RocketMQError,
    broker_error,
)
from gateway.spark.asking.cluster import Cluster
from gateway.spark.asking.connection import BlockingConnection, pull_request
from gateway.spark.errors import DataLoss
from gateway.spark.options import ReadOptions
from gateway.spark.reading.planning import QueueRange, lost, queue_text
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.pull import PullMessageResponse

log = logging.getLogger(__name__)

PULL_COUNT: Final = 2048
"""The number of messages in one request; brokers give as many as their settings allow, mostly 32."""
LOOKAHEAD: Final = 8
"""The number of pulls on their way at once if answers are small."""
_LARGE_ANSWER: Final = 512
"""The number of messages in an answer from which one pull ahead is enough."""
_LOOK_AGAIN: Final = 256
"""The number of answers after which the broker is asked once for more messages: answers may have become larger."""
_PAUSE_S: Final = 0.1
_NOT_THERE_TRIES: Final = 5
"""The number of times a broker must report nothing at an offset that it had counted, before the reader believes it."""
_PASSING: Final = (
    ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY, ResponseCode.SYSTEM_ERROR,
)  # fmt: skip


def is_passing(error: BrokerError) -> bool:
    """Return whether the answer is that of a broker that is starting, stopping or overloaded."""
    return error.code in _PASSING and not isinstance(error, AclError)


@dataclass(frozen=True, slots=True)
class Pulled:
    """One answer: records as bytes, and the offset after the last one that the answer covers."""

    body: bytes
    next_offset: int
    is_loss: bool = False
    """True if the answer stands for offsets that no longer exist; the loss is reported already."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A pull whose answer is on its way."""

    connection: BlockingConnection
    opaque: int
    offset: int

    def abandon(self) -> None:
        self.connection.abandon(self.opaque)


class Pulls:
    """The answers of a broker to pulls of a range, in order; each is requested again until it arrives."""

    def __init__(
        self,
        cluster: Cluster,
        options: ReadOptions,
        work: QueueRange,
        *,
        wait: Callable[[float], object],
        now: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._work = work
        self._queue = queue_text(work.queue)
        self._wait = wait
        self._now = now
        self._failing_since: float | None = None
        self._nothing_there = 0
        self._turn = 0
        self._most = options.pull_count or PULL_COUNT
        self._ahead: deque[_Sent] = deque()
        self._proven: BlockingConnection | None = None

    def answers(self, begin: int | None = None) -> Iterator[Pulled]:
        """Yield every answer until the end of the range. An answer has no records if the broker filtered out all.

        :param begin: an offset of the range, None for its start.
        """
        offset = self._work.start if begin is None else begin
        try:
            while offset < self._work.end:
                pulled = self._next(offset)
                if pulled is None:
                    continue
                if pulled.next_offset <= offset:
                    raise DataLoss(self._queue, offset, self._work.end, "the broker answers for no further offset")
                step = None if self._options.is_filtered or self._looks_again() else pulled.next_offset - offset
                offset = pulled.next_offset
                if offset < self._work.end and not pulled.is_loss:
                    self._send_ahead(offset, step)
                yield pulled
        finally:  # a query that has enough rows lets go of us here
            self._drop_ahead()

    def _looks_again(self) -> bool:
        """Return whether to read the answers on their way first, and then to ask for as much as the broker gives."""
        self._turn += 1
        if self._turn < _LOOK_AGAIN:
            return False
        if not self._ahead:
            self._turn = 0
        return True

    def _next(self, offset: int) -> Pulled | None:
        """Return the answer at an offset; None if the caller must ask again."""
        try:
            sent = self._ask(offset)
            if sent is None:
                return self._other_store(offset)
            connection, answer = sent
            pulled = self._read(answer, connection.address, offset)
        except (ConnectError, RequestTimeout, BrokerNotFound, BrokerError) as error:
            self._drop_ahead()
            return self._failed(error, offset)
        if pulled is not None:
            self._failing_since = None
            self._nothing_there = 0
        return pulled

    def _ask(self, offset: int) -> tuple[BlockingConnection, RemotingCommand] | None:
        """Return the connection and its answer; None if the broker's store is not the one of the plan."""
        timeout_s = self._options.pull_timeout_s
        if self._ahead and self._ahead[0].offset == offset:
            sent = self._ahead.popleft()
            return sent.connection, sent.connection.finish(sent.opaque, timeout_s)
        queue = self._work.queue
        connection = self._cluster.broker(queue.broker_name, queue.topic, fresh=self._failing_since is not None)
        if not self._is_proven(connection):
            # That may be remembered of a process that is no more, over a connection nobody has used since.
            self._cluster.forget(queue.broker_name)
            connection = self._cluster.broker(queue.broker_name, queue.topic, fresh=True)
            if not self._is_proven(connection):
                return None
        count = self._ahead[0].offset - offset if self._ahead else self._most
        return connection, connection.call(self._command(offset, count), timeout_s)

    def _is_proven(self, connection: BlockingConnection) -> bool:
        """Return whether a broker has the store for which the range was planned.

        One look for each connection is enough: a process keeps its store, and a connection ends with its process.
        """
        expected, name = self._work.store, self._work.queue.broker_name
        if expected and connection is not self._proven:
            found = self._cluster.store_ids((name,), self._work.queue.topic)
            if found.get(name, expected) != expected:
                return False
        self._proven = connection
        return True

    def _send_ahead(self, offset: int, step: int | None) -> None:
        """Ask for the next messages, so that the broker works while this process does.

        :param step: the number of messages in an answer, if predictable; several pulls are sent then.
        """
        while self._ahead and self._ahead[0].offset < offset:
            self._ahead.popleft().abandon()
        window = 1 if step is None or step >= _LARGE_ANSWER else LOOKAHEAD
        if step is None and self._ahead:
            return
        at = self._ahead[-1].offset + (step or 0) if self._ahead else offset
        queue = self._work.queue
        try:
            connection = self._cluster.broker(queue.broker_name, queue.topic)
            if connection is not self._proven:
                return  # a new one, which is looked at when its turn comes
            while len(self._ahead) < window and at < self._work.end:
                count = step or self._most
                opaque = connection.start(self._command(at, count), self._options.pull_timeout_s)
                self._ahead.append(_Sent(connection, opaque, at))
                at += count
        except (ConnectError, RequestTimeout, BrokerNotFound):
            self._drop_ahead()  # asked again, and then told of, when it is needed

    def _drop_ahead(self) -> None:
        while self._ahead:
            self._ahead.pop().abandon()

    def _command(self, offset: int, count: int) -> RemotingCommand:
        options = self._options
        return pull_request(
            options.group,
            self._work.queue,
            offset,
            min(count, self._work.end - offset),
            expression=options.expression,
            expression_type=options.expression_type,
        )

    def _read(self, answer: RemotingCommand, address: str, offset: int) -> Pulled | None:
        """Return the content of an answer; None if the caller must ask again.

        :raises BrokerError: the broker refused.
        :raises DataLoss: the offsets no longer exist.
        """
        if answer.code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            raise broker_error(answer.code, answer.remark, address)
        header = header_of(PullMessageResponse, answer, address)
        if answer.code == ResponseCode.SUCCESS:
            return Pulled(answer.body, header.next_begin_offset)
        if offset < header.min_offset:
            return self._skipped(offset, header.min_offset, f"the queue begins at {header.min_offset} now")
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and header.next_begin_offset > offset:
            return Pulled(b"", header.next_begin_offset)  # nothing in it matched the filter
        return self._not_there(offset, header)

    def _not_there(self, offset: int, header: PullMessageResponse) -> Pulled | None:
        """Ask again for an offset below the end, and report a loss after ``_NOT_THERE_TRIES`` empty answers.

        The store was truncated or replaced, or the message is almost ready.
        """
        self._nothing_there += 1
        if self._nothing_there < _NOT_THERE_TRIES:
            self._wait(_PAUSE_S)
            return None
        reason = f"the queue ends at {header.max_offset}: the store was truncated or replaced"
        return self._skipped(offset, self._work.end, reason)

    def _other_store(self, offset: int) -> Pulled:
        reason = f"broker {self._work.queue.broker_name} has another store than the one that these were planned for"
        return self._skipped(offset, self._work.end, reason)

    def _skipped(self, first: int, end: int, reason: str) -> Pulled:
        end = min(end, self._work.end)
        lost(DataLoss(self._queue, first, end, reason), fails=self._options.fail_on_data_loss)
        return Pulled(b"", end, is_loss=True)

    def _failed(self, error: RocketMQError, offset: int) -> Pulled | None:
        """Wait before the next try, or give up.

        :raises RocketMQError: the broker refuses, or could not be reached for too long.
        """
        if isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST:
            return self._skipped(offset, self._work.end, f"the topic is gone ({error})")
        if isinstance(error, BrokerError) and not is_passing(error):
            raise error
        now = self._now()
        if self._failing_since is None:
            self._failing_since = now
            log.warning("reading %s failed and is tried again: %s", self._work, error)
        if now - self._failing_since >= self._options.reconnect_s:
            raise error
        self._cluster.forget(self._work.queue.broker_name)
        self._wait(_PAUSE_S)
        return None
