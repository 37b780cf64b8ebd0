"""A batch request as batch queues keep it: as one record.

Upstream: the inner batches of BatchCQ topics, which ``MessageExtEncoder.encode`` makes for batches.
"""

from __future__ import annotations

from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.message.inner_batch import INNER_BATCH, MAX_INNER_MESSAGES
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage


def as_one_record(batch: OutgoingMessage, count: int) -> OutgoingMessage:
    """The batch as one message that holds the ``count`` messages of its body, for topics with batch queues.

    :raises RequestRefused: MESSAGE_ILLEGAL, they are too many.
    """
    if count > MAX_INNER_MESSAGES:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"the batch holds more than {MAX_INNER_MESSAGES} messages")
    properties = {**batch.property_map, PropertyName.INNER_NUM: str(count)}
    batch.sys_flag |= INNER_BATCH
    batch.properties = build_properties(properties)
    batch.property_map = properties
    return batch
