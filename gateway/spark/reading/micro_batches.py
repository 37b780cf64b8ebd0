"""The offsets of a stream's next micro-batch, decided from the last offsets, the ends of the queues and a clock.

The code is pure over ``Bounds``. Spark's contract demands these rules of a stream that loses nothing:

- Spark does not store where a stream began, so the end of the first batch carries the beginning (``base``). The end of
  every batch in which a queue appears carries ``base`` too: a repeated batch begins where the first try began.
- If there is nothing new, the offset is the same text again, letter for letter.
- A queue that is away keeps its offset in the checkpoint (``away``). A queue that comes back is read from its offset
  on, unless its broker says that the queue was deleted.
- Messages that were not read and no longer exist are a loss: in a queue that is gone, in a store that another store has
  replaced, in a queue whose topic was deleted and created again, in a queue that ends before the offset it was read to.
  A queue that was read to its end, as far as the end was seen, has lost nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.client.errors import BrokerError, BrokerNotFound, ConnectError, RequestTimeout, RocketMQError
from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Bounds
from gateway.spark.errors import Away, DataLoss
from gateway.spark.offsets import Checkpoint, Life, QueueNumbers
from gateway.spark.options import ReadOptions
from gateway.spark.reading.lives import Lives
from gateway.spark.reading.planning import (
    QueueRange,
    allotted,
    is_subscribed,
    lost,
    queue_text,
    split,
    start_offsets,
    store_ids,
    subscribed_queues,
    with_stores,
)
from gateway.spark.reading.pulls import is_passing

log = logging.getLogger(__name__)

QUEUES_LOOK_S: Final = 1.0
"""Seconds between questions to the name servers about queues and, with a pattern, about topics."""
_LEAST_WAIT_S: Final = 0.05
SAMPLE_AGE_S: Final = 60.0
_ANOTHER_STORE: Final = "broker {} has another store than the one that was read"
_ANOTHER_LIFE: Final = "its topic was deleted and made again; the new one is read from its beginning"


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of one look at the brokers.

    :param starts: the next offset of each queue that exists.
    :param ends: the ends of these queues.
    :param away: the next offset of each queue that the stream goes on without.
    :param stores: the id of each broker's store.
    :param lives: the life of each queue, which tells the queue from one that was created again.
    """

    starts: QueueNumbers
    ends: QueueNumbers
    away: QueueNumbers
    stores: Mapping[str, str]
    lives: Mapping[MessageQueue, Life]

    def is_as_before(self, start: Checkpoint) -> bool:
        """Return whether a checkpoint has the same queues, present or away, in the same stores."""
        return self.starts.keys() == start.offsets.keys() and (self.away, self.stores) == (start.away, start.stores)


class Sampled(Bounds, Protocol):
    """Bounds that can also tell the size of messages."""

    def mean_bytes(self, queue: MessageQueue, offset: int) -> int:
        """Return the approximate bytes of a message near an offset; 0 if unknown."""


class MicroBatches:
    """The planner of a stream.

    :param now: a clock that does not go back, seconds.
    :param wait: sleeps for a number of seconds.
    """

    def __init__(
        self, bounds: Sampled, options: ReadOptions, now: Callable[[], float], wait: Callable[[float], object]
    ) -> None:
        self._bounds = bounds
        self._options = options
        self._now = now
        self._wait = wait
        self._lives = Lives(bounds, now)
        self._initial: Checkpoint | None = None
        self._target: QueueNumbers | None = None
        self._queues: tuple[float, tuple[MessageQueue, ...]] | None = None
        self._ends: tuple[float, dict[MessageQueue, int], dict[str, str]] | None = None
        self._seen: dict[MessageQueue, int] = {}
        self._samples: dict[MessageQueue, tuple[float, int]] = {}
        self._batch_at: float | None = None
        self._absent_since: float | None = None
        self._failing_since: float | None = None

    def initial(self) -> Checkpoint:
        """Return where the stream begins without a checkpoint. Spark asks twice and must get the same answer."""
        if self._initial is None:
            queues = subscribed_queues(self._bounds, self._options)
            offsets, stores = with_stores(
                self._bounds, queues, lambda: start_offsets(self._bounds, self._options.start, queues)
            )
            lives = self._lives.of(queues)
            self._initial = Checkpoint(offsets=offsets, stores=stores, base=offsets, lives=lives)
        return self._initial

    def fix_target(self) -> None:
        """Stop the stream at the present ends of the queues (the trigger AvailableNow).

        A queue that the stream has begun to read, and that is away now, is read to its end after its return.
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
        """Return the last seen ends of the queues, for Spark's progress reports; None before the first look."""
        return None if self._ends is None else Checkpoint(offsets=self._ends[1])

    def latest(self, start: Checkpoint, most: int | None) -> Checkpoint:
        """Return the end of the next batch; ``start`` itself if there is nothing to do.

        :param most: the most offsets that the batch may have; None for no limit.
        :raises DataLoss: messages that were not read no longer exist.
        :raises Away: a broker with unread messages has been away for too long.
        :raises RocketMQError: the brokers could not be reached for too long.
        """
        while (look := self._look(start)) is None:
            if self._target is None:
                return start  # Spark asks again
            self._wait(max(self._options.poll_s, _LEAST_WAIT_S))  # to have nothing now would be the end of the query
        starts = look.starts
        if self._target is not None:
            known = {queue: look.ends[queue] for queue in (*start.offsets, *start.away) if queue in look.ends}
            self._target = {**known, **self._target}
        ends = self._within_target(look.ends)
        stops = {queue: max(end, starts[queue]) for queue, end in ends.items() if queue in starts}
        backlog = {queue: stop - starts[queue] for queue, stop in stops.items()}
        taken = self._admitted(backlog, starts, most)
        added = {queue: offset for queue, offset in starts.items() if start.offsets.get(queue) != offset}
        if not taken and not added and look.is_as_before(start):
            return start
        self._batch_at = self._now()
        base = {**start.base, **added} if start.base is not None and start.base == start.offsets else added
        offsets = {queue: offset + taken.get(queue, 0) for queue, offset in starts.items()}
        unread = {queue: self._unread_end(queue, offset, start) or 0 for queue, offset in look.away.items()}
        seen = {**look.ends, **unread}
        return Checkpoint(
            offsets=offsets,
            stores=look.stores,
            base=base or None,
            away=look.away,
            more={queue: seen[queue] for queue, offset in {**look.away, **offsets}.items() if seen[queue] > offset},
            lives=look.lives,
        )

    def ranges(self, start: Checkpoint, end: Checkpoint) -> list[QueueRange]:
        """Return the ranges of a batch without asking a broker, so that a repeated batch reads the same messages.

        :raises DataLoss: an end lies before its start.
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
                found.append(QueueRange(queue, begin, stop, end.stores.get(queue.broker_name, "")))
        options = self._options
        return split(found, min_partitions=options.min_partitions, max_records=options.max_records)

    # --- where queues are ---------------------------------------------------------------------------------

    def _look(self, start: Checkpoint) -> _Look | None:
        """Return where each queue continues and ends; None while the answer is unknown.

        :raises RocketMQError: no server could answer for too long.
        :raises DataLoss: messages that were not read no longer exist.
        :raises Away: unread messages are at a broker that has been away for too long.
        """
        try:
            ends, stores = self._current()
            lives, made_again = self._lives.look(start, ends)
            before = {**stores, **start.stores}
            if made_again:
                self._ends = None  # what is known is about the life before, or about another store
                ends, stores = self._current()
            moved = {name for name, store in before.items() if stores.get(name, store) != store}
            followed = self._followed(start, ends, moved, made_again)
        except RocketMQError as error:
            if not _may_pass(error):
                raise
            self._note_failure(error)
            return None
        self._failing_since = None
        if followed is None:
            return None
        self._seen.update(ends)
        starts, away = followed
        brokers = {queue.broker_name for queue in (*starts, *away)}
        known = {name: store for name, store in {**start.stores, **stores}.items() if name in brokers}
        read = {queue for queue in (*starts, *away) if queue.broker_name not in moved}
        return _Look(starts, ends, away, known, {queue: life for queue, life in lives.items() if queue in read})

    def _current(self) -> tuple[dict[MessageQueue, int], dict[str, str]]:
        """Return the ends of all queues and the stores that have these ends.

        Spark asks without a pause, but brokers are asked with a pause. A store that has changed meanwhile has other
        ends, and is asked at once.
        """
        now, known = self._now(), self._ends
        if known is not None and now - known[0] >= self._options.poll_s:
            known = None
        if self._queues is None or (known is None and now - self._queues[0] >= QUEUES_LOOK_S):
            self._queues = now, subscribed_queues(self._bounds, self._options, absent_is_error=False)
        queues = self._queues[1]
        if known is None or known[2] != store_ids(self._bounds, queues):
            known = now, *with_stores(self._bounds, queues, lambda: self._bounds.ends(queues))
        self._ends = known
        return known[1:]

    def _within_target(self, ends: QueueNumbers) -> QueueNumbers:
        target = self._target
        if target is None:
            return ends
        return {queue: min(end, target[queue]) for queue, end in ends.items() if queue in target}

    def _followed(
        self, start: Checkpoint, ends: QueueNumbers, moved: Collection[str], made_again: Collection[MessageQueue]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]] | None:
        """Return the next offsets of the present queues and of the queues that are away.

        None while a missing queue may still come back.

        :param moved: the brokers whose store is not the one that was read.
        :param made_again: the queues whose topic was deleted and created again in the same store.
        """
        known = {**start.away, **start.offsets}
        begin_anew = {
            queue: _ANOTHER_STORE.format(queue.broker_name) if queue.broker_name in moved else _ANOTHER_LIFE
            for queue in known
            if queue.broker_name in moved or queue in made_again
        }
        gone = {
            queue: offset for queue, offset in start.offsets.items() if queue not in ends and queue not in begin_anew
        }
        deleted = self._given_up(gone, start) if gone else frozenset()
        if deleted is None:
            return None
        if not gone:
            self._absent_since = None
        for queue, reason in begin_anew.items():
            self._tell_unread(queue, known.pop(queue), start, reason)
        starts = {queue: offset for queue, offset in known.items() if queue in ends}
        for queue in starts.keys() & start.away.keys():
            log.warning("%s is there again and is read from offset %d on", queue_text(queue), starts[queue])
        self._replace_shorter(starts, ends, start)
        limited_to = None if self._target is None else {*self._target, *start.offsets, *start.away}
        new = [queue for queue in ends if queue not in starts and (limited_to is None or queue in limited_to)]
        if new:
            starts.update(self._bounds.begins(new))
        return starts, {queue: offset for queue, offset in known.items() if queue not in ends and queue not in deleted}

    def _replace_shorter(self, starts: dict[MessageQueue, int], ends: QueueNumbers, start: Checkpoint) -> None:
        """Continue at the end of queues that end before the offset they were read to, and report the loss."""
        shorter = {queue: offset for queue, offset in starts.items() if ends[queue] < offset}
        begins = self._bounds.begins(list(shorter)) if shorter else {}
        for queue, offset in shorter.items():
            reason = (
                f"the queue was read to offset {offset} and ends at {ends[queue]} now: it was deleted and made again, "
                f"or truncated"
            )
            self._tell_unread(queue, offset, start, reason)
            if begins[queue] < ends[queue]:
                loss = DataLoss(queue_text(queue), begins[queue], ends[queue], reason)
                lost(loss, fails=self._options.fail_on_data_loss)
            starts[queue] = ends[queue]

    def _given_up(self, gone: QueueNumbers, start: Checkpoint) -> Collection[MessageQueue] | None:
        """Return the deleted queues among the missing ones; None while the stream waits for missing queues.

        :raises DataLoss: a queue had unread messages, and a loss is an error.
        :raises Away: a queue has unread messages, and may come back.
        """
        now = self._now()
        if self._absent_since is None:
            self._absent_since = now
            log.warning("%d queues are not there, among them %s", len(gone), queue_text(min(gone)))
        missing = {queue: offset for queue, offset in gone.items() if is_subscribed(queue, self._options)}
        if missing and now - self._absent_since < self._options.reconnect_s:
            return None
        for queue in gone.keys() - missing.keys():
            reason = (
                "the checkpoint says that it was read, and this query does not subscribe to it: subscribe to it "
                "again, or use another checkpointLocation"
            )
            lost(DataLoss(queue_text(queue), gone[queue], None, reason), fails=self._options.fail_on_data_loss)
        registered = self._bounds.brokers() if missing else frozenset()
        return [queue for queue in missing if self._is_deleted(queue, start, queue.broker_name in registered)]

    def _is_deleted(self, queue: MessageQueue, start: Checkpoint, is_registered: bool) -> bool:
        """Return whether a missing queue is gone for good, so that a new queue in its place is read from its beginning.

        :raises DataLoss: the queue had unread messages, and a loss is an error.
        :raises Away: the queue has unread messages, and may come back.
        """
        offset, reason = start.offsets[queue], "the queue is not there any more: its topic was deleted"
        there = self._end_there(queue) if is_registered else None
        if there is not None and there < offset:
            self._tell_unread(queue, offset, start, reason)
            return True
        loss = DataLoss(queue_text(queue), offset, self._unread_end(queue, offset, start), reason)
        if loss.count != 0 and self._options.fail_on_data_loss:
            if is_registered and (there is None or there < (loss.end or 0)):
                raise loss
            if there != offset:
                why = "its topic has fewer queues or no permission to read" if is_registered else "its broker is down"
                raise Away(f"queue {loss.queue}", f"{why}, and {loss.what} are not read yet")
        log.warning(
            "%s is not there any more: its topic has fewer queues or no permission to read, or its broker is down. The "
            "stream goes on without it%s, and reads it from offset %d on when it is back",
            loss.queue,
            "" if loss.count == 0 else f" although {loss.what} were not read",
            offset,
        )
        return False

    def _end_there(self, queue: MessageQueue) -> int | None:
        """Return the end of a queue that cannot be read; None if no broker can tell."""
        try:
            return self._bounds.ends([queue])[queue]
        except (BrokerNotFound, BrokerError):
            return None

    def _tell_unread(self, queue: MessageQueue, offset: int, start: Checkpoint, reason: str) -> None:
        """Raise or log the loss of messages that a queue had and that were not read."""
        end = self._unread_end(queue, offset, start)
        if end == offset:
            log.warning("%s: %s. All that was seen of it was read, to offset %d", queue_text(queue), reason, offset)
        else:
            lost(DataLoss(queue_text(queue), offset, end, reason), fails=self._options.fail_on_data_loss)

    def _unread_end(self, queue: MessageQueue, offset: int, start: Checkpoint) -> int | None:
        """Return the last seen end of a queue that was read to ``offset``; None if the end is unknown."""
        seen = self._seen.get(queue)
        if seen is None and start.more is not None:
            seen = start.more.get(queue, offset)
        return None if seen is None else max(seen, offset)

    def _note_failure(self, error: RocketMQError) -> None:
        """Note a failed look.

        :raises RocketMQError: looks have failed for too long.
        """
        now = self._now()
        self._ends = self._queues = None
        if self._failing_since is None:
            self._failing_since = now
            log.warning("the ends of queues are not known, trying again: %s", error)
        if now - self._failing_since >= self._options.reconnect_s:
            raise error

    # --- how much -----------------------------------------------------------------------------------------

    def _admitted(self, backlog: Mapping[MessageQueue, int], starts: QueueNumbers, most: int | None) -> QueueNumbers:
        """Return how many offsets of each queue the next batch has; empty if the batch is not due yet."""
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
        """Return how many offsets make ``max_bytes``, estimated from the messages at the start of each queue."""
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
    """Return whether a repeated question may succeed."""
    if isinstance(error, BrokerError):
        return is_passing(error)
    return isinstance(error, ConnectError | RequestTimeout | BrokerNotFound)
