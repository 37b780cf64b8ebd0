"""Messages of a workload: no two are alike."""

from __future__ import annotations

from random import Random

from gateway.tests.crash.ledger import QueueName
from gateway.tests.crash.small_broker import HOST
from gateway.tests.crash.workload import Workload
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage

QUEUES: tuple[QueueName, ...] = (("A", 0), ("A", 1), ("B", 0))


def message(workload: Workload, queue: QueueName, number: int, now_ms: int, random: Random) -> OutgoingMessage:
    """One that no other is like; of equal size for all numbers when the workload has one size only."""
    digits = f"{number:05d}"
    properties = {PropertyName.KEYS: f"k{digits}", PropertyName.UNIQ_KEY: f"u{digits}"}
    if random.random() < 0.3 and len(workload.sizes) > 1:
        properties[PropertyName.TAGS] = "tag"
    body = digits.encode() + random.randbytes(8).hex().encode() * (random.choice(workload.sizes) // 16)
    return outgoing(queue, body, now_ms, properties)


def outgoing(queue: QueueName, body: bytes, now_ms: int, properties: dict[str, str]) -> OutgoingMessage:
    """One that a client of this host sends."""
    return OutgoingMessage(
        topic=queue[0],
        queue_id=queue[1],
        flag=0,
        sys_flag=SysFlag.TRANSACTION_NONE,
        born_at_ms=now_ms,
        born_host=HOST,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=build_properties(properties),
        property_map=properties,
    )
