"""Long work in steps: a generator that yields between two of them and returns what the work came to.

Whoever has other things to do meanwhile takes a step now and then; ``finish`` takes all of them at once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

ENTRIES_PER_STEP = 500
"""Entries of a table or list that one step reads: a few milliseconds."""


def finish(steps: Steps[T]) -> T:
    """Take all steps at once and return what the work came to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
