"""The receipts of popped messages: made from a pop answer, and sent back to acknowledge a message.

A receipt is upstream's "extra info" (``ExtraInfoUtil``), eight words separated by spaces: start offset of the check
point, pop time, invisible time, number of the revive queue, which retry topic, broker, queue, offset of the message.
The broker reads the words again; a client only keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gateway.client.message import ReceivedMessage
from wire.errors import BodyError
from wire.headers.declare import parse_int
from wire.headers.pop import PopMessageResponse
from wire.message.record import StoredMessage
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
_WORDS: Final = 8


class ReceiptWords(NamedTuple):
    """The words of a receipt. Numbers stay text, because the client rarely calculates with them."""

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
        """Return the topic from which the message was read: a retry topic of the group if the message came again."""
        if topic.startswith(RETRY_TOPIC_PREFIX):
            return topic
        if self.retry == RETRY_V1:
            return f"{RETRY_TOPIC_PREFIX}{group}_{topic}"
        if self.retry == RETRY_V2:
            return f"{RETRY_TOPIC_PREFIX}{group}+{topic}"
        return topic

    def renewed(self, popped_at_ms: int, invisible_ms: int, revive_queue_id: int) -> ReceiptWords:
        """Return the receipt that replaces this receipt after the invisible time was changed.

        The start offset of the new receipt is the message's own offset.
        """
        return self._replace(
            start_offset=self.queue_offset,
            popped_at_ms=str(popped_at_ms),
            invisible_ms=str(invisible_ms),
            revive_queue_id=str(revive_queue_id),
        )


def parse_receipt(text: str) -> ReceiptWords:
    """Return the words of a receipt.

    :raises BodyError: the text does not have eight words, or a word is not a number where a number belongs.
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
    """Makes the receipts for the messages of one pop answer.

    For each kind of topic and each queue, the answer has the start of the check point and the offsets of the messages,
    in their order.
    """

    def __init__(self, response: PopMessageResponse, broker_name: str) -> None:
        self._response = response
        self._broker_name = broker_name
        self._starts = dict(_starts(response.start_offset_info))
        self._offsets = {key: iter(offsets) for key, offsets in _offsets(response.msg_offset_info)}

    def next_receipt(self, retry: str, queue_id: int, queue_offset: int) -> ReceiptWords:
        """Return the receipt of the next message of a queue; call this for each message in the answer's order.

        :param retry: ``NORMAL``, or the kind of the retry topic from which the message comes.
        :raises BodyError: the answer does not name this queue.
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
    """Return the word if it is a number of 64 bits.

    :raises BodyError: the word is not such a number.
    """
    if parse_int(word, 64) is None:
        raise BodyError(f"a receipt has a number here, not {word[:32]!r}")
    return word


def _entries(text: str | None) -> Iterable[tuple[str, str, str]]:
    """Yield the entries of a text such as ``0 3 17;1 0 4``: kind of topic, queue, value."""
    for entry in filter(None, (text or "").split(";")):
        words = entry.split(" ")
        if len(words) != 3:
            raise BodyError(f"offsets of a pop answer are 'retry queue offset', not {entry[:64]!r}")
        yield words[0], words[1], words[2]


class PoppedMessage(ReceivedMessage):
    """A message with the receipt that acknowledges it."""

    __slots__ = ("given_back", "hidden_until", "receipt")

    def __init__(
        self, record: StoredMessage, broker_name: str, receipt: ReceiptWords, until: float, namespace: str
    ) -> None:
        super().__init__(record, broker_name, namespace=namespace)
        self.receipt = receipt
        """The receipt to send back to the broker; ``change_invisible_time`` replaces the receipt."""
        self.hidden_until = until
        """The time until which no other consumer gets the message, in seconds of the event loop's clock."""
        self.given_back = False
        """True if the message was left to come again; such a message must not be acknowledged."""
