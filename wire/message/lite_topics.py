"""Lite topics (5.5): light queues that belong to a topic of type LITE, their parent.

A producer names a lite topic in ``__LITE_TOPIC``. The broker puts the message also into the light queue
``%LMQ%$parent$lite``. Upstream: ``LiteUtil``.
"""

from __future__ import annotations

from typing import Final

from wire.message.light_queues import LIGHT_QUEUE_PREFIX

SEPARATOR: Final = "$"
"""The separator in names of light queues; no parent topic can have this character in its name.

Never change the separator, because names of directories contain it.
"""
LITE_PREFIX: Final = LIGHT_QUEUE_PREFIX + SEPARATOR


def lite_queue(parent: str, lite_topic: str) -> str:
    """Return the light queue of a lite topic; the result may be invalid as the name of a light queue."""
    return f"{LITE_PREFIX}{parent}{SEPARATOR}{lite_topic}"


def lite_names(queue: str) -> tuple[str, str] | None:
    """Return the parent and the lite topic of a light queue; None for a queue of another kind."""
    if not queue.startswith(LITE_PREFIX):
        return None
    parent, separator, lite_topic = queue[len(LITE_PREFIX) :].partition(SEPARATOR)
    return (parent, lite_topic) if parent and separator and lite_topic else None
