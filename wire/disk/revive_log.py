"""The records of the revive topic, ``rmq_sys_REVIVE_LOG_<cluster>``: what was popped, and what of it is acknowledged.

Bodies are JSON with short names, tags say which kind one is. ``ck`` is a check point: messages of one queue that
were popped together (upstream ``PopCheckPoint``). ``ack`` and ``bAck`` settle one or several of its messages
(``AckMsg``, ``BatchAckMsg``). ``state`` is ours, and upstream's revive service passes over it, as over the member
``no`` of a check point.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

import msgspec

from wire.errors import LayoutError

Readable: TypeAlias = bytes | bytearray | memoryview
R = TypeVar("R", bound="ReviveRecord")

# On disk: never change.
CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
STATE_TAG: Final = "state"
GONE_TAG: Final = "gone"
MAX_MESSAGES: Final = 32
"""Of one check point: it has a bit for each in an int."""


class ReviveRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What every record says: whose way through which queue it is about."""

    topic: str = msgspec.field(name="t")
    group: str = msgspec.field(name="c")
    queue_id: int = msgspec.field(name="q")

    def build(self) -> bytes:
        """The body."""
        return msgspec.json.encode(self)


class CheckPointRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """Messages popped together; they come again at ``popped_at_ms + invisible_ms`` unless they are settled.

    ``diffs`` are the offsets of the messages, less ``start_offset``; ``acked`` has a bit for each that is settled
    already. ``next_offset`` is where the group goes on in the queue since then, for the pop itself only.
    """

    start_offset: int = msgspec.field(name="so")
    popped_at_ms: int = msgspec.field(name="pt")
    invisible_ms: int = msgspec.field(name="it")
    count: int = msgspec.field(name="n")
    acked: int = msgspec.field(name="bm", default=0)
    diffs: list[int] | None = msgspec.field(name="d", default=None)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    next_offset: int | None = msgspec.field(name="no", default=None)


class AckRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """One message of a check point is settled; the check point is named by its start and its time."""

    start_offset: int = msgspec.field(name="so")
    popped_at_ms: int = msgspec.field(name="pt")
    offset: int = msgspec.field(name="ao")
    broker_name: str | None = msgspec.field(name="bn", default=None)


class BatchAckRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """Several messages of a check point are settled."""

    start_offset: int = msgspec.field(name="so")
    popped_at_ms: int = msgspec.field(name="pt")
    offsets: list[int] = msgspec.field(name="aol")
    broker_name: str | None = msgspec.field(name="bn", default=None)


class StateRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """Where the group is in a queue: after it was set elsewhere, or popped or acknowledged in order.

    ``order`` is the order information as in ``consumerOrderInfo.json``, as JSON text; empty: there is none any more.
    """

    next_offset: int | None = msgspec.field(name="no", default=None)
    order: str | None = msgspec.field(name="oi", default=None)


class GoneRecord(ReviveRecord, frozen=True, kw_only=True, gc=False):
    """A topic was deleted: what this revive queue says of it up to here does not count. Group and queue say nothing."""

    group: str = msgspec.field(name="c", default="")
    queue_id: int = msgspec.field(name="q", default=-1)


def parse_check_point(body: Readable) -> CheckPointRecord:
    """The body of a record tagged ``ck``.

    :raises LayoutError: it is none, or its parts do not add up.
    """
    record = _parse(CheckPointRecord, body)
    diffs = record.diffs
    if not 0 <= record.count <= MAX_MESSAGES or (diffs and len(diffs) != record.count) or record.start_offset < 0:
        raise LayoutError(f"a check point of {record.count} messages, with {len(diffs or ())} offsets: {record}")
    return record


def parse_ack(body: Readable) -> AckRecord:
    """The body of a record tagged ``ack``; raises as ``parse_check_point``."""
    return _parse(AckRecord, body)


def parse_batch_ack(body: Readable) -> BatchAckRecord:
    """The body of a record tagged ``bAck``; raises as ``parse_check_point``."""
    return _parse(BatchAckRecord, body)


def parse_state(body: Readable) -> StateRecord:
    """The body of a record tagged ``state``; raises as ``parse_check_point``."""
    return _parse(StateRecord, body)


def parse_gone(body: Readable) -> GoneRecord:
    """The body of a record tagged ``gone``; raises as ``parse_check_point``."""
    return _parse(GoneRecord, body)


_decoders: dict[type[ReviveRecord], msgspec.json.Decoder[ReviveRecord]] = {}


def _parse(kind: type[R], body: Readable) -> R:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    try:
        record = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LayoutError(f"no {kind.__name__} of the revive topic: {error}") from error
    assert isinstance(record, kind)
    return record
