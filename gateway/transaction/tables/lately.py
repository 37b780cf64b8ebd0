"""A dictionary of recent values by number, which forgets the oldest half when it is full."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")


class Lately(Generic[V]):
    """The newest values by number.

    Half of the values are dropped at once, because removing the oldest entries of a large dictionary singly is slow.

    :param limit: the largest number of values. A full dictionary keeps at least half as many.
    """

    __slots__ = ("_half", "_newer", "_older")

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._newer: dict[int, V] = {}
        self._older: dict[int, V] = {}

    def put(self, number: int, value: V) -> None:
        """Note a value."""
        if len(self._newer) >= self._half:
            self._older = self._newer
            self._newer = {}
        self._newer[number] = value

    def get(self, number: int) -> V | None:
        """Return the value noted last for a number; None if there is none (any more)."""
        value = self._newer.get(number)
        return self._older.get(number) if value is None else value

    def forget(self, number: int) -> None:
        """Remove what was noted for a number."""
        self._newer.pop(number, None)
        self._older.pop(number, None)
