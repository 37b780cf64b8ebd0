"""What a subscription lets through, in the forms its users look at it in: a tags code, stored records, properties.

The reader of a queue passes tags codes first, then records; a new message wakes a held pull by its tags code and its
properties. A body is never looked at, so it may be compressed or encrypted as its sender likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.delivery.filters.record_filter import PropertyFilter
from gateway.delivery.filters.sql92 import Sql92Filter
from gateway.delivery.filters.tags import TagFilter
from gateway.store.queue_reader import ChooseRecords

if TYPE_CHECKING:
    from gateway.store.extended_units import AcceptsExtension


class MessageFilter:
    """One filter; what is None lets everything through. A plain class: one is made for many a pull.

    :param by_code: looks at tags codes.
    :param by_properties: looks at properties.
    :param by_extension: looks at the bit map that was stored with a message, before its record is read.
    """

    __slots__ = ("accepts_code", "accepts_extension", "accepts_properties", "choose_records")

    def __init__(
        self,
        by_code: TagFilter | None = None,
        by_properties: Sql92Filter | None = None,
        by_extension: AcceptsExtension | None = None,
    ) -> None:
        self.accepts_extension = by_extension
        self.accepts_code = by_code
        self.accepts_properties: PropertyFilter | None = None
        self.choose_records: ChooseRecords | None = None
        if by_properties is not None:
            self.accepts_properties, self.choose_records = by_properties.matches, by_properties.choose


EVERYTHING = MessageFilter()
"""Lets every message through."""
