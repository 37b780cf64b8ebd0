"""The receipts of popped messages: made of a pop answer, given back to acknowledge a message.

A receipt is upstream's "extra info" (``ExtraInfoUtil``), eight words separated by spaces: start offset of the check
point, pop time, invisible time, number of the revive queue, which retry topic, broker, queue, offset of the message.
The broker reads them back, a client only carries them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gateway.client.namespaces import RETRY_PREFIX
from wire.errors import BodyError
from wire.headers.pop import PopMessageResponse
from wire.text_fields import parse_int

NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
_WORDS: Final = 8


class ReceiptWords(NamedTuple):
    """The words of a receipt; numbers are text, as nobody here calculates with them except where said."""

    start_offset: str
    popped_at_ms: str
    invisible_ms: str
    revive_queue_id: str
    retry: str
    broker_name: str
    queue_id: str
    queue_offset: str

    def __str__(self) -> str:
        return " ".join(self)

    def real_topic(self, topic: str, group: str) -> str:
        """The topic the message was read from: the group's retry topic of its topic when it comes again."""
        if topic.startswith(RETRY_PREFIX):
            return topic
        if self.retry == RETRY_V1:
            return f"{RETRY_PREFIX}{group}_{topic}"
        if self.retry == RETRY_V2:
            return f"{RETRY_PREFIX}{group}+{topic}"
        return topic

    def renewed(self, popped_at_ms: int, invisible_ms: int, revive_queue_id: int) -> ReceiptWords:
        """The receipt after the invisible time was changed: the old one is void. Its own offset starts it."""
        return self._replace(
            start_offset=self.queue_offset,
            popped_at_ms=str(popped_at_ms),
            invisible_ms=str(invisible_ms),
            revive_queue_id=str(revive_queue_id),
        )


def parse_receipt(text: str) -> ReceiptWords:
    """The words of a receipt.

    :raises BodyError: not eight of them.
    """
    words = text.split(" ", _WORDS)
    if len(words) != _WORDS:
        raise BodyError(
            f"a receipt has {_WORDS} words, {text[:80]!r} has {'more' if len(words) > _WORDS else len(words)}"
        )
    receipt = ReceiptWords(*words)
    for number in (*receipt[:4], *receipt[6:]):
        _check_number(number)
    return receipt


class PopReceipts:
    """Makes the receipts of one pop answer's messages.

    The answer tells, by kind of topic and queue, where the check point starts and which offsets it holds, in the
    order of the messages.
    """

    def __init__(self, response: PopMessageResponse, broker_name: str) -> None:
        self._response = response
        self._broker_name = broker_name
        self._starts = dict(_starts(response.start_offset_info))
        self._offsets = {key: iter(offsets) for key, offsets in _offsets(response.msg_offset_info)}

    def next_receipt(self, retry: str, queue_id: int, queue_offset: int) -> ReceiptWords:
        """The receipt of the next message of a queue; call it for each message in the answer's order.

        :param retry: ``NORMAL``, or which retry topic the message comes from.
        :raises BodyError: the answer does not speak of this queue.
        """
        key = (retry, str(queue_id))
        if not self._starts:  # a broker before 5.0.0's final form: the check point starts at the message
            start = offset = str(queue_offset)
        else:
            try:
                start = self._starts[key]
                offset = next(self._offsets[key])
            except (KeyError, StopIteration):
                raise BodyError(f"the pop answer has no offset for queue {queue_id}, topic kind {retry}") from None
        response = self._response
        return ReceiptWords(
            start,
            str(response.pop_time),
            str(response.invisible_time),
            str(response.revive_qid),
            retry,
            self._broker_name,
            str(queue_id),
            offset,
        )


def _starts(text: str | None) -> Iterable[tuple[tuple[str, str], str]]:
    for retry, queue_id, start in _entries(text):
        yield (retry, queue_id), _check_number(start)


def _offsets(text: str | None) -> Iterable[tuple[tuple[str, str], list[str]]]:
    for retry, queue_id, offsets in _entries(text):
        yield (retry, queue_id), [_check_number(offset) for offset in offsets.split(",")]


def _check_number(word: str) -> str:
    """The word, when it is a number of 64 bits.

    :raises BodyError: it is none.
    """
    if parse_int(word, 64) is None:
        raise BodyError(f"a receipt has a number here, not {word[:32]!r}")
    return word


def _entries(text: str | None) -> Iterable[tuple[str, str, str]]:
    """``0 3 17;1 0 4``: kind of topic, queue, value."""
    for entry in filter(None, (text or "").split(";")):
        words = entry.split(" ")
        if len(words) != 3:
            raise BodyError(f"offsets of a pop answer are 'retry queue offset', not {entry[:64]!r}")
        yield words[0], words[1], words[2]
