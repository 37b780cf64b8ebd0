"""A message store in memory that keeps real records, and that can lose its end as a crash would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gateway.store.durability.dispatch import HIDDEN
from gateway.store.put_result import PutResult, PutStatus
from gateway.store.queues.extended_units import NotInMemory
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.wanted import ALL_WANTED, Wanted
from gateway.transaction.needs import LogAccess
from wire.disk.consume_queue import build_unit
from wire.message.flags import SysFlag, transaction_kind
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage, StoredMessage, build_record, parse_record

SMALL_BYTES = 4_096
"""Records up to this size are read whole."""

Waiting = tuple[list[PutResult], Callable[[list[PutResult]], None]]


class MemoryWalk:
    """A walk over a log in memory, with the members of ``LogWalk``."""

    def __init__(self, records: dict[int, bytes], start: int, limit: int) -> None:
        self._records = records
        self._limit = limit
        self.end = start
        self.problem: str | None = None

    def __iter__(self) -> Iterator[StoredMessage]:
        for place, record in sorted(self._records.items()):
            if self.end <= place < self._limit:
                yield parse_record(record)
                self.end = place + len(record)


class MemoryLog:
    """A log in memory, with the members of ``LogAccess``.

    :param clock_ms: store times.
    """

    def __init__(self, clock_ms: Callable[[], int], first_offset: int = 0) -> None:
        self._clock_ms = clock_ms
        self.records: dict[int, bytes] = {}
        self.queues: dict[tuple[str, int], list[int]] = {}
        self.first: dict[tuple[str, int], int] = {}
        self.listeners: list[Callable[[list[PutResult]], None]] = []
        self.max_commit_log_offset = first_offset
        self.stored_end = first_offset
        self.flushed_offset = first_offset
        self.holds = False
        """Whether appends wait for ``release`` before they are durable."""
        self.refuses: Callable[[OutgoingMessage], PutStatus | None] = lambda message: None
        self.appends = 0
        self.bodies_read = 0
        """Large messages that were read whole by their place."""
        self.cold: set[int] = set()
        """Places that are on disk and not in memory."""
        self._waiting: list[Waiting] = []
        self._next: dict[tuple[str, int], int] = {}

    # -- writing

    def append(self, message: OutgoingMessage, on_stored: Callable[[PutResult], None]) -> None:
        self.append_all([message], lambda results: on_stored(results[0]))

    def append_all(self, messages: Sequence[OutgoingMessage], on_stored: Callable[[list[PutResult]], None]) -> None:
        self.appends += 1
        for message in messages:
            status = self.refuses(message)
            if status is not None:
                on_stored([PutResult(status, message) for message in messages])
                return
        results = [self._place(message) for message in messages]
        self._waiting.append((results, on_stored))
        if not self.holds:
            self.release()

    def release(self) -> None:
        """Everything appended becomes durable."""
        waiting, self._waiting = self._waiting, []
        for results, on_stored in waiting:
            for result in results:
                if not result.message.sys_flag & HIDDEN:
                    self.queues.setdefault((result.topic, result.queue_id), []).append(result.commit_log_offset)
            end = results[-1].commit_log_offset + results[-1].size
            self.stored_end = max(self.stored_end, end)
            self.flushed_offset = max(self.flushed_offset, end)
            for listener in self.listeners:
                listener(results)
            on_stored(results)

    def answer_without_copy(self, status: PutStatus) -> None:
        """Everything appended is answered before slaves have it; ``release`` then tells only the listeners."""
        waiting, self._waiting = self._waiting, []
        for results, on_stored in waiting:
            for result in results:
                result.status = status
            on_stored(results)
            for result in results:
                result.status = PutStatus.PUT_OK
            self._waiting.append((results, lambda _: None))

    def _place(self, message: OutgoingMessage) -> PutResult:
        queue = message.topic, message.queue_id
        queue_offset = 0
        if not message.sys_flag & HIDDEN:
            queue_offset = self._next.get(queue, self.first.get(queue, 0))
            self._next[queue] = queue_offset + 1
        place, now_ms = self.max_commit_log_offset, self._clock_ms()
        record = build_record(message, queue_offset, place, now_ms)
        self.records[place] = record
        self.max_commit_log_offset += len(record)
        return PutResult(PutStatus.PUT_OK, message).at(None, queue_offset, place, len(record), now_ms)

    # -- losing

    def cut(self, log_end: int) -> MemoryLog:
        """The log as it is found after a crash that only left what is below ``log_end``."""
        left = MemoryLog(self._clock_ms)
        left.first = dict(self.first)
        for place, record in sorted(self.records.items()):
            if place + len(record) > log_end:
                break
            message = parse_record(record)
            left.records[place] = record
            if not message.sys_flag & HIDDEN:
                queue = message.topic, message.queue_id
                left.queues.setdefault(queue, []).append(place)
                left._next[queue] = message.queue_offset + 1
            left.max_commit_log_offset = left.stored_end = left.flushed_offset = place + len(record)
        return left

    def ends(self) -> list[int]:
        """Every place where a crash could cut the log: the ends of its records."""
        return [0, *(place + len(record) for place, record in sorted(self.records.items()))]

    def drop_front(self, topic: str, queue_id: int, count: int) -> None:
        """Retention removes the first messages of a queue."""
        queue = topic, queue_id
        for place in self.queues[queue][:count]:
            del self.records[place]
        del self.queues[queue][:count]
        self.first[queue] = self.first.get(queue, 0) + count

    # -- reading

    def message_at(self, commit_log_offset: int, size: int | None = None) -> StoredMessage | None:
        record = self.records.get(commit_log_offset)
        if record is None:
            return None
        self.bodies_read += len(record) > SMALL_BYTES
        return parse_record(record)

    def head_at(self, commit_log_offset: int) -> StoredMessage | None:
        record = self.records.get(commit_log_offset)
        return None if record is None else parse_record(record, with_body=len(record) <= SMALL_BYTES)

    def head_now(self, commit_log_offset: int) -> StoredMessage | None:
        if commit_log_offset in self.cold:
            raise NotInMemory
        return self.head_at(commit_log_offset)

    def message_now(self, commit_log_offset: int, size: int) -> StoredMessage | None:
        return None if commit_log_offset in self.cold else self.message_at(commit_log_offset, size)

    def walk_from(self, commit_log_offset: int) -> MemoryWalk:
        return MemoryWalk(self.records, commit_log_offset, self.flushed_offset)

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = topic, queue_id
        return self.first.get(queue, 0) if queue in self.queues else -1

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = topic, queue_id
        return self.first.get(queue, 0) + len(self.queues.get(queue, ()))

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        wanted: Wanted = ALL_WANTED,
    ) -> GetResult:
        choose = wanted.by_record
        low, end = max(self.min_offset(topic, queue_id), 0), self.max_offset(topic, queue_id)
        if not low <= offset < end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, max(offset, low), (low, end))
        max_count = min(max_count, 3)  # so that readers have to come again
        places = self.queues[topic, queue_id][offset - low : offset - low + max_count]
        records = [self.records[place] for place in places]
        found = [
            record for record in records if choose is None or choose(record, 0, build_unit(0, len(record), 0), 1)[0]
        ]
        status = GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE
        joined = [b"".join(found)] if found else []
        return GetResult(status, offset + len(places), (low, end), len(found), joined)

    def mend_queue(self, topic: str, queue_id: int, offset: int, count: int) -> int:
        return 0

    def query_by_key(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[StoredMessage]:
        found = [message for message in self.messages(topic) if message.unique_key == key]
        return [message for message in found if begin_ms <= message.stored_at_ms <= end_ms][-max_count:]

    def messages(self, topic: str) -> list[StoredMessage]:
        """All durable messages of a topic, in log order."""
        places = sorted(place for queue, places in self.queues.items() if queue[0] == topic for place in places)
        return [parse_record(self.records[place]) for place in places]

    def finals(self, topic: str) -> list[str]:
        """The unique keys of the committed messages of a topic, in log order."""
        return [
            message.property_map[PropertyName.UNIQ_KEY]
            for message in self.messages(topic)
            if transaction_kind(message.sys_flag) == SysFlag.TRANSACTION_COMMIT
        ]


def _is_log_access(log: MemoryLog) -> LogAccess:
    return log
