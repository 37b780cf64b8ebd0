"""Where a message goes that a consumer could not process: the group's retry topic or its dead-letter topic.

Pure decisions after upstream's ``SendMessageProcessor`` and ``AbstractSendMessageProcessor``; nothing here
stores or sends.
"""

from __future__ import annotations

import msgspec

from gateway.metadata.names import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

FIRST_RETRY_DELAY_LEVEL = 3
"""A send-back without a delay level waits level 3 (10 s) at first, one level more each time."""
MAX_RECONSUME_HEADER_VERSION = 121
"""From V3_4_9 on the request's own maxReconsumeTimes counts, before it the group's."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Store once more in the retry topic, after the delay level."""

    delay_level: int


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Store in the dead-letter topic, at once and for good."""


def retry_topic(group: str) -> str:
    """The topic a group's failed messages wait in."""
    return RETRY_TOPIC_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic a group's messages end in after the last retry."""
    return DEAD_LETTER_TOPIC_PREFIX + group


def group_of_retry_topic(topic: str) -> str | None:
    """The group whose retry topic this is, or None for an ordinary topic."""
    return topic[len(RETRY_TOPIC_PREFIX) :] if topic.startswith(RETRY_TOPIC_PREFIX) else None


def max_reconsume_times(group_limit: int, asked: int | None, client_version: int) -> int:
    """How often a message may be retried: the client's own limit when it is new enough to send one."""
    if asked is not None and asked >= 0 and client_version >= MAX_RECONSUME_HEADER_VERSION:
        return asked
    return group_limit


def after_failed_consumption(*, reconsume_times: int, limit: int, delay_level: int) -> Retry | DeadLetter:
    """The way of a message sent back (CONSUMER_SEND_MSG_BACK).

    :param reconsume_times: how often it was retried before this failure.
    :param delay_level: as the consumer asked: negative means "give up", 0 means "the usual delay".
    """
    if reconsume_times >= limit or delay_level < 0:
        return DeadLetter()
    return Retry(delay_level=delay_level or FIRST_RETRY_DELAY_LEVEL + reconsume_times)


def after_client_retry(*, reconsume_times: int, limit: int, group_is_orderly: bool) -> DeadLetter | None:
    """The way of a message that a client itself sent to a retry topic: None means "store it there".

    Orderly consumers only do so when they gave up, hence the dead-letter topic at once.
    """
    if reconsume_times > limit or group_is_orderly:
        return DeadLetter()
    return None
