"""The messages of a batch request as the store takes them: one by one, or as the one record that batch queues keep.

Upstream: ``MessageExtEncoder.encode`` for batches, which makes the records, and its inner batches of BatchCQ topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.message.batch import split_batch
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
    missing_of: dict[tuple[str, ...], tuple[dict[str, str], bytes]] = {}
    """What messages with these properties lack; the messages of one producer mostly have the same ones."""
    messages = []
    for flag, body, raw in split_batch(batch.body):
        properties = parse_properties(raw)
        if check is not None:
            check(properties)
        if raw and not raw.endswith(b"\x02"):
            raw += b"\x02"
        names = tuple(properties)
        missing = missing_of.get(names)
        if missing is None:
            lacks = {name: value for name, value in outer.items() if name not in properties}
            missing = missing_of[names] = (lacks, build_properties(lacks))
        properties.update(missing[0])
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
                raw + missing[1],
                properties,
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
