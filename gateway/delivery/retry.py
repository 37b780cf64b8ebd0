"""The place of a message that a consumer could not process: the group's retry topic or its dead-letter topic.

Pure decisions after upstream's ``SendMessageProcessor`` and ``AbstractSendMessageProcessor``; nothing here stores or
sends.
"""

from __future__ import annotations

import msgspec

from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

FIRST_RETRY_DELAY_LEVEL = 3
"""The first delay level (3, 10 s) of a message sent back without a level; each further retry waits one level more."""
MAX_RECONSUME_HEADER_VERSION = 121
"""The client version (V3_4_9) from which the request's own maxReconsumeTimes counts; before it the group's counts."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to store the message once more in the retry topic, after the delay level."""

    delay_level: int


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to store the message in the dead-letter topic, at once and for good."""


def retry_topic(group: str) -> str:
    """Return the topic in which a group's failed messages wait."""
    return RETRY_TOPIC_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic in which a group's messages end after the last retry."""
    return DEAD_LETTER_TOPIC_PREFIX + group


def group_of_retry_topic(topic: str) -> str | None:
    """Return the group whose retry topic this is, or None for an ordinary topic."""
    return topic[len(RETRY_TOPIC_PREFIX) :] if topic.startswith(RETRY_TOPIC_PREFIX) else None


def max_reconsume_times(group_limit: int, asked: int | None, client_version: int) -> int:
    """Return how often a message may be retried: the client's own limit if the client is new enough to send one."""
    if asked is not None and asked >= 0 and client_version >= MAX_RECONSUME_HEADER_VERSION:
        return asked
    return group_limit


def after_failed_consumption(*, reconsume_times: int, limit: int, delay_level: int) -> Retry | DeadLetter:
    """Decide about a message that a consumer sent back (CONSUMER_SEND_MSG_BACK).

    :param reconsume_times: how often the message was retried before this failure.
    :param delay_level: the level that the consumer asked for: negative means "give up", 0 means "the usual delay".
    """
    if reconsume_times >= limit or delay_level < 0:
        return DeadLetter()
    return Retry(delay_level=delay_level or FIRST_RETRY_DELAY_LEVEL + reconsume_times)


def after_client_retry(*, reconsume_times: int, limit: int, group_is_orderly: bool) -> DeadLetter | None:
    """Decide about a message that a client itself sent to a retry topic: None means "store the message there".

    Orderly consumers send to a retry topic only after they gave up. Their message goes to the dead letters at once.
    """
    if reconsume_times > limit or group_is_orderly:
        return DeadLetter()
    return None
