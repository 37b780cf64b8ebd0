"""Long work in steps: a generator that yields between two steps and returns the result.

A caller with other work takes one step now and then; ``finish`` takes all steps at once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

ENTRIES_PER_STEP = 500
"""The number of table or list entries that one step reads: a few milliseconds of work."""


def finish(steps: Steps[T]) -> T:
    """Take all steps at once and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
