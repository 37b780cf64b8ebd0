"""The messages of a queue that a read returns: filters by tags code, by the queue's extension and by whole records."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.store.queues.extended_units import AcceptsCode, AcceptsExtension

ChooseRecords = Callable[[bytes, int, bytes, int], tuple[list[int], int]]
"""A function that returns the numbers of the wanted records in a buffer, and how many records were examined.

The arguments: the buffer; the commit log offset of its first byte; the records' units; how many records must be
examined whatever the cost.
"""


class Wanted:
    """The filters of one read; None lets every message through. A plain class: many pulls make one.

    :param by_code: examines a tags code.
    :param by_record: examines whole records.
    :param by_extension: examines the data that the queue's extension has of a message; only used beside another filter.
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
"""The filters that let every message through."""
