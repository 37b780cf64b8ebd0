"""Lite topics (5.5): light queues that belong to a topic of type LITE, its parent.

A producer names one in ``__LITE_TOPIC``; the broker puts the message into the light queue ``%LMQ%$parent$lite``, too.
Upstream: ``LiteUtil``.
"""

from __future__ import annotations

from typing import Final

from wire.message.light_queues import LIGHT_QUEUE_PREFIX

SEPARATOR: Final = "$"
"""Never change: it is in the names of directories. Parent topics cannot have it in theirs."""
LITE_PREFIX: Final = LIGHT_QUEUE_PREFIX + SEPARATOR


def lite_queue(parent: str, lite_topic: str) -> str:
    """The light queue of a lite topic; it may be no name that a light queue can have."""
    return f"{LITE_PREFIX}{parent}{SEPARATOR}{lite_topic}"


def lite_names(queue: str) -> tuple[str, str] | None:
    """Parent and lite topic of a light queue; None for one of other kind."""
    if not queue.startswith(LITE_PREFIX):
        return None
    parent, separator, lite_topic = queue[len(LITE_PREFIX) :].partition(SEPARATOR)
    return (parent, lite_topic) if parent and separator and lite_topic else None
