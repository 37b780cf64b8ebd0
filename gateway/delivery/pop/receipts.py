"""Receipts: texts that name popped messages; pop answers carry them and acknowledgements bring them back.

Clients compute a receipt themselves from three texts of a pop answer. All forms are upstream's (``ExtraInfoUtil``) and
never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.delivery.retry import retry_topic
from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

if TYPE_CHECKING:
    from gateway.metadata.groups import Groups

NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
ORDER_REVIVE_QUEUE: Final = 999
"""The revive queue in receipts of ordered pops; no such queue exists."""
MIN_WORDS: Final = 7
"""The least number of words: before 5.x's final form the last word, the message's offset, was left out."""
MAX_RECEIPT_CHARACTERS: Final = 1_024


class Receipt(NamedTuple):
    """The words of a receipt, converted to numbers where possible."""

    start_offset: int
    popped_at_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int
    queue_offset: int | None
    commit_log_offset: int | None = None
    """The offset in the commit log, for messages of lite topics; other receipts do not contain it."""

    @property
    def is_order(self) -> bool:
        """True if the message was popped in order."""
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    @property
    def expires_at_ms(self) -> int:
        """The time when the message is delivered again."""
        return self.popped_at_ms + self.invisible_ms


def build_receipt(receipt: Receipt) -> str:
    """Return the text of a receipt."""
    return " ".join(str(word) for word in receipt if word is not None)


def parse_receipt(text: str, broker_name: str, queue_id: int, queue_offset: int) -> Receipt:
    """Return the receipt of a request.

    :param queue_id: the queue that the request names beside the receipt.
    :param queue_offset: the offset that the request names beside the receipt.
    :raises RequestRefused: MESSAGE_ILLEGAL: the text is no receipt, or not of this broker, queue and message.
    """
    words = text.split(" ") if len(text) <= MAX_RECEIPT_CHARACTERS else []
    try:
        if len(words) < MIN_WORDS:
            raise ValueError(f"{len(words)} words")
        start, popped, invisible, revive_queue = map(int, words[:4])
        receipt = Receipt(
            start,
            popped,
            invisible,
            revive_queue,
            words[4],
            words[5],
            int(words[6]),
            int(words[7]) if len(words) > MIN_WORDS else None,
            int(words[8]) if len(words) > MIN_WORDS + 1 else None,
        )
    except ValueError as error:
        raise _illegal(f"extraInfo is no receipt of a popped message ({error}): {text[:80]!r}") from error
    if receipt.broker_name != broker_name:
        raise _illegal(f"the receipt is of broker {receipt.broker_name[:80]!r}, this is {broker_name}")
    if receipt.queue_id != queue_id or receipt.queue_offset not in (None, queue_offset):
        raise _illegal(
            f"the receipt is of message {receipt.queue_offset} in queue {receipt.queue_id}, "
            f"the request is about {queue_offset} in queue {queue_id}"
        )
    if receipt.start_offset > queue_offset or receipt.invisible_ms < 0:
        raise _illegal(f"the words of the receipt do not belong together: {text[:80]!r}")
    return receipt


def start_offset_info(retry: str, queue_id: int, start_offset: int) -> str:
    """Return the text for a queue whose check point starts at an offset; answers join such texts by ``;``."""
    return f"{retry} {queue_id} {start_offset}"


def msg_offset_info(retry: str, queue_id: int, offsets: Sequence[int]) -> str:
    """Return the text with a queue's message offsets, in the order of the answer; answers join such texts by ``;``."""
    return f"{retry} {queue_id} {','.join(map(str, offsets))}"


def order_count_info(queue_id: int, counts: Sequence[tuple[int, int]], least: int) -> str:
    """Return the text that says how often messages of a queue were popped before.

    :param counts: offset and times, for messages that were popped before.
    :param least: the least number of times of all messages.
    """
    entries = [f"{NORMAL} qo{queue_id}%{offset} {times}" for offset, times in counts]
    return ";".join([*entries, f"{NORMAL} {queue_id} {least}"])


def pop_retry_topic(topic: str, group: str, form: str) -> str:
    """Return the topic in which messages of ``topic`` are delivered to ``group`` again.

    :param form: ``RETRY_V1`` or ``RETRY_V2``.
    """
    return f"{retry_topic(group)}{'+' if form == RETRY_V2 else '_'}{topic}"


def is_of_another(groups: Groups, topic: str, group: str) -> bool:
    """Return whether ``pop_retry_topic`` of the older form is the retry topic of another group.

    Messages of ``orders`` come again to the group ``shop`` in ``%RETRY%shop_orders``, to which consumers of the group
    ``shop_orders`` give back theirs. The two groups may belong to different people.
    """
    return groups.get(f"{group}_{topic}") is not None


def is_pop_retry_topic(name: str, topic: str) -> bool:
    """Return whether ``pop_retry_topic`` returns this name for ``topic`` and some group."""
    return name.startswith(RETRY_TOPIC_PREFIX) and name.endswith((f"+{topic}", f"_{topic}"))


def real_topic(topic: str, group: str, retry: str) -> str:
    """Return the topic from which a message was popped; batch acknowledgements name the topic by its ``retry``."""
    return topic if retry == NORMAL else pop_retry_topic(topic, group, retry)


def _illegal(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.MESSAGE_ILLEGAL, remark)
