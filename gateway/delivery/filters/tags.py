"""The tag filter of a subscription, on the tag hash codes kept in the consume queue.

Hash collisions pass through here and are sorted out by the client, which compares the tags themselves: the
behaviour of Apache RocketMQ's ``ConsumeQueue`` filtering.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gateway.store.reading.wanted_codes import WantedCodes

TagFilter = Callable[[int], bool]
"""True for a tags code that the subscription wants."""

EXPRESSION_TYPE_TAG = "TAG"


def is_tag_type(expression_type: str | None) -> bool:
    """Whether a subscription of this type names tags; old clients send no type at all."""
    return expression_type in (None, "", EXPRESSION_TYPE_TAG)


def tag_filter(sub_string: str | None, code_set: Collection[int], *, class_filter_mode: bool) -> TagFilter | None:
    """The filter of one subscription, or None when every message matches.

    :param sub_string: the expression as the client wrote it; empty and ``*`` match everything.
    :param code_set: signed 32-bit Java hash codes of the tags in the expression.
    :param class_filter_mode: set by clients of filter servers; the broker then filters nothing.
    """
    if class_filter_mode or sub_string in (None, "", "*") or not code_set:
        return None
    return WantedCodes(frozenset(code_set))
