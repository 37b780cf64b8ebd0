"""What the store needs to know: sizes, limits and intervals, as plain values.

Not the settings tree of the gateway: the broker's wiring copies the values over, so that the store can be used and
tested alone. Names and defaults are those of Apache RocketMQ's ``MessageStoreConfig`` where it has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wire.disk.consume_queue import FILE_BYTES, UNIT
from wire.disk.queue_extension import FILE_BYTES as EXTENSION_FILE_BYTES

MIB = 1024 * 1024
RECORD_OVERHEAD_BYTES = 64 * 1024
"""A record may be this much larger than the largest body (upstream ``MessageExtEncoder``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Sizes in bytes, intervals in milliseconds, ratios in percent of the partition."""

    flush_disk_type: Literal["SYNC_FLUSH", "ASYNC_FLUSH"] = "SYNC_FLUSH"
    commit_log_directory: str = ""  # empty: <root>/commitlog
    mapped_file_size_commit_log: int = 1024 * MIB
    mapped_file_size_consume_queue: int = FILE_BYTES
    enable_consume_queue_ext: bool = False  # units keep tags code, store time and bitmap in an extension
    mapped_file_size_consume_queue_ext: int = EXTENSION_FILE_BYTES
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    message_index_enable: bool = True
    max_message_size: int = 4 * MIB
    sync_flush_timeout_ms: int = 5_000  # then senders that asked for it are told FLUSH_DISK_TIMEOUT
    flush_interval_commit_log_ms: int = 500
    flush_commit_log_timed: bool = True  # false: stored messages wake the flush
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval_ms: int = 10_000
    flush_interval_consume_queue_ms: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval_ms: int = 60_000
    file_reserved_time_hours: int = 72
    delete_hours: frozenset[int] = frozenset({4})
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    disk_measured_bytes: int = 40 * 1024 * MIB  # the ratios are taken of at most this much of a partition
    clean_file_forcibly_enable: bool = True
    delete_file_batch_max: int = 10
    redelete_hanged_file_interval_ms: int = 120_000
    file_ahead_bytes: int = 64 * MIB  # the next commit log file is made when less room is left, or half a file
    max_unwritten_bytes: int = 128 * MIB  # appended and not yet written; more is refused
    max_open_consume_queue_files: int = 512
    max_index_backlog: int = 50_000  # messages waiting for the key index; beyond it the log is read again
    hot_bytes: int = 256 * MIB  # reads this close to the end of the log are taken to be in memory
    enable_multi_dispatch: bool = False  # messages are put into the light queues they name
    max_lmq_consume_queue_num: int = 20_000
    max_tail_copy_bytes: int = 64 * MIB  # of a torn tail, kept beside the log

    @property
    def sync_flush(self) -> bool:
        """Whether a send is answered only once it is on disk."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def consume_queue_file_bytes(self) -> int:
        """``mapped_file_size_consume_queue`` rounded up to whole units, as upstream does."""
        return -(-self.mapped_file_size_consume_queue // UNIT.size) * UNIT.size

    @property
    def max_record_bytes(self) -> int:
        """The largest record that is stored."""
        return self.max_message_size + RECORD_OVERHEAD_BYTES
