"""The messages of a batch request as the store takes them: one by one, or as the one record that batch queues keep.

Upstream: ``MessageExtEncoder.encode`` for batches, which makes the records, and its inner batches of BatchCQ topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.message.batch import parse_batch
from wire.message.inner_batch import INNER_BATCH, MAX_INNER_MESSAGES
from wire.message.properties import PropertyName, build_properties, parse_properties
from wire.message.record import OutgoingMessage


def batch_messages(
    batch: OutgoingMessage, check: Callable[[Mapping[str, str]], None] | None = None
) -> list[OutgoingMessage]:
    """The messages in the body of ``batch``, each with the properties of the batch that it has none of its own for.

    :param check: raises RequestRefused for properties of a message that its topic does not take.
    :raises BodyError: the body is no row of messages.
    """
    outer = batch.property_map
    missing_for: dict[frozenset[str], bytes] = {frozenset(): batch.properties}
    messages = []
    for flag, body, raw in parse_batch(batch.body):
        inner = parse_properties(raw)
        if check is not None:
            check(inner)
        if raw and not raw.endswith(b"\x02"):
            raw += b"\x02"
        both = frozenset(inner.keys() & outer.keys())
        missing = missing_for.get(both)
        if missing is None:
            missing = missing_for[both] = _without(outer, both)
        messages.append(
            OutgoingMessage(
                batch.topic,
                batch.queue_id,
                flag,
                batch.sys_flag,
                batch.born_at_ms,
                batch.born_host,
                batch.store_host,
                batch.reconsume_times,
                0,
                body,
                raw + missing,
                {**outer, **inner},
            )
        )
    return messages


def as_one_record(batch: OutgoingMessage, messages: Sequence[OutgoingMessage]) -> OutgoingMessage:
    """The batch as one message that holds ``messages``, for topics with batch queues.

    :raises RequestRefused: MESSAGE_ILLEGAL, they are too many.
    """
    if len(messages) > MAX_INNER_MESSAGES:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"the batch holds more than {MAX_INNER_MESSAGES} messages")
    properties = {**batch.property_map, PropertyName.INNER_NUM: str(len(messages))}
    batch.sys_flag |= INNER_BATCH
    batch.properties = build_properties(properties)
    batch.property_map = properties
    return batch


def _without(properties: Mapping[str, str], names: Collection[str]) -> bytes:
    """Properties but some, as a property string."""
    return build_properties({name: value for name, value in properties.items() if name not in names})
