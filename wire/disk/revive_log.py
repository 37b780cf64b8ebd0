"""The records of the revive topic, ``rmq_sys_REVIVE_LOG_<cluster>``: popped messages, and their acknowledgements.

Bodies are JSON with short names, and the tag says of which kind a record is. ``ck`` is a check point: messages of one
queue that were popped at once (upstream ``PopCheckPoint``). ``ack`` and ``bAck`` settle one or several messages of a
check point (``AckMsg``, ``BatchAckMsg``). ``state`` and ``gone`` are ours, as is the member ``no`` of a check point;
upstream's revive service ignores all three.
"""

from __future__ import annotations

from typing import Final, Self

import msgspec

from wire.errors import LayoutError
from wire.fixed_layout import Readable

# On disk: never change.
CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
STATE_TAG: Final = "state"
GONE_TAG: Final = "gone"
MAX_MESSAGES: Final = 32
"""The most messages of one check point, which has one bit of an int for each message."""


class ReviveRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The fields of every record: the group and the queue whose progress the record describes."""

    topic: str = msgspec.field(name="t")
    group: str = msgspec.field(name="c")
    queue_id: int = msgspec.field(name="q")

    @classmethod
    def parse(cls, body: Readable) -> Self:
        """Read the body of a record.

        :raises LayoutError: the body is no record of this kind, or its parts do not match.
        """
        decoder = _decoders.get(cls)
        if decoder is None:
            decoder = _decoders[cls] = msgspec.json.Decoder(cls, strict=False)
        try:
            record = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise LayoutError(f"no {cls.__name__} of the revive topic: {error}") from error
        assert isinstance(record, cls)
        return record

    def build(self) -> bytes:
        """Return the body of the record."""
        return msgspec.json.encode(self)


_decoders: dict[type[ReviveRecord], msgspec.json.Decoder[ReviveRecord]] = {}


class CheckPointRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """Messages popped at once; unsettled ones are delivered again at ``popped_at_ms + invisible_ms``.

    ``diffs`` are the offsets of the messages minus ``start_offset``. ``acked`` has a bit for each message that is
    settled already. ``next_offset`` is the offset at which the group goes on in the queue after the pop; only the pop
    itself writes it.
    """

    start_offset: int = msgspec.field(name="so")
    popped_at_ms: int = msgspec.field(name="pt")
    invisible_ms: int = msgspec.field(name="it")
    count: int = msgspec.field(name="n")
    acked: int = msgspec.field(name="bm", default=0)
    diffs: list[int] | None = msgspec.field(name="d", default=None)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    next_offset: int | None = msgspec.field(name="no", default=None)

    @classmethod
    def parse(cls, body: Readable) -> Self:
        """Read the body, and compare its numbers; raises as ``ReviveRecord.parse``."""
        record = super().parse(body)
        diffs = record.diffs
        if not 0 <= record.count <= MAX_MESSAGES or (diffs and len(diffs) != record.count) or record.start_offset < 0:
            raise LayoutError(f"a check point of {record.count} messages, with {len(diffs or ())} offsets: {record}")
        return record


class AckRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """The settlement of one message of a check point.

    ``start_offset`` and ``popped_at_ms`` name the check point; ``offset`` is the message's queue offset.
    """

    start_offset: int = msgspec.field(name="so")
    popped_at_ms: int = msgspec.field(name="pt")
    offset: int = msgspec.field(name="ao")
    broker_name: str | None = msgspec.field(name="bn", default=None)


class BatchAckRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """The settlement of several messages of a check point; ``offsets`` are their queue offsets."""

    start_offset: int = msgspec.field(name="so")
    popped_at_ms: int = msgspec.field(name="pt")
    offsets: list[int] = msgspec.field(name="aol")
    broker_name: str | None = msgspec.field(name="bn", default=None)


class StateRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """The position of a group in a queue, written after a change.

    A change is a position set elsewhere, or a pop or an acknowledgement in order.

    ``order`` is the order information as in ``consumerOrderInfo.json``, as JSON text; empty if there is none any more.
    """

    next_offset: int | None = msgspec.field(name="no", default=None)
    order: str | None = msgspec.field(name="oi", default=None)


class GoneRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """The deletion of a topic: earlier records of this revive queue about the topic do not count.

    Group and queue have no meaning here.
    """

    group: str = msgspec.field(name="c", default="")
    queue_id: int = msgspec.field(name="q", default=-1)
