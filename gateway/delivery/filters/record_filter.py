"""A filter on stored records: it decides nearly all of them by a property text that it has seen before.

A filter never parses a whole property string. Each condition cuts the bytes that it needs out of the string, and
remembers its verdict on these bytes. Only new bytes are decoded and evaluated. If a property string ends like the last
one, from the property on, the condition does not even search it.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from gateway.delivery.filters.java_numbers import LONG_TEXT
from wire.disk.consume_queue import UNIT, UNIT_BYTES
from wire.message.record_fields import find_property, properties_start, property_mark, property_value, value_from

PropertyFilter = Callable[[Mapping[str, str]], bool]
"""A function that returns True for properties of a message that the subscription wants."""

MAX_VERDICTS = 512
"""The number of verdicts that all conditions of a filter remember.

A condition that has used up its share forgets all of its verdicts and starts again.
"""
MAX_REMEMBERED_BYTES = 64
"""The most bytes of a remembered text; longer texts are evaluated each time."""
MAX_ENDING_BYTES = 32
"""The most bytes of a remembered ending; longer ones contain parts that differ in each message, such as its key."""

_SIZE_AT = UNIT.offset("size")


class Work:
    """The cost that a filter may still have before other work has its turn.

    :param left: steps; one step is an operand that is evaluated, 0.2 µs at most. An evaluation is always finished, so
        the number may become negative.
    """

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Effort:
    """The cost of an expression's evaluation.

    :param parts: the number of operands and signs.
    :param searches: the number of CONTAINS and similar searches, each counted once more for every 16 characters that it
        searches for.
    """

    __slots__ = ("parts", "searches")

    def __init__(self, parts: int = 1, searches: int = 0) -> None:
        self.parts = parts
        self.searches = searches

    def steps(self, characters: int) -> int:
        """Return the most steps of an evaluation whose properties have this total of characters or bytes."""
        each = 1 + min(characters, LONG_TEXT) // 32
        return self.parts * each + self.searches * (1 + characters // 32) + characters // 16


class PropertyCondition:
    """A condition on some properties.

    :param matches: returns whether a message's properties meet the condition.
    :param names: the properties that ``matches`` reads.
    :param effort: the cost of one evaluation.
    """

    __slots__ = ("_last", "_marks", "_names", "_verdicts", "effort", "matches", "max_verdicts")

    def __init__(self, matches: PropertyFilter, names: Collection[str], effort: Effort | None = None) -> None:
        self.matches = matches
        self.effort = Effort() if effort is None else effort
        self._names = sorted(names)
        self._marks = [property_mark(name) for name in self._names]
        self._verdicts: dict[bytes, bool] = {}
        self._last: tuple[bytes, bool] = (b"", False)  # replaced as one: threads share a filter
        self.max_verdicts = MAX_VERDICTS

    @property
    def names(self) -> Sequence[str]:
        """The names of the properties that the condition reads."""
        return self._names

    @property
    def verdicts(self) -> int:
        """The number of verdicts that are remembered now."""
        return len(self._verdicts)

    def accepts(self, data: bytes, start: i64, end: i64, work: Work) -> bool:
        """Return whether the property string ``data[start:end]`` meets the condition."""
        marks = self._marks
        if len(marks) == 1:
            return self._accepts_one(data, marks[0], start, end, work)
        values = [property_value(data, mark, start, end) for mark in marks]
        return self._judged(b"\x02".join(values), work)  # no value holds that

    def _accepts_one(self, data: bytes, mark: bytes, start: i64, end: i64, work: Work) -> bool:
        """Return the result of ``accepts`` for a condition with one name.

        An ending that begins with the property's last pair decides: the text before the ending does not count.
        """
        ending, verdict = self._last
        length: i64 = len(ending)
        if 0 < length <= end - start and data[end - length : end] == ending:
            return verdict
        at = find_property(data, mark, start, end)
        if at < 0:
            return self._judged(b"", work)
        verdict = self._judged(value_from(data, at, end), work)
        pair: i64 = at - len(mark)
        if pair >= start and end - pair <= MAX_ENDING_BYTES:  # else the first pair, which lacks the mark's first byte
            self._last = (data[pair:end], verdict)
        return verdict

    def _judged(self, values: bytes, work: Work) -> bool:
        verdict = self._verdicts.get(values)
        return self._evaluated(values, work) if verdict is None else verdict

    def _evaluated(self, values: bytes, work: Work) -> bool:
        work.left -= self.effort.steps(len(values))
        texts = zip(self._names, values.split(b"\x02"), strict=False)  # without a name there is one empty text
        verdict = self.matches({name: str(text, "utf-8", "replace") for name, text in texts if text})
        if len(values) <= MAX_REMEMBERED_BYTES:
            if len(self._verdicts) >= self.max_verdicts:
                self._verdicts.clear()
            self._verdicts[values] = verdict
        return verdict


class RecordFilter:
    """A filter of conditions, all of which must be true."""

    __slots__ = ("_conditions", "_finding")

    def __init__(self, conditions: Sequence[PropertyCondition]) -> None:
        self._conditions = list(conditions)
        names = [name for each in conditions for name in each.names]
        self._finding = len(names) + sum(map(len, names)) // 16
        for each in conditions:
            each.max_verdicts = max(MAX_VERDICTS // len(conditions), 1)

    def choose(self, data: bytes, start: i64, units: bytes, work: Work, least: i64) -> tuple[list[int], int]:
        """Return the numbers of the records of these units that pass, and how many records were checked.

        ``data`` starts at ``start`` in the log. After ``work`` is used up, no further record is checked; at least
        ``least`` records are checked in any case. A damaged record passes: the reader then finds and reports the
        damage, and the message is not skipped.
        """
        chosen: list[int] = []
        unit_bytes: i64 = UNIT_BYTES
        size_at: i64 = _SIZE_AT
        finding: i64 = self._finding
        least_bytes = least * unit_bytes
        at: i64 = 0
        while at < len(units) and (work.left > 0 or at < least_bytes):
            record = read_i64_be(units, at) - start
            end = record + i64(read_i32_be(units, at + size_at))
            properties = properties_start(data, record, end)
            work.left -= finding * (1 + ((end - properties) >> 7))
            if properties < 0 or self._accepts(data, properties, end, work):
                chosen.append(at // unit_bytes)
            at += unit_bytes
        return chosen, at // unit_bytes

    def _accepts(self, data: bytes, start: i64, end: i64, work: Work) -> bool:
        for each in self._conditions:  # noqa: SIM110 (a generator costs more than most conditions)
            if not each.accepts(data, start, end, work):
                return False
        return True
