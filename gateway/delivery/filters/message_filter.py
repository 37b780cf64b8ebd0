"""What a subscription lets through, in the forms its users look at it in: a tags code, stored records, properties.

The reader of a queue passes tags codes first, then records; a new message wakes a held pull by its tags code and its
properties. A body is never looked at, so it may be compressed or encrypted as its sender likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.delivery.filters.sql92 import Sql92Filter
from gateway.delivery.filters.tags import TagFilter
from gateway.store.reading.wanted import Wanted

if TYPE_CHECKING:
    from gateway.delivery.filters.record_filter import Work
    from gateway.store.queues.extended_units import AcceptsExtension
    from gateway.store.reading.wanted import ChooseRecords


class MessageFilter:
    """One filter; what is None lets everything through. A plain class: one is made for many a pull.

    :param by_code: looks at tags codes.
    :param by_properties: looks at properties.
    :param by_extension: looks at the bit map that was stored with a message, before its record is read.
    """

    __slots__ = ("_without_properties", "accepts_code", "accepts_extension", "by_properties")

    def __init__(
        self,
        by_code: TagFilter | None = None,
        by_properties: Sql92Filter | None = None,
        by_extension: AcceptsExtension | None = None,
    ) -> None:
        self.accepts_extension = by_extension
        self.accepts_code = by_code
        self.by_properties = by_properties
        self._without_properties = Wanted(by_code, None, by_extension)

    def wanted_within(self, work: Work | None) -> Wanted:
        """Return the filters for a read that may take as long as ``work`` is not used up."""
        if work is None or self.by_properties is None:
            return self._without_properties
        return Wanted(self.accepts_code, self.choose_within(work), self.accepts_extension)

    def choose_within(self, work: Work) -> ChooseRecords | None:
        """Return what chooses stored records, for as long as ``work`` is not used up; None: all are wanted."""
        return None if self.by_properties is None else self.by_properties.choose_within(work)


EVERYTHING = MessageFilter()
"""Lets every message through."""
