"""Checks of queues and offsets that an application passes."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.client.errors import ConfigurationError
from gateway.client.message_queue import MessageQueue


def check_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return the queues that the application passed, as a list.

    :raises ConfigurationError: an element is not a ``MessageQueue``, but for example the name of a topic.
    """
    named = list(queues) if isinstance(queues, Iterable) else [queues]
    for queue in named:
        if not isinstance(queue, MessageQueue):
            raise ConfigurationError("queue", queue, "a MessageQueue, as message_queues(topic) gives them")
    return named


def check_offset(offset: int) -> None:
    """Refuse an offset that cannot exist.

    :raises ConfigurationError: the offset is not a whole number, or is negative.
    """
    if not isinstance(offset, int) or offset < 0:
        raise ConfigurationError("offset", offset, "a whole number of at least 0")
