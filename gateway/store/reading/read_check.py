"""The check that never lets wrong bytes pass silently.

Records that this process neither wrote nor walked through are checked at every read. Recovery has checked the records
that it walked through, and records written since are in memory as they were packed. Neither kind is checked again, so a
consumer at the end of the log costs nothing. For older records a check takes a microsecond or two and the checksum for
each message. Records that a consume queue places beyond the log's end are checked, too.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.store.log.commit_log import CommitLog
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.telemetry.logs import EventLog
from wire.disk.consume_queue import FILLER_SIZE, UNIT
from wire.message.batch import inner_offsets
from wire.message.light_queues import is_light_queue, named_places
from wire.message.record import StoredMessage, parse_record
from wire.message.record_check import first_damage

log = EventLog("store")

MAX_TOLD = 1000
"""The most damaged records that are remembered, so that each is logged once and not at every read."""


class ReadCheck:
    """The check of one log; any thread may call it.

    :param root: the store's directory, for the advice in error texts.
    """

    def __init__(self, commit_log: CommitLog, root: Path) -> None:
        self._log = commit_log
        self._root = root
        self._told: set[int] = set()

    def find(
        self, queue: ConsumeQueue, offset: int, ranges: Sequence[tuple[int, int]], parts: Sequence[bytes], units: bytes
    ) -> tuple[int, str] | None:
        """Return the commit log offset of the first damaged record, and what is wrong with it; None if all are intact.

        :param ranges: the places of the parts in the log.
        :param units: the units of the queue from ``offset`` on that led to the parts.
        """
        checked_from, end = self._log.checked_from, self._log.visible_end
        numbers = _numbers(units)  # ranges and units have the same order: one pass is enough
        for (first, last), part in zip(ranges, parts, strict=True):
            if first < checked_from or last > end:
                damage = first_damage(part, first)
                if damage is not None:
                    return damage
                number = next((number for number, position in numbers if position == first), None)
                if number is None:
                    number = units_before(units, first)
                other = _other_message(queue, offset + number, part)
                if other is not None:
                    return first, other
        return None

    def remark(self, topic: str, queue_id: int, offset: int, damage: tuple[int, str]) -> str:
        """Return the text for the reader that asked for a damaged message; log the damage the first time."""
        position, reason = damage
        file = self._log.files.find(position)
        where = "not in the commit log" if file is None else f"{file.path} at byte {position - file.start_offset}"
        remedy = f"stop the broker and run 'rocketmq-gateway store repair {self._root}'"
        if position not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(position)
            log.error(
                "damaged message",
                topic=topic,
                queue=queue_id,
                offset=offset,
                commit_log_offset=position,
                where=where,
                reason=reason,
                remedy=remedy,
            )
        return f"message {offset} of {topic}/{queue_id} is damaged ({where}: {reason}); {remedy}"


def is_message_of(queue: ConsumeQueue, offset: int, message: StoredMessage) -> bool:
    """Return whether a message is the one that the queue has at an offset.

    The message may be the queue's own, one of a batch, or a message of another topic in a light queue.
    """
    if (message.queue_id, message.topic) == (queue.queue_id, queue.topic):
        return offset in inner_offsets(message)
    return is_light_queue(queue.topic) and (queue.topic, offset) in named_places(message.property_map)


def _other_message(queue: ConsumeQueue, offset: int, part: bytes) -> str | None:
    """Return a text that says whose record was found; None if it is the record of the requested message.

    A foreign record is found if the file of one queue took the place of another queue's file.
    """
    found = parse_record(part, with_body=False)
    if is_message_of(queue, offset, found):
        return None
    return f"there lies message {found.queue_offset} of {found.topic}/{found.queue_id}"


def _numbers(units: bytes) -> Iterator[tuple[int, int]]:
    """Yield (number, commit log offset) of each unit that is not a filler."""
    for number, (position, size, _) in enumerate(UNIT.iter_unpack(units)):
        if size < FILLER_SIZE:
            yield number, position


def units_before(units: bytes, commit_log_offset: int) -> int:
    """Return how many units come before the unit whose record covers a place of the log."""
    for number, (position, size, _) in enumerate(UNIT.iter_unpack(units)):
        if position <= commit_log_offset < position + size < position + FILLER_SIZE:
            return number
    return 0
