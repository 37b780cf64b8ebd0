"""Batch requests: what the header of a batch may not ask for, and a batch as batch queues keep it, as one record.

Upstream: the inner batches of BatchCQ topics, which ``MessageExtEncoder.encode`` makes for batches.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.errors import RequestRefused
from gateway.schedule.redirect import TIMER_PROPERTIES, delay_level
from wire.codes import ResponseCode
from wire.message.inner_batch import INNER_BATCH, MAX_INNER_MESSAGES
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage

_PLACES: Final = (PropertyName.LITE_TOPIC, PropertyName.PRIORITY)
_EACH_ITS_OWN: Final = PropertyName.INNER_MULTI_DISPATCH
"""Counts in the record of a batch, where the batch is one record. So do TAGS and KEYS, which are left alone elsewhere:
Java clients with ``setAutoBatch`` have them in the header and in each message.
"""
_ACTED_UPON: Final = frozenset({PropertyName.TRAN_MSG, PropertyName.DELAY, *TIMER_PROPERTIES, *_PLACES, _EACH_ITS_OWN})


def check_header_properties(properties: Mapping[str, str], *, is_one_record: bool) -> None:
    """Refuse the properties in a batch's header on which a single send acts, and a batch cannot.

    Without this a delayed batch would be acknowledged and delivered at once.

    :param is_one_record: the batch is stored as one record, whose properties those of the header are.
    :raises RequestRefused: MESSAGE_ILLEGAL, with the name of the property.
    """
    if _ACTED_UPON.isdisjoint(properties):
        return
    if (properties.get(PropertyName.TRAN_MSG) or "").lower() == "true":
        raise _refused("a batch cannot be a transaction: send its messages one by one")
    level = delay_level(properties)
    if level is None or level > 0:
        raise _cannot_wait(properties, PropertyName.DELAY)
    if PropertyName.TIMER_OUT_MS not in properties:  # delivered at its time before, and sent on
        for name in TIMER_PROPERTIES:
            if name in properties:
                raise _cannot_wait(properties, name)
    for name in _PLACES if is_one_record else (*_PLACES, _EACH_ITS_OWN):
        if name in properties:
            raise _refused(f"a batch cannot have the property {name} in its header: give it to each message")


def as_one_record(batch: OutgoingMessage, count: int) -> OutgoingMessage:
    """The batch as one message that holds the ``count`` messages of its body, for topics with batch queues.

    :raises RequestRefused: MESSAGE_ILLEGAL, they are too many.
    """
    if count > MAX_INNER_MESSAGES:
        raise _refused(f"the batch holds more than {MAX_INNER_MESSAGES} messages")
    properties = {**batch.property_map, PropertyName.INNER_NUM: str(count)}
    batch.sys_flag |= INNER_BATCH
    batch.properties = build_properties(properties)
    batch.property_map = properties
    return batch


def _cannot_wait(properties: Mapping[str, str], name: str) -> RequestRefused:
    return _refused(f"a batch cannot wait, property {name}={properties[name][:32]}: send its messages one by one")


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.MESSAGE_ILLEGAL, reason)
