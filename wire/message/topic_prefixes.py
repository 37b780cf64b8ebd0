"""The first characters of a group's own topics, on the wire, on disk and in clients: ``%RETRY%orders-service``."""

from __future__ import annotations

from typing import Final

RETRY_TOPIC_PREFIX: Final = "%RETRY%"
"""The prefix of the topic in which a group's messages come again."""
DEAD_LETTER_TOPIC_PREFIX: Final = "%DLQ%"
"""The prefix of the topic of the messages that a group could not consume."""
