"""A directory that Apache RocketMQ 5.5.0 wrote with ``enableConsumeQueueExt`` and ``enableCalcFilterBitMap``.

``apache_extension.zip`` holds it, without what a start makes again. Topic Ext has one queue: messages 0 … 179, with
their number as property n, of tags red, green and none in turn; the first 12 were stored before any filter was known,
the others while group g_small (``n < 20``) and g_large (``n >= 20``) were consuming. One more is delayed (level 2).
Settings: ``mappedFileSizeConsumeQueueExt=4096`` and others as in ``SETTINGS``.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from gateway.settings.store import StoreSettings

MESSAGES = 180
UNFILTERED = 12
"""Messages stored before groups were known."""
SETTINGS = StoreSettings(
    mapped_file_size_commit_log=1024 * 1024,
    mapped_file_size_consume_queue=20_000,
    mapped_file_size_consume_queue_ext=4096,
    max_hash_slot_num=100,
    max_index_num=400,
    file_ahead_bytes=0,
)


def unpacked(target: Path) -> Path:
    """A copy of it."""
    with zipfile.ZipFile(Path(__file__).with_name("apache_extension.zip")) as packed:
        packed.extractall(target)
    return target
