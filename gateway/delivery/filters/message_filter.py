"""What a subscription lets through, in the forms its users look at it in: a tags code, a stored record, properties.

The reader of a queue passes tags codes first, then records; a new message wakes a held pull by its tags code and its
properties. A body is never looked at, so it may be compressed or encrypted as its sender likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.delivery.filters.sql92 import PropertyFilter, Sql92Filter
from gateway.delivery.filters.tags import TagFilter
from wire.errors import RecordError
from wire.message.record_fields import properties_in

if TYPE_CHECKING:
    from gateway.store.extended_units import AcceptsExtension


class MessageFilter:
    """One filter; what is None lets everything through. A plain class: one is made for many a pull.

    :param by_code: looks at tags codes.
    :param by_properties: looks at properties.
    :param by_extension: looks at the bit map that was stored with a message, before its record is read.
    """

    __slots__ = ("_by_properties", "accepts_code", "accepts_extension", "accepts_properties")

    def __init__(
        self,
        by_code: TagFilter | None = None,
        by_properties: Sql92Filter | None = None,
        by_extension: AcceptsExtension | None = None,
    ) -> None:
        self.accepts_extension = by_extension
        self.accepts_code = by_code
        self.accepts_properties: PropertyFilter | None = None if by_properties is None else by_properties.matches
        self._by_properties = by_properties

    def accepts_record(self, record: memoryview) -> bool:
        """Whether a stored message passes by its properties.

        A damaged one does: whoever reads on finds the damage and says so, instead of passing over the message.
        """
        by_properties = self._by_properties
        if by_properties is None:
            return True
        try:
            raw = properties_in(record)
        except RecordError:
            return True
        return by_properties.matches(by_properties.properties_of(raw))


EVERYTHING = MessageFilter()
"""Lets every message through."""
