"""The form of a stored record in each of its queues: light queues have their own offsets, batches several."""

from __future__ import annotations

from gateway.tests.crash.ledger import QueueName
from wire.message.batch import inner_offsets, is_inner_batch, parse_batch
from wire.message.light_queues import is_light_queue, light_places
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage


def as_in_queue(queue: QueueName, record: StoredMessage) -> list[StoredMessage]:
    """The messages of a record, with topic, queue and offset as who reads the queue knows them.

    A record that does not belong to the queue comes back as it is.
    """
    topic, queue_id = queue
    if is_light_queue(topic):
        offset = dict(light_places(record.topic, record.property_map)).get(topic)
        return [record if offset is None else _moved(record, topic, queue_id, offset, record.body)]
    if is_inner_batch(record.sys_flag):
        parts = zip(inner_offsets(record), parse_batch(record.body), strict=True)
        return [_moved(record, record.topic, record.queue_id, offset, part.body) for offset, part in parts]
    return [record]


def key_in_queue(queue: QueueName, message: StoredMessage) -> str:
    """The key by which such a message is found: in its own topic, and of a batch the first."""
    properties = message.property_map
    is_first = properties.get(PropertyName.INNER_BASE, str(message.queue_offset)) == str(message.queue_offset)
    return properties.get(PropertyName.KEYS, "") if is_first and not is_light_queue(queue[0]) else ""


def _moved(record: StoredMessage, topic: str, queue_id: int, queue_offset: int, body: bytes) -> StoredMessage:
    head = (
        *(record.total_size, record.magic, record.body_crc, queue_id, record.flag, queue_offset),
        *(record.commit_log_offset, record.sys_flag, record.born_at_ms, record.born_host, record.stored_at_ms),
        *(record.store_host, record.reconsume_times, record.prepared_transaction_offset, len(body)),
    )
    return StoredMessage(head, body, topic, record.properties)
