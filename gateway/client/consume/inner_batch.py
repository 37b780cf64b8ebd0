"""Inner batches: a record of a topic with batch queues (``queue.type=BatchCQ``) that holds the messages of one send.

The client splits the record, as upstream's ``MessageDecoder.decodeMessage`` does. The n-th message has the record's
offset plus n, its own flag, properties and body, and the record's other values.
"""

from __future__ import annotations

from typing import Final

from gateway.client.compression import Hold, decompress
from wire.message.batch import parse_batch
from wire.message.flags import SysFlag
from wire.message.inner_batch import INNER_BATCH
from wire.message.record import StoredMessage

_OF_THE_BATCH: Final = INNER_BATCH | SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK


def inner_messages(record: StoredMessage, hold: Hold | None = None) -> list[StoredMessage]:
    """Return the messages of an inner batch, each as a record.

    :param hold: must be kept as long as one of the messages.
    :raises BodyError: the body is not a batch; ``MessageRefused``: the body is compressed and cannot be read.
    """
    body = record.body
    if record.sys_flag & SysFlag.COMPRESSED:
        body = decompress(body, record.sys_flag, hold)
    return [
        StoredMessage(
            (
                record.total_size,
                record.magic,
                0,
                record.queue_id,
                part.flag,
                record.queue_offset + number,
                record.commit_log_offset,
                record.sys_flag & ~_OF_THE_BATCH,
                record.born_at_ms,
                record.born_host,
                record.stored_at_ms,
                record.store_host,
                record.reconsume_times,
                record.prepared_transaction_offset,
                len(part.body),
            ),
            part.body,
            record.topic,
            part.properties,
        )
        for number, part in enumerate(parse_batch(body))
    ]
