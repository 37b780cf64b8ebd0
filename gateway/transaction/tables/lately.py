"""What was noted lately by number: a dictionary that forgets the oldest half when it is full."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")


class Lately(Generic[V]):
    """The newest values by number.

    Half of them go at a time: taking the oldest out of a large dictionary one by one is slow.

    :param limit: values kept at most; half as many at least.
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
        """The value noted last; None when there is none any more."""
        value = self._newer.get(number)
        return self._older.get(number) if value is None else value

    def forget(self, number: int) -> None:
        """Nothing is noted for this number any more."""
        self._newer.pop(number, None)
        self._older.pop(number, None)
