"""A filter's look at stored records: nearly all are decided by a text of a property that was seen before.

A property string is never taken apart as a whole. Each condition cuts what it looks at out of it, as bytes, and
remembers what it made of that; only what is new is read as text and evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from wire.message.record_fields import properties_start, property_mark, property_value

PropertyFilter = Callable[[Mapping[str, str]], bool]
"""True for the properties of a message that the subscription wants."""

MAX_VERDICTS = 512
"""Remembered by all conditions of a filter; one that has used up its share forgets them and begins anew."""
MAX_REMEMBERED_BYTES = 64
"""Of what a condition looks at; longer texts are evaluated each time."""


class Condition:
    """What must be true of some properties.

    :param matches: whether it is, for a message's properties.
    :param names: of the properties that ``matches`` looks at.
    """

    __slots__ = ("_marks", "_matches", "_names", "_verdicts", "max_verdicts")

    def __init__(self, matches: PropertyFilter, names: Collection[str]) -> None:
        self._matches = matches
        self._names = sorted(names)
        self._marks = [property_mark(name) for name in self._names]
        self._verdicts: dict[bytes, bool] = {}
        self.max_verdicts = MAX_VERDICTS

    def accepts(self, data: bytes, start: int, end: int) -> bool:
        """Whether it is true of the property string ``data[start:end]``."""
        marks = self._marks
        if len(marks) == 1:
            values = property_value(data, marks[0], start, end)
        else:  # no value holds what they are joined by
            values = b"\x02".join([property_value(data, mark, start, end) for mark in marks])
        verdict = self._verdicts.get(values)
        return self._evaluated(values) if verdict is None else verdict

    def _evaluated(self, values: bytes) -> bool:
        texts = zip(self._names, values.split(b"\x02"), strict=False)  # without a name there is one empty text
        verdict = self._matches({name: str(text, "utf-8", "replace") for name, text in texts if text})
        if len(values) <= MAX_REMEMBERED_BYTES:
            if len(self._verdicts) >= self.max_verdicts:
                self._verdicts.clear()
            self._verdicts[values] = verdict
        return verdict


class RecordFilter:
    """Conditions of which every one must be true."""

    __slots__ = ("_conditions",)

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = list(conditions)
        for each in conditions:
            each.max_verdicts = max(MAX_VERDICTS // len(conditions), 1)

    def choose(self, data: bytes, starts: list[int], ends: list[int]) -> list[int]:
        """Which of the records ``data[start:end]`` pass, by their numbers.

        A damaged one does: whoever reads on finds the damage and says so, instead of passing over the message.
        """
        chosen: list[int] = []
        for number in range(len(starts)):
            end = ends[number]
            start = properties_start(data, starts[number], end)
            if start < 0 or self._accepts(data, start, end):
                chosen.append(number)
        return chosen

    def _accepts(self, data: bytes, start: int, end: int) -> bool:
        return all(each.accepts(data, start, end) for each in self._conditions)
