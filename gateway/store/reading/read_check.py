"""Never silently wrong bytes: records that this process neither wrote nor walked through are checked when read.

What recovery walked was checked then, and what was written since is in memory as it was packed: neither is checked
again, so a consumer at the end of the log costs nothing. The older part is checked at every read, a microsecond or two
and the checksum for each message; so is what a consume queue says lies beyond the end.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.store.log.commit_log import CommitLog
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.telemetry.logs import EventLog
from wire.disk.consume_queue import FILLER_SIZE, UNIT
from wire.message.inner_batch import inner_offsets
from wire.message.light_queues import is_light_queue, named_places
from wire.message.record import StoredMessage, parse_record
from wire.message.record_check import first_damage

log = EventLog("store")

MAX_TOLD = 1000
"""Damaged records remembered, to log each once and not at every attempt to read it."""


class ReadCheck:
    """The check of one log; any thread may ask.

    :param root: the store's directory, for what to do.
    """

    __slots__ = ("_log", "_root", "_told")

    def __init__(self, commit_log: CommitLog, root: Path) -> None:
        self._log = commit_log
        self._root = root
        self._told: set[int] = set()

    def find(
        self, queue: ConsumeQueue, offset: int, ranges: Sequence[tuple[int, int]], parts: Sequence[bytes], units: bytes
    ) -> tuple[int, str] | None:
        """The commit log offset of the first damaged record, and what is wrong with it; None when all are intact.

        :param ranges: where the parts lie in the log.
        :param units: of the queue from ``offset`` on, which led there.
        """
        checked_from, end = self._log.checked_from, self._log.visible_end
        numbers = _numbers(units)  # ranges come in the order of the units: one walk serves them all
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
        """The answer to whoever wanted the message; logged the first time."""
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
    """Whether this is what the queue has at an offset: its own, one of a batch, or another topic's in a light queue."""
    if (message.queue_id, message.topic) == (queue.queue_id, queue.topic):
        return offset in inner_offsets(message)
    return is_light_queue(queue.topic) and (queue.topic, offset) in named_places(message.property_map)


def _other_message(queue: ConsumeQueue, offset: int, part: bytes) -> str | None:
    """Whose record it is when it is not that of the message asked for: a queue's file got another's place."""
    found = parse_record(part, with_body=False)
    if is_message_of(queue, offset, found):
        return None
    return f"there lies message {found.queue_offset} of {found.topic}/{found.queue_id}"


def _numbers(units: bytes) -> Iterator[tuple[int, int]]:
    """(number, commit log offset) of each unit that is not a filler."""
    for number, (position, size, _) in enumerate(UNIT.iter_unpack(units)):
        if size < FILLER_SIZE:
            yield number, position


def units_before(units: bytes, commit_log_offset: int) -> int:
    """How many units stand before the one of the record that covers a place of the log."""
    for number, (position, size, _) in enumerate(UNIT.iter_unpack(units)):
        if position <= commit_log_offset < position + size < position + FILLER_SIZE:
            return number
    return 0
