"""Pop consumption in bodies: batches of acknowledgements, the queues of each client, and the mode of a group (5.x)."""

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
"""The most offsets that one entry of a batch may name; upstream's check points have 32 at most."""


class BatchAck(JsonObject):
    """The popped messages of one check point that are done (upstream ``BatchAck``).

    ``topic`` is the name without the prefix of a retry topic. ``retry`` names the topic that the messages were popped
    from: "0" is the topic itself, "1" and "2" are the two forms of its retry topic. ``bits`` is base64, or bytes as
    numbers.
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
        """Return the offsets that are done, in ascending order.

        :raises BodyError: the bit set is malformed or too large.
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
    """Read Java's ``BitSet.toByteArray``, given as base64 or as a list of signed bytes."""
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
        return bytes(int(number) & 0xFF for number in value)
    except (binascii.Error, ValueError, TypeError, OverflowError) as error:
        raise BodyError(f"BatchAck.b is a bit set, not {value!r:.64}: {error}") from error


def build_bit_set(numbers: Sequence[int]) -> str:
    """Return a set of small numbers as base64."""
    bits = sum(1 << number for number in set(numbers))
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


class BatchAckMessage(RequestBody):
    """The body of BATCH_ACK_MESSAGE."""

    broker_name: str = ""
    acks: Sequence[BatchAck] = ()


class QueryAssignmentRequest(SmallRequestBody):
    """The request of a client that asks which queues of a topic it has to consume."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = ""
    message_model: str = "CLUSTERING"


class MessageQueueAssignment(JsonObject):
    """A queue, or every queue of a broker (id −1), and the mode: pull or pop."""

    message_queue: MessageQueue
    mode: str = PULL
    attachments: Mapping[str, str] | None = None


class QueryAssignmentResponse(Body):
    """The assigned queues; None if the broker cannot assign any."""

    message_queue_assignments: Sequence[MessageQueueAssignment] | None = None


class MessageRequestMode(SmallRequestBody):
    """The mode in which a group consumes a topic (upstream ``SetMessageRequestModeRequestBody``).

    ``pop_share_queue_num`` is how many clients share each queue besides its owner; 0 or less means all clients.
    """

    topic: str
    consumer_group: str
    mode: str = PULL
    pop_share_queue_num: int = 0


class MessageRequestModes(Body):
    """All modes that were set, by topic and group."""

    modes: Mapping[str, Mapping[str, MessageRequestMode]] = field(default_factory=dict, name="messageRequestModeMap")
