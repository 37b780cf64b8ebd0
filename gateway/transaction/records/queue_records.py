"""Read every record of a queue without gaps, because decisions about a whole queue must not rest on a part of it.

If a message cannot be read as it was stored, the message is searched in the commit log and its unit is made again. If
that fails, the reading ends with an error. Messages that are in no part of the log are only counted, because a recovery
skipped the gap and reported so.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.errors import GatewayError
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.wanted import ChooseRecords, Wanted
from gateway.transaction.needs import LogAccess
from wire.message.record import MIN_RECORD_BYTES
from wire.message.record_fields import commit_log_offset_at, total_size_at

READ_COUNT = 4_096
READ_BYTES = 4 << 20
END_OF_LOG = 1 << 62


class MessageUnreadable(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """A message that decides about transactions cannot be read."""

    def __init__(self, topic: str, queue_id: int, offset: int, reason: str) -> None:
        super().__init__(
            f"message {offset} of {topic}/{queue_id} (unit {offset} of that consume queue) cannot be read, and without "
            f"it nobody knows which transactions are pending: {reason}. Run 'rocketmq-gateway store repair' on the "
            "store's directory, which shows what it would do before it does it"
        )
        self.topic = topic
        self.queue_offset = offset


class QueueRecords:
    """One reading of a queue from ``offset`` to ``end``.

    ``absent`` counts the messages between them that are no longer in any log. With ``choose``, ``absent`` is not
    reliable.

    :param choose: chooses records by their content; None takes all.
    """

    def __init__(
        self,
        store: LogAccess,
        topic: str,
        queue_id: int,
        offset: int,
        end: int,
        choose: ChooseRecords | None = None,
    ) -> None:
        self._store = store
        self._topic = topic
        self._queue_id = queue_id
        self._offset = offset
        self._end = end
        self._choose = choose
        self.absent = 0

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield each record as a buffer and the position of the record in the buffer.

        :raises GatewayError: a message cannot be read.
        """
        for part in self.parts():
            at = 0
            while at < len(part):
                size = total_size_at(part, at)
                if size < MIN_RECORD_BYTES:
                    raise MessageUnreadable(self._topic, self._queue_id, self._offset, f"a record of {size} bytes")
                yield part, at
                at += size

    def parts(self) -> Iterator[bytes]:
        """Yield the records as buffers, with many records in each.

        :raises GatewayError: a message cannot be read.
        """
        while self._offset < self._end:
            result = self._read()
            if not self._is_whole(result, 0):
                result = self._mended()
            if result.status is GetStatus.FOUND:
                yield from result.parts
            self._offset = result.next_begin_offset

    def _mended(self) -> GetResult:
        """Make the wrong units again, then read the same messages again and return the result.

        :raises MessageUnreadable: a message still cannot be read.
        """
        mend = self._store.mend_queue
        mend(self._topic, self._queue_id, self._offset, self._count)
        result = self._read()
        examined = result.next_begin_offset - self._offset
        absent = mend(self._topic, self._queue_id, self._offset, examined) if examined > 0 else 0
        if not self._is_whole(result, absent):
            raise MessageUnreadable(self._topic, self._queue_id, self._offset, result.remark or result.status.name)
        self.absent += absent
        return result

    @property
    def _count(self) -> int:
        return min(READ_COUNT, self._end - self._offset)

    def _read(self) -> GetResult:
        return self._store.get_messages(
            self._topic, self._queue_id, self._offset, self._count, READ_BYTES, Wanted(by_record=self._choose)
        )

    def _is_whole(self, result: GetResult, absent: int) -> bool:
        """Return whether a result has every message up to its end, except ``absent`` messages that are in no log."""
        examined = result.next_begin_offset - self._offset
        if examined <= 0 or result.status is GetStatus.MESSAGE_DAMAGED:
            return False
        return self._choose is not None or examined - result.count <= absent


def log_offset(store: LogAccess, topic: str, queue_id: int, offset: int) -> int:
    """Return the commit log offset of one message of a queue; ``END_OF_LOG`` if the message cannot be read.

    With ``END_OF_LOG``, a binary search continues before the message and not after it.
    """
    result = store.get_messages(topic, queue_id, offset, 1, 1)
    if result.status is not GetStatus.FOUND or not result.parts:
        return END_OF_LOG
    return commit_log_offset_at(result.parts[0])
