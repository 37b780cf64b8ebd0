"""The popped messages that are not acknowledged, and when they are delivered again: the sum of the revive topic's
records.

Pure: every change is a record of the revive topic (``wire.disk.revive_log``). Each record is applied here in the order
of the log, when it is stored and again after a restart. A check point goes as soon as all its messages are settled,
either acknowledged or delivered again. Upstream: ``PopBufferMergeService`` and half of ``PopReviveService``.

A record that is in the log, but that too few slaves have, is applied when enough of them have it. Until then its check
point is *coming*: its messages may be acknowledged already, and are not delivered again.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from gateway.shares import Shares
from wire.disk.revive_log import MAX_MESSAGES, AckRecord, BatchAckRecord, CheckPointRecord

TICK_MS = 100
"""The milliseconds between two times at which messages are delivered again."""
OPEN_LIMIT = 200_000
"""The default of gateway.popCheckPointsLimit."""
MAX_SETTLED = 20_000
"""The number of settled check points that are remembered, so that a repeated acknowledgement is no error."""

_RANGES = tuple(range(count) for count in range(MAX_MESSAGES + 1))

Key = tuple[str, str, int, int, int]
"""A check point: topic, group, queue id, start offset, time of the pop."""


class CheckPoint:
    """The messages of one pop from one queue. A plain class for speed: one is made for every queue of every pop.

    ``acked``, ``acking`` and ``reviving`` have a bit for each message. They mean: settled in the log, on its way to be
    acknowledged, on its way to be delivered again. Both ways end when the record that settles the message is applied,
    or is not stored. A bit in ``replaced`` means that the message has a check point of its own, or will have one.
    """

    __slots__ = (
        "acked",
        "acking",
        "all",
        "diffs",
        "group",
        "invisible_ms",
        "popped_at_ms",
        "queue_id",
        "replaced",
        "revive_offset",
        "revive_queue_id",
        "reviving",
        "start_offset",
        "topic",
    )

    def __init__(self, record: CheckPointRecord, revive_queue_id: int, revive_offset: int) -> None:
        self.topic = record.topic
        self.group = record.group
        self.queue_id = record.queue_id
        self.start_offset = record.start_offset
        self.popped_at_ms = record.popped_at_ms
        self.invisible_ms = record.invisible_ms
        self.diffs: Sequence[int] = _compact(record)
        self.all = (1 << record.count) - 1
        self.acked = record.acked & self.all
        self.acking = 0
        self.reviving = 0
        self.replaced = 0
        self.revive_queue_id = revive_queue_id
        self.revive_offset = revive_offset

    @property
    def key(self) -> Key:
        """The key by which acknowledgements name the check point."""
        return self.topic, self.group, self.queue_id, self.start_offset, self.popped_at_ms

    @property
    def due_ms(self) -> int:
        """The time when its messages are delivered again."""
        return self.popped_at_ms + self.invisible_ms

    def bit_of(self, offset: int) -> int:
        """Return the bit of a message; 0 if the message is not in the check point."""
        try:
            return 1 << self.diffs.index(offset - self.start_offset)
        except ValueError:
            return 0

    def offsets(self, bits: int) -> list[int]:
        """Return the offsets of these bits, in rising order."""
        start = self.start_offset
        return [start + diff for index, diff in enumerate(self.diffs) if bits >> index & 1]

    def left(self) -> int:
        """Return the bits of the messages that are neither settled nor about to be settled."""
        return self.all & ~(self.acked | self.acking | self.reviving)

    def settling(self, offsets: list[int], broker_name: str) -> AckRecord | BatchAckRecord:
        """Return the record that settles these messages."""
        if len(offsets) == 1:
            return AckRecord(
                topic=self.topic,
                group=self.group,
                queue_id=self.queue_id,
                start_offset=self.start_offset,
                popped_at_ms=self.popped_at_ms,
                offset=offsets[0],
                broker_name=broker_name,
            )
        return BatchAckRecord(
            topic=self.topic,
            group=self.group,
            queue_id=self.queue_id,
            start_offset=self.start_offset,
            popped_at_ms=self.popped_at_ms,
            offsets=offsets,
            broker_name=broker_name,
        )

    def record(self, broker_name: str) -> CheckPointRecord:
        """Return the record of the check point's present state, to be written again."""
        return CheckPointRecord(
            topic=self.topic,
            group=self.group,
            queue_id=self.queue_id,
            start_offset=self.start_offset,
            popped_at_ms=self.popped_at_ms,
            invisible_ms=self.invisible_ms,
            count=len(self.diffs),
            acked=self.acked | self.acking,
            diffs=list(self.diffs),
            broker_name=broker_name,
        )


def _compact(record: CheckPointRecord) -> Sequence[int]:
    """Return the messages' distances from the start; one shared range if the messages are neighbours, as most are."""
    every = _RANGES[record.count]
    diffs = record.diffs
    return every if not diffs or diffs == list(every) else tuple(diffs)


class CheckPoints:
    """The open check points of a broker.

    :ivar shares: the numbers of check points of the groups; whoever makes check points asks ``shares`` for room first.
    """

    def __init__(self, max_settled: int = MAX_SETTLED, limit: int = OPEN_LIMIT) -> None:
        self.shares: Shares[str] = Shares(limit)
        self._open: dict[Key, CheckPoint] = {}
        self._coming: dict[Key, CheckPoint] = {}
        self._by_topic: defaultdict[str, dict[CheckPoint, None]] = defaultdict(dict)
        self._due: dict[int, dict[CheckPoint, None]] = {}
        self._next_tick: int | None = None
        self._by_offset: defaultdict[int, OrderedDict[int, CheckPoint]] = defaultdict(OrderedDict)
        self._settled: OrderedDict[Key, Sequence[int]] = OrderedDict()  # the replaced offsets of each
        self._max_settled = max_settled

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[CheckPoint]:
        return iter(self._open.values())

    # -- the log tells --------------------------------------------------------------------------------------

    def announce(self, record: CheckPointRecord, revive_queue_id: int) -> None:
        """Take a check point that is in the log, and that ``put`` adds later."""
        point = CheckPoint(record, revive_queue_id, revive_offset=-1)
        if point.key not in self._open and point.key not in self._coming:
            self._coming[point.key] = point
            self.shares.add(point.group)

    def put(self, record: CheckPointRecord, revive_queue_id: int, revive_offset: int) -> CheckPoint:
        """Add a check point that is in the log; a check point that was written again moves to its new record."""
        point = CheckPoint(record, revive_queue_id, revive_offset)
        key = point.key
        former = self._open.get(key)
        if former is not None:
            if former.diffs == point.diffs:
                self._move(former, revive_queue_id, revive_offset)
                self.ack(key, point.offsets(point.acked))
                return former
            self._forget(former)  # set back, the group popped something else there within one millisecond
        coming = self._coming.pop(key, None)
        if coming is not None:
            self.shares.give_back(coming.group)
            if coming.diffs == point.diffs:
                coming.revive_queue_id, coming.revive_offset = revive_queue_id, revive_offset
                coming.acked = point.acked
                point = coming
        if point.acked == point.all:
            self._remember(key, ())
            return point
        self._settled.pop(key, None)
        self._open[key] = point
        self._by_topic[point.topic][point] = None
        self.shares.add(point.group)
        self._by_offset[revive_queue_id][revive_offset] = point
        self._due.setdefault(max(_tick_of(point), self._next_tick or 0), {})[point] = None
        return point

    def ack(self, key: Key, offsets: Iterable[int]) -> None:
        """Settle messages; messages of a check point that is not open are ignored."""
        point = self._open.get(key)
        if point is None:
            return
        for offset in offsets:
            bit = point.bit_of(offset)
            point.acked |= bit
            point.acking &= ~bit
            point.reviving &= ~bit
        if point.acked == point.all:
            self._forget(point)
            self._remember(key, point.offsets(point.replaced))

    def forget_topic(self, topic: str, revive_queue_id: int | None = None) -> bool:
        """Forget the check points of a deleted topic; return whether any was open.

        :param revive_queue_id: the revive queue whose check points are forgotten; None for all.
        """
        points = self._by_topic.get(topic, ())
        gone = [point for point in points if revive_queue_id in (None, point.revive_queue_id)]
        for point in gone:
            self._forget(point)
        return bool(gone)

    # -- questions ------------------------------------------------------------------------------------------

    def find(self, key: Key) -> CheckPoint | None:
        """Return an open check point, or one that is coming, or None."""
        return self._open.get(key) or self._coming.get(key)

    def is_open(self, point: CheckPoint) -> bool:
        """Return whether this very check point is open; False if its topic was deleted."""
        return self._open.get(point.key) is point

    def is_settled(self, key: Key) -> bool:
        """Return whether a check point was settled not long ago."""
        return key in self._settled

    def is_replaced(self, key: Key, offset: int) -> bool:
        """Return whether a message of a settled check point was hidden for longer instead of acknowledged."""
        return offset in self._settled.get(key, ())

    def take_due(self, now_ms: int) -> list[CheckPoint]:
        """Return the check points whose time is over, each once; ``again`` brings a check point back."""
        now_tick = now_ms // TICK_MS
        if self._next_tick is None or now_tick - self._next_tick > len(self._due):
            ticks = sorted(tick for tick in self._due if tick <= now_tick)
        else:
            ticks = [tick for tick in range(self._next_tick, now_tick + 1) if tick in self._due]
        self._next_tick = now_tick  # what comes late for this tick is found by the next call
        return [point for tick in ticks for point in self._due.pop(tick)]

    def again(self, point: CheckPoint, at_ms: int) -> None:
        """Make a check point due once more, because its messages could not be delivered again."""
        if self.is_open(point):
            tick = max(at_ms // TICK_MS, self._next_tick or 0)
            self._due.setdefault(tick, {})[point] = None

    def first_open(self, revive_queue_id: int) -> CheckPoint | None:
        """Return the open check point with the oldest record of a revive queue, or None."""
        return next(iter(self._by_offset[revive_queue_id].values()), None)

    def oldest(self, revive_queue_id: int, count: int) -> list[CheckPoint]:
        """Return up to ``count`` open check points with the oldest records of a revive queue."""
        return list(islice(self._by_offset[revive_queue_id].values(), count))

    def open_in(self, revive_queue_id: int) -> int:
        """Return how many open check points have their record in a revive queue."""
        return len(self._by_offset[revive_queue_id])

    # -- inside ---------------------------------------------------------------------------------------------

    def _forget(self, point: CheckPoint) -> None:
        del self._open[point.key]
        self.shares.give_back(point.group)
        points = self._by_topic[point.topic]
        del points[point]
        if not points:
            del self._by_topic[point.topic]
        del self._by_offset[point.revive_queue_id][point.revive_offset]
        tick = _tick_of(point)
        due = self._due.get(tick)
        if due is not None:
            due.pop(point, None)  # one that was moved to another tick is passed over there
            if not due:
                del self._due[tick]

    def _move(self, point: CheckPoint, revive_queue_id: int, revive_offset: int) -> None:
        del self._by_offset[point.revive_queue_id][point.revive_offset]
        point.revive_queue_id, point.revive_offset = revive_queue_id, revive_offset
        self._by_offset[revive_queue_id][revive_offset] = point

    def _remember(self, key: Key, replaced: Sequence[int]) -> None:
        self._settled[key] = replaced
        if len(self._settled) > self._max_settled:
            self._settled.popitem(last=False)


def _tick_of(point: CheckPoint) -> int:
    return -(-point.due_ms // TICK_MS)  # not before its time
