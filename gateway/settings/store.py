"""Settings of the message store: its directory, when data reaches the disk, when data is deleted.

Keys, units and defaults are those of Apache RocketMQ's MessageStoreConfig, except for ``flushDiskType``: here a send is
answered when the message is on disk, unless ASYNC_FLUSH is set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gateway.settings.declare import Mark, Range, machine_setting, setting, with_home
from gateway.settings.lite import LightQueueSettings
from gateway.settings.replication import ReplicationSettings

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
CONSUME_QUEUE_UNIT_BYTES = 20
"""The size of one consume queue unit; a file holds whole units. The format is on disk: never change the size."""
RECORD_OVERHEAD_BYTES = 64 * 1024
"""The most bytes that a record may have beyond the largest body (upstream ``MessageExtEncoder``)."""
_DELAY_LEVEL = re.compile(r"[1-9][0-9]{0,8}[smhd]")


class FlushDiskType(StrEnum):
    """The time of a send's answer: after the message is on disk, or after the system has the message in memory."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


def delay_levels_expected(text: str) -> str | None:
    """Return what ``messageDelayLevel`` expects if ``text`` is wrong, otherwise None."""
    levels = text.split(" ")
    if len(levels) <= 128 and all(_DELAY_LEVEL.fullmatch(level) for level in levels):
        return None
    return "durations such as '1s 5s 1m 2h' separated by one space"


def hours_expected(text: str) -> str | None:
    """Return what ``deleteWhen`` expects if ``text`` is wrong, otherwise None."""
    hours = text.split(";")
    if all(hour.isascii() and hour.isdigit() and int(hour) < 24 for hour in hours):
        return None
    return "hours of the day such as '04' or '04;16'"


def one_path_expected(text: str) -> str | None:
    """Return what ``storePathCommitLog`` expects if ``text`` is wrong, otherwise None."""
    return "a single path (several commit log directories are not supported)" if "," in text else None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StoreSettings(LightQueueSettings, ReplicationSettings):
    """Commit log, consume queues, index, retention."""

    store_path_root_dir: Path = machine_setting(
        Path,
        lambda: Path.home() / "store",
        "storePathRootDir",
        "Directory of everything that is kept: $HOME/store unless set.",
    )
    store_path_commit_log: str = setting(
        "",
        "storePathCommitLog",
        "Directory of the commit log; empty: commitlog in storePathRootDir.",
        within=one_path_expected,
    )
    flush_disk_type: FlushDiskType = setting(
        FlushDiskType.SYNC_FLUSH,
        "flushDiskType",
        "SYNC_FLUSH: a send is answered once it is on disk (Apache's default is ASYNC_FLUSH).",
    )
    sync_flush_timeout_ms: int = setting(
        5_000,
        "syncFlushTimeout",
        "SYNC_FLUSH: time after which a send is answered FLUSH_DISK_TIMEOUT while its message goes on to the disk.",
        Range(1, 3_600_000, "ms"),
    )
    flush_interval_commit_log_ms: int = setting(
        500,
        "flushIntervalCommitLog",
        "ASYNC_FLUSH: time between two flushes of the commit log.",
        Range(1, 3_600_000, "ms"),
    )
    flush_commit_log_least_pages: int = setting(
        4,
        "flushCommitLogLeastPages",
        "ASYNC_FLUSH: written pages of 4 KiB below which a flush is skipped.",
        Range(0, 1_000_000, "pages"),
    )
    flush_commit_log_thorough_interval_ms: int = setting(
        10_000,
        "flushCommitLogThoroughInterval",
        "ASYNC_FLUSH: time after which a flush is not skipped however little was written.",
        Range(1, 3_600_000, "ms"),
    )
    flush_commit_log_timed: bool = setting(
        True,
        "flushCommitLogTimed",
        "ASYNC_FLUSH: flush by interval only; false: also as soon as enough pages were written.",
    )
    flush_interval_consume_queue_ms: int = setting(
        1_000,
        "flushIntervalConsumeQueue",
        "Time between two flushes of the consume queues, which the commit log can rebuild.",
        Range(1, 3_600_000, "ms"),
    )
    flush_consume_queue_least_pages: int = setting(
        2,
        "flushConsumeQueueLeastPages",
        "Pages of 4 KiB of new entries, for each queue that has some (up to 8), below which their flush is skipped.",
        Range(0, 1_000_000, "pages"),
    )
    flush_consume_queue_thorough_interval_ms: int = setting(
        60_000,
        "flushConsumeQueueThoroughInterval",
        "Time after which a flush of the consume queues is not skipped however little was written.",
        Range(1, 3_600_000, "ms"),
    )
    flush_delay_offset_interval_ms: int = setting(
        10_000,
        "flushDelayOffsetInterval",
        "Time between two saves of how far delayed messages were delivered.",
        Range(10, 3_600_000, "ms"),
    )
    mapped_file_size_commit_log: int = setting(
        1_073_741_824,
        "mappedFileSizeCommitLog",
        "Size of a commit log file; it takes disk space only as it fills.",
        Range(4_096, 2_147_483_647, "bytes"),
    )
    mapped_file_size_consume_queue: int = setting(
        6_000_000,
        "mappedFileSizeConsumeQueue",
        "Size of a consume queue file, 20 bytes a message, rounded up to whole messages.",
        Range(CONSUME_QUEUE_UNIT_BYTES, 2_147_483_640, "bytes"),
    )
    enable_consume_queue_ext: bool = setting(
        False,
        "enableConsumeQueueExt",
        "Keep tags code, store time and bit map of each message in consumequeue_ext (read whatever this says).",
    )
    mapped_file_size_consume_queue_ext: int = setting(
        50_331_648,
        "mappedFileSizeConsumeQueueExt",
        "Size of a file there; it takes disk space only as it fills.",
        Range(4_096, 2_147_483_647, "bytes"),
    )
    max_hash_slot_num: int = setting(
        5_000_000, "maxHashSlotNum", "Hash slots of an index file, 4 bytes each.", Range(1, 100_000_000)
    )
    max_index_num: int = setting(
        20_000_000,
        "maxIndexNum",
        "Entries of an index file, 20 bytes each; one message has one per key.",
        Range(2, 100_000_000),
    )
    message_index_enable: bool = setting(
        True, "messageIndexEnable", "Index messages by key and unique id, for queries."
    )
    max_message_size: int = setting(
        4_194_304, "maxMessageSize", "Largest message body accepted.", Range(1, 16_000_000, "bytes"), marks=Mark.LIMIT
    )
    message_delay_level: str = setting(
        DEFAULT_DELAY_LEVELS,
        "messageDelayLevel",
        "Delay of level 1, 2, … as number and unit (s, m, h, d), separated by a space.",
        within=delay_levels_expected,
    )
    file_reserved_time_hours: int = setting(
        72,
        "fileReservedTime",
        "Age at which commit log files may be deleted.",
        Range(0, 876_000, "hours"),
        marks=Mark.LIVE,
    )
    delete_when: str = setting(
        "04",
        "deleteWhen",
        "Hours of the day at which old files are deleted, separated by ';'.",
        within=hours_expected,
        marks=Mark.LIVE,
    )
    clean_resource_interval_ms: int = setting(
        10_000, "cleanResourceInterval", "Time between two looks for files to delete.", Range(10, 3_600_000, "ms")
    )
    disk_max_used_space_ratio: int = setting(
        75,
        "diskMaxUsedSpaceRatio",
        "Use of the disk above which old files are deleted at any hour (see gateway.diskMeasuredBytes).",
        Range(10, 100, "percent"),
        marks=Mark.LIVE,
    )
    disk_space_clean_forcibly_ratio: int = setting(
        85,
        "diskSpaceCleanForciblyRatio",
        "Use of the disk above which the oldest files are deleted whatever their age.",
        Range(10, 100, "percent"),
        marks=Mark.LIVE,
    )
    disk_space_warning_level_ratio: int = setting(
        90,
        "diskSpaceWarningLevelRatio",
        "Use of the disk above which sends are refused.",
        Range(10, 100, "percent"),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    disk_measured_bytes: int = setting(
        42_949_672_960,
        "gateway.diskMeasuredBytes",
        "The three disk ratios are taken of at most this much of the disk; 0: space is not watched.",
        Range(0, 1_125_899_906_842_624, "bytes"),
    )
    clean_file_forcibly_enable: bool = setting(
        True,
        "cleanFileForciblyEnable",
        "Whether files may be deleted whatever their age (diskSpaceCleanForciblyRatio).",
        marks=Mark.LIVE,
    )
    delete_file_batch_max: int = setting(
        10,
        "deleteFileBatchMax",
        "Commit log files deleted in one look for files to delete.",
        Range(1, 1_000),
        marks=Mark.LIVE,
    )
    delete_commit_log_files_interval_ms: int = setting(
        100, "deleteCommitLogFilesInterval", "Pause after the deletion of a commit log file.", Range(0, 600_000, "ms")
    )
    redelete_hanged_file_interval_ms: int = setting(
        120_000,
        "redeleteHangedFileInterval",
        "Time after which the deletion of a file that could not be deleted is tried again.",
        Range(1, 86_400_000, "ms"),
    )
    file_ahead_bytes: int = setting(
        67_108_864,
        "gateway.fileAheadBytes",
        "The next commit log file is made when less than this, or than half a file, is left; 0: when it is needed.",
        Range(0, 2_147_483_647, "bytes"),
    )
    max_unwritten_bytes: int = setting(
        134_217_728,
        "gateway.maxUnwrittenBytes",
        "Messages received and not yet written, or not yet in their queues; beyond this sends are refused.",
        Range(1_048_576, 17_179_869_184, "bytes"),
        marks=Mark.LIMIT,
    )
    max_open_consume_queue_files: int = setting(
        512,
        "gateway.maxOpenConsumeQueueFiles",
        "Consume queue files kept open at once.",
        Range(16, 1_000_000),
        marks=Mark.LIMIT,
    )
    max_index_backlog: int = setting(
        50_000,
        "gateway.maxIndexBacklog",
        "Messages waiting in memory for the key index; beyond this they are read again from the log.",
        Range(1, 100_000_000),
        marks=Mark.LIMIT,
    )
    hot_bytes: int = setting(
        268_435_456,
        "gateway.hotBytes",
        "Messages this close to the end of the commit log count as recent.",
        Range(0, 1_125_899_906_842_624, "bytes"),
    )
    cold_read_threads: int = setting(
        4,
        "gateway.coldReadThreads",
        "Threads that read messages which are not in memory, and look keys up.",
        Range(1, 8),
    )
    cold_reads_limit: int = setting(
        1_000,
        "gateway.coldReadsLimit",
        "Such reads that may wait for a thread; beyond this they are refused as busy.",
        Range(1, 1_000_000),
        marks=Mark.LIMIT,
    )
    max_tail_copy_bytes: int = setting(
        67_108_864,
        "gateway.maxTailCopyBytes",
        "Of a torn tail cut off by recovery, this much is kept beside the log.",
        Range(0, 2_147_483_647, "bytes"),
    )
    max_transfer_count_on_message_in_memory: int = setting(
        32,
        "maxTransferCountOnMessageInMemory",
        "Messages one pull returns when they are recent.",
        Range(1, 65_536),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    max_transfer_bytes_on_message_in_memory: int = setting(
        262_144,
        "maxTransferBytesOnMessageInMemory",
        "Bytes one pull returns when the messages are recent; one message always fits.",
        Range(1, 16_000_000, "bytes"),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    max_transfer_count_on_message_in_disk: int = setting(
        8,
        "maxTransferCountOnMessageInDisk",
        "Messages one pull returns when they have to be read from disk.",
        Range(1, 65_536),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    max_transfer_bytes_on_message_in_disk: int = setting(
        65_536,
        "maxTransferBytesOnMessageInDisk",
        "Bytes one pull returns when they have to be read from disk; one message always fits.",
        Range(1, 16_000_000, "bytes"),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    bulk_read_count: int = setting(
        2048,
        "gateway.bulkReadCount",
        "Messages one pull returns to a reader of whole ranges (the Spark source).",
        Range(1, 65_536),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    bulk_read_bytes: int = setting(
        1_048_576,
        "gateway.bulkReadBytes",
        "Bytes one pull returns to a reader of whole ranges; one message always fits.",
        Range(1, 16_000_000, "bytes"),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    pull_batch_max_message_count: int = setting(
        160,
        "pullBatchMaxMessageCount",
        "Messages one pull returns at most, whatever the client asks for.",
        Range(1, 65_536),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    max_msgs_num_batch: int = setting(
        64, "maxMsgsNumBatch", "Messages one query by key returns at most.", Range(1, 65_536), marks=Mark.LIMIT
    )
    default_query_max_num: int = setting(
        32, "defaultQueryMaxNum", "Messages one query by unique id returns at most.", Range(1, 65_536), marks=Mark.LIMIT
    )

    @property
    def commit_log_directory(self) -> Path:
        """The directory of the commit log files."""
        return self.commit_log_below(self.store_path_root_dir)

    def commit_log_below(self, root: Path) -> Path:
        """Return the directory of the commit log files for a store in ``root``."""
        return Path(with_home(self.store_path_commit_log)) if self.store_path_commit_log else root / "commitlog"

    @property
    def sync_flush(self) -> bool:
        """True if nothing is answered or visible before it is on disk: always where copies are awaited, or made."""
        copies = self.copies_awaited > 0 or self.is_slave or self.enable_controller_mode
        return copies or self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def max_record_bytes(self) -> int:
        """The size of the largest record that is stored, in bytes."""
        return self.max_message_size + RECORD_OVERHEAD_BYTES

    @property
    def consume_queue_file_bytes(self) -> int:
        """The bytes of ``mappedFileSizeConsumeQueue`` rounded up to whole units, as Apache does."""
        units = -(-self.mapped_file_size_consume_queue // CONSUME_QUEUE_UNIT_BYTES)
        return units * CONSUME_QUEUE_UNIT_BYTES

    @property
    def file_reserved_time_ms(self) -> int:
        """The age at which a commit log file may be deleted, in milliseconds."""
        return self.file_reserved_time_hours * 3_600_000

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours of ``deleteWhen``."""
        return frozenset(int(hour) for hour in self.delete_when.split(";"))
