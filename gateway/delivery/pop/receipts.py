"""Receipts: the texts that name popped messages, as pop answers carry them and acknowledgements bring them back.

Clients compute a receipt themselves from three texts of a pop answer; all forms are upstream's (``ExtraInfoUtil``)
and never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.delivery.retry import retry_topic
from gateway.errors import RequestRefused
from wire.codes import ResponseCode

NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
ORDER_REVIVE_QUEUE: Final = 999
"""The revive queue that receipts of ordered pops name: there is none."""
MIN_WORDS: Final = 7
"""Before 5.x's final form the last word, the message's offset, was left out."""
MAX_RECEIPT_CHARACTERS: Final = 1_024


class Receipt(NamedTuple):
    """The words of a receipt, as numbers where they are."""

    start_offset: int
    popped_at_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int
    queue_offset: int | None
    commit_log_offset: int | None = None
    """Of messages of lite topics; others are told without."""

    @property
    def is_order(self) -> bool:
        """Whether the message was popped in order."""
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    @property
    def expires_at_ms(self) -> int:
        """When the message is given out again."""
        return self.popped_at_ms + self.invisible_ms


def build_receipt(receipt: Receipt) -> str:
    """The text of a receipt."""
    return " ".join(str(word) for word in receipt if word is not None)


def parse_receipt(text: str, broker_name: str, queue_id: int, queue_offset: int) -> Receipt:
    """The receipt of a request.

    :param queue_id: as the request says it beside the receipt; ``queue_offset`` likewise.
    :raises RequestRefused: MESSAGE_ILLEGAL: it is no receipt, or not of this broker, queue and message.
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
    """Where the check point of a queue starts; joined by ``;``."""
    return f"{retry} {queue_id} {start_offset}"


def msg_offset_info(retry: str, queue_id: int, offsets: Sequence[int]) -> str:
    """The offsets of the messages of a queue, in the order of the answer; joined by ``;``."""
    return f"{retry} {queue_id} {','.join(map(str, offsets))}"


def order_count_info(queue_id: int, counts: Sequence[tuple[int, int]], least: int) -> str:
    """How often messages of a queue were popped before.

    :param counts: offset and times, of those popped before; ``least`` is of all messages.
    """
    entries = [f"{NORMAL} qo{queue_id}%{offset} {times}" for offset, times in counts]
    return ";".join([*entries, f"{NORMAL} {queue_id} {least}"])


def pop_retry_topic(topic: str, group: str, form: str) -> str:
    """The topic in which messages of ``topic`` come to ``group`` again; ``form`` is ``RETRY_V1`` or ``RETRY_V2``."""
    return f"{retry_topic(group)}{'+' if form == RETRY_V2 else '_'}{topic}"


def real_topic(topic: str, group: str, retry: str) -> str:
    """The topic a message was popped from, which acknowledgements by the batch name by its kind."""
    return topic if retry == NORMAL else pop_retry_topic(topic, group, retry)


def _illegal(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.MESSAGE_ILLEGAL, remark)
