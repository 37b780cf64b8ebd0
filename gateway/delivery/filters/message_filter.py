"""The filter of a subscription, in the forms its users need: for tags codes, for stored records, for properties.

The reader of a queue filters by tags codes first, then by records. A new message wakes a held pull by its tags code and
its properties. No filter reads a body, so a sender may compress or encrypt it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.sql92 import Sql92Filter
from gateway.store.queues.extended_units import AcceptsExtension
from gateway.store.reading.wanted import ChooseRecords, Wanted, WantedCodes

TagFilter = Callable[[int], bool]
"""A function that returns True for a tags code that the subscription wants."""

EXPRESSION_TYPE_TAG = "TAG"


def is_tag_type(expression_type: str | None) -> bool:
    """Return whether a subscription of this type names tags; old clients send no type at all."""
    return expression_type in (None, "", EXPRESSION_TYPE_TAG)


def tag_filter(sub_string: str | None, code_set: Collection[int], *, class_filter_mode: bool) -> TagFilter | None:
    """Return the filter of one subscription, or None if every message matches.

    Messages with a colliding hash pass the filter, as in Apache RocketMQ, and the client drops them, since it compares
    the tags themselves.

    :param sub_string: the expression as the client wrote it; empty and ``*`` match everything.
    :param code_set: signed 32-bit Java hash codes of the tags in the expression; without any, every message
        matches.
    :param class_filter_mode: set by clients of filter servers; the broker then filters nothing.
    """
    if class_filter_mode or sub_string in (None, "", "*") or not code_set:
        return None
    return WantedCodes(frozenset(code_set))


class MessageFilter:
    """One filter; an argument that is None lets everything pass. A plain class for speed: one is made for many a pull.

    :param by_code: checks tags codes.
    :param by_properties: checks properties.
    :param by_extension: checks the bit map that was stored with a message, before its record is read.
    """

    __slots__ = ("__weakref__", "_without_properties", "accepts_code", "accepts_extension", "by_properties")

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
        """Return the filters for a read that may continue until ``work`` is used up."""
        if work is None or self.by_properties is None:
            return self._without_properties
        return Wanted(self.accepts_code, self.choose_within(work), self.accepts_extension)

    def choose_within(self, work: Work) -> ChooseRecords | None:
        """Return a function that chooses stored records until ``work`` is used up; None if all are wanted."""
        return None if self.by_properties is None else self.by_properties.choose_within(work)


EVERYTHING = MessageFilter()
"""A filter that lets every message pass."""
