"""The tag filter of a subscription, on the tag hash codes in the consume queue.

Messages with a colliding hash pass this filter, and the client drops them, since it compares the tags themselves.
Apache RocketMQ's ``ConsumeQueue`` filtering behaves in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gateway.store.reading.wanted import WantedCodes

TagFilter = Callable[[int], bool]
"""A function that returns True for a tags code that the subscription wants."""

EXPRESSION_TYPE_TAG = "TAG"


def is_tag_type(expression_type: str | None) -> bool:
    """Return whether a subscription of this type names tags; old clients send no type at all."""
    return expression_type in (None, "", EXPRESSION_TYPE_TAG)


def tag_filter(sub_string: str | None, code_set: Collection[int], *, class_filter_mode: bool) -> TagFilter | None:
    """Return the filter of one subscription, or None if every message matches.

    :param sub_string: the expression as the client wrote it; empty and ``*`` match everything.
    :param code_set: signed 32-bit Java hash codes of the tags in the expression; without any, every message
        matches.
    :param class_filter_mode: set by clients of filter servers; the broker then filters nothing.
    """
    if class_filter_mode or sub_string in (None, "", "*") or not code_set:
        return None
    return WantedCodes(frozenset(code_set))
