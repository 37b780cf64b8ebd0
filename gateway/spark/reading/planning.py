"""The plan of a read: the queues of a subscription, where reading begins and ends, and the range of each task.

The code is pure over ``Bounds``: it asks for names of topics, for queues and for their ends, and reads no message.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from gateway.client.errors import RouteNotFound
from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Bounds
from gateway.spark.errors import Away, DataLoss, OptionRefused, SparkSourceError
from gateway.spark.offsets import EARLIEST, LATEST, QueueNumbers
from gateway.spark.options import Bound, Edge, ReadOptions
from gateway.spark.spelling import did_you_mean
from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_PARTITIONS: Final = 1_000_000
"""The most partitions of one read; Spark keeps some KiB for each task."""
_SYSTEM_TOPICS: Final = frozenset(
    {"TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC"}
    | {"CHECKPOINT_TOPIC", "BenchmarkTest"}
)
_SYSTEM_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_")
_GROUP_PREFIXES: Final = (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """The range of one task: offsets of one queue from ``start`` to before ``end``.

    :param store: the id of the store that has these offsets; empty if the broker does not report one.
    """

    queue: MessageQueue
    start: int
    end: int
    store: str = ""

    def __str__(self) -> str:
        return f"{queue_text(self.queue)} [{self.start}, {self.end})"


def queue_text(queue: MessageQueue) -> str:
    """Return the name of a queue for people."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def is_system_topic(topic: str) -> bool:
    """Return whether a topic is for the brokers' own use, such as the topic of uncommitted half messages."""
    return topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIXES)


def subscribed_queues(
    bounds: Bounds, options: ReadOptions, *, absent_is_error: bool = True
) -> tuple[MessageQueue, ...]:
    """Return all queues to read, sorted.

    :param absent_is_error: False leaves out topics and queues that do not exist (any more).
    :raises RouteNotFound: a topic does not exist.
    :raises OptionRefused: a topic is a system topic, or a queue does not exist.
    :raises Away: a broker that the option ``requireBrokers`` names has no queue of these topics.
    """
    if options.pattern is not None:
        matches = re.compile(options.pattern).fullmatch
        topics: Iterable[str] = [name for name in bounds.topics() if matches(name) and _may_match(name, options)]
    else:
        topics = options.topics or sorted({queue.topic for queue in options.assignment})
        for topic in topics:
            if is_system_topic(topic) and not options.allow_system_topics:
                raise OptionRefused(
                    f"{topic} is a topic of the brokers' own: what it holds is not committed data. "
                    f"allowSystemTopics=true reads it all the same"
                )
    found: list[MessageQueue] = []
    for topic in topics:
        queues = bounds.queues(topic)
        if queues is None and absent_is_error:
            raise _no_route(bounds, options, topic)
        found.extend(queues or ())
    if options.assignment:
        absent = sorted(set(options.assignment) - set(found))
        if absent and absent_is_error:
            raise OptionRefused(f"assign names {_texts(absent)}: there is no such queue; there are {_texts(found)}")
        found = [queue for queue in options.assignment if queue in set(found)]
    missing = sorted(set(options.required_brokers or ()) - {queue.broker_name for queue in found})
    if missing and absent_is_error:
        reason = "it is down, not registered at the name servers or without the topic, and requireBrokers names it"
        raise Away(f"broker {missing[0]}", reason)
    return tuple(sorted(found))


def is_subscribed(queue: MessageQueue, options: ReadOptions) -> bool:
    """Return whether a queue would be read if it existed."""
    if options.pattern is not None:
        return re.fullmatch(options.pattern, queue.topic) is not None and _may_match(queue.topic, options)
    return queue in options.assignment if options.assignment else queue.topic in options.topics


def _may_match(topic: str, options: ReadOptions) -> bool:
    """Return whether a pattern may match a topic.

    System topics, retry topics and dead-letter topics must not match by chance.
    """
    assert options.pattern is not None
    if topic.startswith(_GROUP_PREFIXES) and not options.pattern.startswith("%"):
        return False
    return options.allow_system_topics or not is_system_topic(topic)


def _no_route(bounds: Bounds, options: ReadOptions, topic: str) -> RouteNotFound:
    return RouteNotFound(topic, options.access.name_servers, f"no broker has it{did_you_mean(topic, bounds.topics())}")


def start_offsets(bounds: Bounds, bound: Bound, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """Return where each queue begins.

    :raises OptionRefused: offsets or times name queues that do not exist, or do not name all; or a time is later than
        every message.
    """
    return _resolved(bounds, bound, queues, "starting")


def end_offsets(bounds: Bounds, bound: Bound, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """Return where each queue ends."""
    return _resolved(bounds, bound, queues, "ending")


def _resolved(bounds: Bounds, bound: Bound, queues: Sequence[MessageQueue], which: str) -> dict[MessageQueue, int]:
    if bound.edge is Edge.EARLIEST:
        return bounds.begins(queues)
    if bound.edge is Edge.LATEST:
        return bounds.ends(queues)
    if bound.offsets is not None:
        _check_named(f"{which}Offsets", bound.offsets, queues)
        return _with_edges(bounds, bound.offsets, queues)
    if bound.timestamp_ms is not None:
        times: QueueNumbers = dict.fromkeys(queues, bound.timestamp_ms)
    else:
        assert bound.timestamps_ms is not None, "one of the four is given"
        times = bound.timestamps_ms
        _check_named(f"{which}OffsetsByTimestamp", times, queues)
    found = bounds.at_time(queues, times)
    if not bound.or_latest:
        ends = bounds.ends(queues)
        late = [queue for queue in queues if found[queue] >= ends[queue]]
        if late:
            raise OptionRefused(
                f"nothing was stored in {_texts(late)} at the {which} time {times[late[0]]} (ms) or later; "
                f"startingOffsetsByTimestampStrategy=latest begins such queues at their end"
            )
    return found


def _with_edges(bounds: Bounds, offsets: QueueNumbers, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    earliest = [queue for queue in queues if offsets[queue] == EARLIEST]
    latest = [queue for queue in queues if offsets[queue] == LATEST]
    return {
        **{queue: offsets[queue] for queue in queues},
        **(bounds.begins(earliest) if earliest else {}),
        **(bounds.ends(latest) if latest else {}),
    }


def _check_named(option: str, named: QueueNumbers, queues: Sequence[MessageQueue]) -> None:
    absent = sorted(set(named) - set(queues))
    if absent:
        raise OptionRefused(f"{option} names {_texts(absent)}: there is no such queue; there are {_texts(queues)}")
    missing = sorted(set(queues) - set(named))
    if missing:
        raise OptionRefused(
            f"{option} does not say where {_texts(missing)} begins or ends: name every queue, -2 stands for the "
            f"earliest offset and -1 for the latest"
        )


def batch_ranges(bounds: Bounds, options: ReadOptions) -> list[QueueRange]:
    """Return the ranges of a batch query, one for each queue with messages.

    :raises OptionRefused: an end lies before its start.
    :raises DataLoss: the brokers do not have some of the offsets.
    """
    queues = subscribed_queues(bounds, options)
    if not _names_its_brokers(options):
        _warn_of_forgotten_brokers(queues)
    _check_stores_named(options, queues)
    _check_times(options, queues)
    ranges, stores = with_stores(bounds, queues, lambda: _ranges(bounds, options, queues))
    return [replace(entry, store=stores.get(entry.queue.broker_name, "")) for entry in ranges]


def _ranges(bounds: Bounds, options: ReadOptions, queues: Sequence[MessageQueue]) -> list[QueueRange]:
    starts = start_offsets(bounds, options.start, queues)
    ends = end_offsets(bounds, options.end, queues)
    for queue in queues:
        if ends[queue] < starts[queue] and (options.start.offsets or options.end.offsets):
            raise OptionRefused(f"{queue_text(queue)}: the end {ends[queue]} is before the start {starts[queue]}")
    ranges = [QueueRange(queue, starts[queue], ends[queue]) for queue in queues if starts[queue] < ends[queue]]
    if options.start.offsets is not None or options.end.offsets is not None:
        ranges = within_store(bounds, ranges, fails=options.fail_on_data_loss)
    return ranges


def _names_its_brokers(options: ReadOptions) -> bool:
    """Return True if a forgotten broker makes the query fail, or if the option accepts any brokers.

    Name servers forget a broker that is down.
    """
    named = (bound.offsets or bound.timestamps_ms for bound in (options.start, options.end))
    return options.required_brokers is not None or bool(options.assignment) or any(named)


def _warn_of_forgotten_brokers(queues: Iterable[MessageQueue]) -> None:
    """Warn from which brokers a query reads: nobody can tell whether another broker is down."""
    brokers = ",".join(sorted({queue.broker_name for queue in queues}))
    log.warning(
        "this query reads the queues of %s. Name servers forget a broker that is down, and then a query leaves out its "
        "messages: set requireBrokers=%s to make that an error, or requireBrokers=* to read whichever brokers there "
        "are without this warning",
        brokers or "no broker",
        brokers or "NAME,NAME",
    )


def _check_times(options: ReadOptions, queues: Sequence[MessageQueue]) -> None:
    """Refuse a queue whose ending time lies before its starting time.

    :raises OptionRefused: there is such a queue.
    """
    for queue in queues:
        begin, end = _time_of(options.start, queue), _time_of(options.end, queue)
        if begin is not None and end is not None and end < begin:
            raise OptionRefused(
                f"{queue_text(queue)}: the ending time {end} (ms) is before the starting time {begin} (ms)"
            )


def _time_of(bound: Bound, queue: MessageQueue) -> int | None:
    return bound.timestamp_ms if bound.timestamp_ms is not None else (bound.timestamps_ms or {}).get(queue)


def _check_stores_named(options: ReadOptions, queues: Sequence[MessageQueue]) -> None:
    """Refuse a ``storePath`` whose brokers have none of the queues.

    :raises OptionRefused: ``storePath`` names brokers, and none of them has a queue of the query.
    """
    named = {name for name, _ in options.store_paths}
    brokers = sorted({queue.broker_name for queue in queues})
    if named and brokers and "" not in named and named.isdisjoint(brokers):
        raise OptionRefused(
            f"storePath names the brokers {', '.join(sorted(named))}; the queues are at {', '.join(brokers)}"
        )


def store_ids(bounds: Bounds, queues: Iterable[MessageQueue]) -> dict[str, str]:
    """Return the store id of each of the queues' brokers, for brokers that report one."""
    found: dict[str, str] = {}
    for name, topic in {queue.broker_name: queue.topic for queue in queues}.items():
        found.update(bounds.store_ids([name], topic))
    return found


def with_stores(bounds: Bounds, queues: Sequence[MessageQueue], ask: Callable[[], T]) -> tuple[T, dict[str, str]]:
    """Return an answer about queues, and the ids of the stores that the answer is about.

    The question is repeated until the stores are the same before and after the answer. Otherwise a part of the answer
    might be about a store that another store has replaced meanwhile.
    """
    stores = store_ids(bounds, queues)
    while True:
        before, answer = stores, ask()
        stores = store_ids(bounds, queues)
        if stores == before:
            return answer, stores


def within_store(bounds: Bounds, ranges: Sequence[QueueRange], *, fails: bool) -> list[QueueRange]:
    """Return the parts of the ranges that the brokers have.

    :raises DataLoss: the brokers do not have all offsets, and a loss is an error.
    """
    queues = [entry.queue for entry in ranges]
    begins, ends = bounds.begins(queues), bounds.ends(queues)
    kept: list[QueueRange] = []
    for entry in ranges:
        begin, end = begins[entry.queue], ends[entry.queue]
        start = max(entry.start, begin)
        stop = max(min(entry.end, end), start)
        name = queue_text(entry.queue)
        if start > entry.start:
            lost(DataLoss(name, entry.start, min(start, entry.end), f"the queue begins at {begin} now"), fails=fails)
        if entry.end > end:
            lost(DataLoss(name, max(end, entry.start), entry.end, f"the queue ends at {end}"), fails=fails)
        if start < min(stop, entry.end):
            kept.append(replace(entry, start=start, end=stop))
    return kept


def lost(loss: DataLoss, *, fails: bool) -> None:
    """Raise the loss, or log a warning if a loss is no error."""
    if fails:
        raise loss
    count = "an unknown number of" if loss.count is None else loss.count
    log.warning("%s offsets of %s are skipped: %s cannot be read: %s", count, loss.queue, loss.what, loss.reason)


def split(
    ranges: Iterable[QueueRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[QueueRange]:
    """Cut ranges so that none is longer than ``max_records``, and about ``min_partitions`` pieces or more result.

    Long ranges are cut into more pieces than short ranges. All pieces of a range are about equally long.

    :raises SparkSourceError: there would be more than ``MAX_PARTITIONS`` pieces.
    """
    whole = list(ranges)
    total = sum(entry.end - entry.start for entry in whole)
    pieces: list[QueueRange] = []
    for entry in whole:
        length = entry.end - entry.start
        count = 1
        if max_records is not None:
            count = -(-length // max_records)
        if min_partitions is not None and min_partitions > len(whole):
            count = max(count, round(min_partitions * length / total), 1)
        count = min(count, length)
        if len(pieces) + count > MAX_PARTITIONS:
            raise SparkSourceError(
                f"queue {queue_text(entry.queue)}: offsets {entry.start} to {entry.end - 1} make more than "
                f"{MAX_PARTITIONS} partitions; read fewer of them, or raise maxRecordsPerPartition"
            )
        cuts = [entry.start + length * piece // count for piece in range(count + 1)]
        pieces += [replace(entry, start=begin, end=end) for begin, end in itertools.pairwise(cuts)]
    return pieces


def _texts(queues: Iterable[MessageQueue]) -> str:
    names = [queue_text(queue) for queue in queues]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def allotted(backlog: Mapping[MessageQueue, int], budget: int) -> dict[MessageQueue, int]:
    """Return how many offsets of each queue fit into a budget.

    The share of a queue is proportional to its backlog, and at least one offset.

    A budget below the number of queues is exceeded by this rule, so that no queue starves.
    """
    waiting = {queue: count for queue, count in backlog.items() if count > 0}
    total = sum(waiting.values())
    if total <= budget:
        return waiting
    return {queue: min(max(budget * count // total, 1), count) for queue, count in waiting.items()}
