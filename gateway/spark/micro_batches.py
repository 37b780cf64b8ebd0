"""Which offsets the next micro-batch of a stream has: decided from the last ones, the ends of the queues and a clock.

Pure over ``Bounds``. What Spark's contract demands of a stream that loses nothing:

- where a stream began is not stored by Spark, so the end of the first batch carries it (``base``), and so does the end
  of every batch in which a queue appears: a repeated batch begins where the first try began;
- nothing new is the same offset again, to the letter;
- a queue that is gone, an end before the start and another store in the place of the old one are losses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from gateway.client.errors import BrokerError, BrokerNotFound, ConnectError, RequestTimeout, RocketMQError
from gateway.client.message_queue import MessageQueue
from gateway.spark.cluster import Bounds
from gateway.spark.errors import DataLoss
from gateway.spark.offsets import Checkpoint, QueueNumbers
from gateway.spark.options import ReadOptions
from gateway.spark.planning import (
    QueueRange,
    allotted,
    is_subscribed,
    lost,
    queue_text,
    split,
    start_offsets,
    subscribed_queues,
)
from gateway.spark.pulls import RETRIABLE

log = logging.getLogger(__name__)

QUEUES_LOOK_S: Final = 1.0
"""So often name servers are asked for queues and, with a pattern, topics."""
STORE_LOOK_S: Final = 30.0
"""So often brokers are asked which store they have."""
_LEAST_WAIT_S: Final = 0.05
SAMPLE_AGE_S: Final = 60.0


class Sampled(Bounds, Protocol):
    """Bounds that also know how large messages are."""

    def mean_bytes(self, queue: MessageQueue, offset: int) -> int:
        """The bytes of a message near an offset, roughly; 0 when that is not known."""


class MicroBatches:
    """Plans a stream.

    :param now: a clock that does not go back, seconds; ``wait`` sleeps so many.
    """

    def __init__(
        self, bounds: Sampled, options: ReadOptions, now: Callable[[], float], wait: Callable[[float], object]
    ) -> None:
        self._bounds = bounds
        self._options = options
        self._now = now
        self._wait = wait
        self._initial: Checkpoint | None = None
        self._target: QueueNumbers | None = None
        self._queues: tuple[float, tuple[MessageQueue, ...]] | None = None
        self._ends: tuple[float, dict[MessageQueue, int]] | None = None
        self._stores: tuple[float, dict[str, str]] | None = None
        self._samples: dict[MessageQueue, tuple[float, int]] = {}
        self._batch_at: float | None = None
        self._absent_since: float | None = None
        self._failing_since: float | None = None

    def initial(self) -> Checkpoint:
        """Where the stream begins when it has no checkpoint. Spark asks twice and must be told the same."""
        if self._initial is None:
            queues = subscribed_queues(self._bounds, self._options)
            offsets = start_offsets(self._bounds, self._options.start, queues)
            self._initial = Checkpoint(offsets=offsets, stores=self._store_ids(offsets), base=offsets)
        return self._initial

    def fix_target(self) -> None:
        """From now on go as far as the queues go now, and no further (the trigger AvailableNow).

        One that the stream has begun to read and that is away now is read as far as it goes when it is back.
        """
        self._target = {}
        self._ends = self._queues = None
        try:
            self._target = self._bounds.ends(subscribed_queues(self._bounds, self._options, absent_is_error=False))
        except RocketMQError as error:
            if not _may_pass(error):
                raise
            log.warning("the ends of queues are not known, they are asked for again: %s", error)

    def reported(self) -> Checkpoint | None:
        """Where the queues end, as far as was last seen; for Spark's progress reports."""
        return None if self._ends is None else Checkpoint(offsets=self._ends[1])

    def latest(self, start: Checkpoint, most: int | None) -> Checkpoint:
        """The end of the next batch; ``start`` itself when there is nothing to do.

        :param most: offsets the batch may have; None for all there are.
        :raises DataLoss: a queue is gone or ends before ``start``.
        :raises RocketMQError: brokers could not be reached for too long.
        """
        while (found := self._look(start)) is None:
            if self._target is None:
                return start  # Spark asks again
            self._wait(max(self._options.poll_s, _LEAST_WAIT_S))  # to have nothing now would be the end of the query
        starts, ends = found
        if self._target is not None:
            known = {queue: ends[queue] for queue in start.offsets if queue in ends}
            self._target = {**known, **self._target}
        stops = {queue: max(end, starts[queue]) for queue, end in self._within_target(ends).items() if queue in starts}
        backlog = {queue: stop - starts[queue] for queue, stop in stops.items()}
        taken = self._admitted(backlog, starts, most)
        added = {queue: offset for queue, offset in starts.items() if start.offsets.get(queue) != offset}
        if not taken and not added and set(starts) == set(start.offsets):
            return start
        self._batch_at = self._now()
        base = {**start.base, **added} if start.base is not None and start.base == start.offsets else added
        return Checkpoint(
            offsets={queue: offset + taken.get(queue, 0) for queue, offset in starts.items()},
            stores=self._known_stores(start, starts),
            base=base or None,
        )

    def ranges(self, start: Checkpoint, end: Checkpoint) -> list[QueueRange]:
        """What a batch reads. Asks nobody: a batch that is repeated reads the same.

        :raises DataLoss: an end before its start.
        """
        found: list[QueueRange] = []
        base = end.base or {}
        for queue, stop in sorted(end.offsets.items()):
            begin = base.get(queue, start.offsets.get(queue))
            name = queue_text(queue)
            if begin is None:
                raise DataLoss(name, 0, stop, "the checkpoint does not say where it begins")
            if begin > stop:
                reason = f"the batch begins at {begin}, its checkpoint says that it ends at {stop}"
                lost(DataLoss(name, stop, begin, reason), fails=self._options.fail_on_data_loss)
            elif begin < stop:
                found.append(QueueRange(queue, begin, stop))
        options = self._options
        return split(found, min_partitions=options.min_partitions, max_records=options.max_records)

    # --- where queues are ---------------------------------------------------------------------------------

    def _look(self, start: Checkpoint) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]] | None:
        """Where each queue goes on and ends; None while that cannot be told.

        :raises RocketMQError: nobody could tell for too long; ``DataLoss``: a queue is gone or has lost something.
        """
        try:
            ends = self._current_ends()
            self._failing_since = None
            starts = self._starts(start, ends)
        except RocketMQError as error:
            if not _may_pass(error):
                raise
            self._note_failure(error)
            return None
        return None if starts is None else (starts, ends)

    def _current_ends(self) -> dict[MessageQueue, int]:
        """The ends of all queues; Spark asks without a pause, brokers are asked with one."""
        now = self._now()
        if self._ends is None or now - self._ends[0] >= self._options.poll_s:
            if self._queues is None or now - self._queues[0] >= QUEUES_LOOK_S:
                self._queues = now, subscribed_queues(self._bounds, self._options, absent_is_error=False)
            self._ends = now, self._bounds.ends(self._queues[1])
        return self._ends[1]

    def _within_target(self, ends: QueueNumbers) -> QueueNumbers:
        target = self._target
        if target is None:
            return ends
        return {queue: min(end, target[queue]) for queue, end in ends.items() if queue in target}

    def _starts(self, start: Checkpoint, ends: QueueNumbers) -> dict[MessageQueue, int] | None:
        """Where each queue goes on; None while a queue is missing that may come back."""
        gone = [queue for queue in start.offsets if queue not in ends]
        if gone and not self._is_given_up(gone, start):
            return None
        if not gone:
            self._absent_since = None
        starts = {queue: offset for queue, offset in start.offsets.items() if queue in ends}
        self._replace_moved(starts, ends, start)
        new = [queue for queue in ends if queue not in starts and (self._target is None or queue in self._target)]
        if new:
            starts.update(self._bounds.begins(new))
        return starts

    def _replace_moved(self, starts: dict[MessageQueue, int], ends: QueueNumbers, start: Checkpoint) -> None:
        """Go on elsewhere in queues that are not the ones that were read, or say that this is a loss."""
        fails = self._options.fail_on_data_loss
        stores = self._store_ids(starts)
        other = {name for name, store in start.stores.items() if stores.get(name, store) != store}
        for queue, offset in list(starts.items()):
            if queue.broker_name in other:
                reason = f"broker {queue.broker_name} has another store than the one that was read"
                lost(DataLoss(queue_text(queue), offset, max(ends[queue], offset + 1), reason), fails=fails)
                starts[queue] = self._bounds.begins([queue])[queue]
            elif ends[queue] < offset:
                reason = f"the queue ends at {ends[queue]} now: it was truncated, or deleted and made again"
                lost(DataLoss(queue_text(queue), ends[queue], offset, reason), fails=fails)
                starts[queue] = ends[queue]

    def _known_stores(self, start: Checkpoint, queues: QueueNumbers) -> dict[str, str]:
        """The stores of the brokers that have queues; of one that does not say now, what it said before."""
        known = {**start.stores, **self._store_ids(queues)}
        brokers = {queue.broker_name for queue in queues}
        return {name: store for name, store in known.items() if name in brokers}

    def _is_given_up(self, gone: list[MessageQueue], start: Checkpoint) -> bool:
        """Whether queues that are missing have been missing for too long.

        :raises DataLoss: they have, and that is to be an error.
        """
        now = self._now()
        if self._absent_since is None:
            self._absent_since = now
            log.warning("%d queues are not there, among them %s", len(gone), queue_text(gone[0]))
        may_come_back = any(is_subscribed(queue, self._options) for queue in gone)
        if may_come_back and now - self._absent_since < self._options.reconnect_s:
            return False
        for queue in gone:
            offset = start.offsets[queue]
            reason = "the queue is not there any more: its topic was deleted, or its broker is down"
            if not is_subscribed(queue, self._options):
                reason = (
                    "the checkpoint says that it was read, and this query does not subscribe to it: subscribe to it "
                    "again, or use another checkpointLocation"
                )
            lost(DataLoss(queue_text(queue), offset, offset + 1, reason), fails=self._options.fail_on_data_loss)
        return True

    def _note_failure(self, error: RocketMQError) -> None:
        """:raises RocketMQError: it has failed for too long."""
        now = self._now()
        self._ends = self._queues = None
        if self._failing_since is None:
            self._failing_since = now
            log.warning("the ends of queues are not known, trying again: %s", error)
        if now - self._failing_since >= self._options.reconnect_s:
            raise error

    def _store_ids(self, offsets: QueueNumbers) -> dict[str, str]:
        now = self._now()
        if self._stores is None or now - self._stores[0] >= STORE_LOOK_S:
            found: dict[str, str] = {}
            topics = {queue.broker_name: queue.topic for queue in offsets}
            for name, topic in topics.items():
                found.update(self._bounds.store_ids([name], topic))
            self._stores = now, found
        return self._stores[1]

    # --- how much -----------------------------------------------------------------------------------------

    def _admitted(self, backlog: Mapping[MessageQueue, int], starts: QueueNumbers, most: int | None) -> QueueNumbers:
        """How many offsets of each queue the next batch has; empty when it is not its time yet."""
        total = sum(backlog.values())
        if not total or self._waits_for_more(total):
            return {}
        budgets = [most] if most is not None else []
        if self._options.max_bytes is not None:
            budgets.append(self._budget_of_bytes(backlog, starts, self._options.max_bytes))
        return allotted(backlog, min(budgets, default=total))

    def _waits_for_more(self, total: int) -> bool:
        least = self._options.min_offsets
        if least is None or total >= least or self._target is not None:
            return False
        if self._batch_at is None:
            self._batch_at = self._now()
        return self._now() - self._batch_at < self._options.max_delay_s

    def _budget_of_bytes(self, backlog: Mapping[MessageQueue, int], starts: QueueNumbers, max_bytes: int) -> int:
        """How many offsets make so many bytes, by the size of messages at the start of each queue."""
        sizes = {queue: self._mean_bytes(queue, starts[queue]) for queue, count in backlog.items() if count}
        waiting_bytes = sum(sizes[queue] * backlog[queue] for queue in sizes)
        total = sum(backlog.values())
        return total if waiting_bytes <= max_bytes else max(total * max_bytes // waiting_bytes, 1)

    def _mean_bytes(self, queue: MessageQueue, offset: int) -> int:
        now = self._now()
        known = self._samples.get(queue)
        if known is None or now - known[0] >= SAMPLE_AGE_S:
            known = self._samples[queue] = now, self._bounds.mean_bytes(queue, offset)
        return known[1]


def _may_pass(error: RocketMQError) -> bool:
    """Whether it is worth while to ask again."""
    if isinstance(error, BrokerError):
        return error.code in RETRIABLE
    return isinstance(error, ConnectError | RequestTimeout | BrokerNotFound)
