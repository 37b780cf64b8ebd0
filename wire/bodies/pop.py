"""Pop consumption in bodies: acknowledgements by the batch, who consumes which queues, and how (5.x)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from wire.bodies.declare import Body, JsonObject, RequestBody, SmallRequestBody, field
from wire.bodies.message_queue import MessageQueue
from wire.errors import BodyError

PULL = "PULL"
POP = "POP"
MODES = (PULL, POP)

MAX_BATCH_BITS = 1024
"""Offsets that one entry of a batch may name; upstream's check points have 32 at most."""


class BatchAck(JsonObject):
    """Popped messages of one check point that are done (upstream ``BatchAck``).

    ``topic`` is without the prefix of a retry topic: ``retry`` says "0" the topic itself, "1" or "2" which form of
    retry topic the messages were popped from. ``bits`` is base64, or bytes as numbers.
    """

    group: str = field(name="c")
    topic: str = field(name="t")
    retry: str = field(name="r")
    start_offset: int = field(name="so")
    queue_id: int = field(name="q")
    revive_queue_id: int = field(name="rq")
    popped_at_ms: int = field(name="pt")
    invisible_ms: int = field(default=0, name="it")
    bits: Any = field(default="", name="b")

    def offsets(self) -> list[int]:
        """The offsets that are done, ascending.

        :raises BodyError: the bit set is none, or too large.
        """
        raw = _bit_set(self.bits)
        if len(raw) * 8 > MAX_BATCH_BITS:
            raise BodyError(f"BatchAck.b: {len(raw)} bytes of bits, {MAX_BATCH_BITS // 8} are allowed")
        bits = int.from_bytes(raw, "little")
        offsets: list[int] = []
        while bits:
            lowest = bits & -bits
            offsets.append(self.start_offset + lowest.bit_length() - 1)
            bits ^= lowest
        return offsets


def _bit_set(value: Any) -> bytes:
    """Java's ``BitSet.toByteArray``: base64, or a list of signed bytes."""
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
        return bytes(int(number) & 0xFF for number in value)
    except (binascii.Error, ValueError, TypeError, OverflowError) as error:
        raise BodyError(f"BatchAck.b is a bit set, not {value!r:.64}: {error}") from error


def build_bit_set(numbers: Sequence[int]) -> str:
    """The base64 form of a set of small numbers."""
    bits = sum(1 << number for number in set(numbers))
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


class BatchAckMessage(RequestBody):
    """The body of BATCH_ACK_MESSAGE."""

    broker_name: str = ""
    acks: Sequence[BatchAck] = ()


class QueryAssignmentRequest(SmallRequestBody):
    """A client asks which queues it is to consume."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = ""
    message_model: str = "CLUSTERING"


class MessageQueueAssignment(JsonObject):
    """A queue, or every queue of a broker (id -1), and whether it is pulled or popped."""

    message_queue: MessageQueue
    mode: str = PULL
    attachments: Mapping[str, str] | None = None


class QueryAssignmentResponse(Body):
    """The queues; None when the broker cannot say."""

    message_queue_assignments: Sequence[MessageQueueAssignment] | None = None


class MessageRequestMode(SmallRequestBody):
    """How a group consumes a topic (upstream ``SetMessageRequestModeRequestBody``).

    ``pop_share_queue_num``: clients that share each queue besides its owner; 0 or less: all of them.
    """

    topic: str
    consumer_group: str
    mode: str = PULL
    pop_share_queue_num: int = 0


class MessageRequestModes(Body):
    """All modes that were set: topic, then group."""

    modes: Mapping[str, Mapping[str, MessageRequestMode]] = field(default_factory=dict, name="messageRequestModeMap")
