"""Which messages of a queue a read returns: filters by tags code, by the queue's extension and by whole records."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.store.queues.extended_units import AcceptsCode, AcceptsExtension

ChooseRecords = Callable[[bytes, int, bytes, int], tuple[list[int], int]]
"""Which of the records that lie in a buffer are wanted, by their numbers, and how many were looked into: buffer, the
commit log offset of its first byte, the records' units, how many must be looked into whatever that costs."""


class Wanted:
    """The filters of one read; None lets everything through. A plain class: one is made for many a pull.

    :param by_code: looks at a tags code.
    :param by_record: looks at whole records.
    :param by_extension: looks at what the queue's extension has of a message; only asked beside another filter.
    """

    __slots__ = ("by_code", "by_extension", "by_record", "is_filtered")

    def __init__(
        self,
        by_code: AcceptsCode | None = None,
        by_record: ChooseRecords | None = None,
        by_extension: AcceptsExtension | None = None,
    ) -> None:
        self.by_code = by_code
        self.by_record = by_record
        self.by_extension = by_extension
        self.is_filtered = by_code is not None or by_record is not None


ALL_WANTED: Final = Wanted()
"""Every message."""
