"""The step from the log to the data derived from it: consume queue units and tags codes.

The same rules serve new messages and messages that recovery finds in the log. Upstream:
``DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue`` and, for the tags code of delayed messages,
``CommitLog.checkMessageAndReturnSize``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from librt.strings import BytesWriter

from gateway.store.put_result import PutOutcome, PutResult, PutRow, PutRun, each_result
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.consume_queues import ConsumeQueues, ExtendedMessage
from wire.disk.queue_extension import ExtensionUnit
from wire.layout_writers import write_unit
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName
from wire.message.tags import tags_code

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""The topic whose queues hold times of delivery instead of tags codes. Never change the name."""
HIDDEN: Final = SysFlag.TRANSACTION_PREPARED
"""The bit that is set in the prepared and in the rollback kind: no queue shows these kinds."""

MAX_LEVEL_DIGITS = 9

DelayOf: TypeAlias = Callable[[int], int | None]
"""A function that returns the delay of a level in milliseconds; None for an unknown level."""
BitMapOf: TypeAlias = Callable[[str, Mapping[str, str]], bytes]
"""A function of topic and properties that returns the groups for which a message passes.

The result has the form that the queue's extension keeps; b"" if no group asks.
"""


def no_bit_map(_topic: str, _properties: Mapping[str, str]) -> bytes:
    """Return b"": no group asks for a bit map."""
    return b""


class _Row:
    """Units of one queue that follow each other. A plain class for speed: each batch makes some."""

    __slots__ = ("first_offset", "units")

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.units = BytesWriter()


def _units_of(rows: dict[ConsumeQueue, _Row], queue: ConsumeQueue, offset: int) -> BytesWriter:
    """Return the writer for a queue's units; a new row starts at ``offset``, the offset of the next unit."""
    row = rows.get(queue)
    if row is None:
        row = rows[queue] = _Row(offset)
    return row.units


class UnitDispatch:
    """The writer of units, batch by batch.

    :param light_queues: True to put messages found in the log into light queues, too.
    :param bit_map_of: returns the bit maps that extensions keep for new messages; None: queues are written without
        extensions.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        delay_of: DelayOf | None,
        *,
        light_queues: bool = False,
        bit_map_of: BitMapOf | None = None,
    ) -> None:
        self.light_queues = light_queues
        self._bit_map_of = bit_map_of
        self._queues = queues
        self._delay_of = delay_of

    @property
    def is_extended(self) -> bool:
        """True if the queues have extensions, whose units are made of each message."""
        return self._bit_map_of is not None

    def write(self, outcomes: Sequence[PutOutcome]) -> None:
        """Show the units of a batch and fill in its tags codes; may be repeated after an error.

        :raises OSError: some queues may have their units, but readers only see whole queues.
        """
        if self._bit_map_of is not None:
            self._write_extended(outcomes, self._bit_map_of)
            return
        rows: dict[ConsumeQueue, _Row] = {}
        queue: ConsumeQueue | None = None
        units = BytesWriter()
        for outcome in outcomes:
            if outcome.queue is None:
                continue
            if outcome.queue is not queue:  # neighbours mostly share a queue, or alternate between queues
                queue = outcome.queue
                units = _units_of(rows, queue, outcome.queue_offset)
            if isinstance(outcome, PutResult):
                code = self._code(outcome)
                write_unit(units, outcome.commit_log_offset, outcome.size, code)
                for light, offset in outcome.further:
                    write_unit(_units_of(rows, light, offset), outcome.commit_log_offset, outcome.size, code)
            elif isinstance(outcome, PutRun):
                outcome.write_units(units)
            elif isinstance(outcome, PutRow):
                units.write(outcome.units)
        for written, row in rows.items():
            self._queues.add(written, row.first_offset, row.units.getvalue())

    def _code(self, result: PutResult) -> int:
        """Return the tags code of a message's units, and note the code in ``result``."""
        properties = result.message.property_map
        if PropertyName.TAGS not in properties and result.topic != SCHEDULE_TOPIC:
            return 0
        result.tags_code = self.unit_code(result.topic, properties, result.stored_at_ms)
        return result.tags_code

    def _write_extended(self, outcomes: Sequence[PutOutcome], bit_map_of: BitMapOf) -> None:
        """Do the work of ``write``, but put tags codes, store times and bit maps into the extensions of the queues."""
        messages_of: dict[ConsumeQueue, list[ExtendedMessage]] = {}
        first_of: dict[ConsumeQueue, int] = {}
        for result in each_result(outcomes):
            if result.queue is None:
                continue
            properties = result.message.property_map
            result.tags_code = self.unit_code(result.topic, properties, result.stored_at_ms)
            bits = bit_map_of(result.topic, properties)
            kept = ExtensionUnit(result.tags_code, result.stored_at_ms, bits)
            for queue, offset in ((result.queue, result.queue_offset), *result.further):
                first_of.setdefault(queue, offset)
                messages_of.setdefault(queue, []).append((result.commit_log_offset, result.size, kept))
        for queue, messages in messages_of.items():
            self._queues.write_extended(queue, first_of[queue], messages)

    def unit_code(self, topic: str, properties: Mapping[str, str], stored_at_ms: int) -> int:
        """Return the code in a message's unit: the hash of its tag, or its time of delivery in milliseconds."""
        if topic == SCHEDULE_TOPIC and self._delay_of is not None:
            level = properties.get(PropertyName.DELAY, "")
            # Only short numbers: int() refuses thousands of digits, and any client may send so many.
            if level.isascii() and level.isdigit() and len(level) <= MAX_LEVEL_DIGITS and int(level) > 0:
                delay_ms = self._delay_of(int(level))
                if delay_ms is not None:
                    return stored_at_ms + delay_ms
        return tags_code(properties.get(PropertyName.TAGS))
