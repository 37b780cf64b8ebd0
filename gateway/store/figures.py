"""The progress of the store, and the figures that the store keeps about itself, as metrics.

Names follow the metrics of Apache RocketMQ 5.x (``StoreMetricsConstant``) where the meaning is equal.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Protocol

from gateway.store.admission import Admission
from gateway.telemetry.metrics import Registry


class StoreProgress:
    """The progress of readers and of the disk, as offsets of the commit log.

    ``flushed`` ≤ the visible end ≤ the appended end. The commit log itself knows the last two (``visible_end``,
    ``position``). A plain class for speed: every batch changes the offsets, and any thread reads them.

    - ``dispatched_end``: readers see the consume queue units of all messages below this offset.
    - ``written_end``: the units of all messages below this offset are in their files.
    - ``write_failed``: True if the last write of units failed; the units are held until a write succeeds.
    - ``dispatched_ms``: the store time of the last dispatched message, in milliseconds.
    - ``dispatched_count``: the number of messages dispatched since the start.
    - ``saved_count``: the number of these messages that a flush has brought to the disk with their queues.
    """

    def __init__(self) -> None:
        self.flushed = 0
        self.dispatched_end = 0
        self.dispatched_ms = 0
        self.dispatched_count = 0
        self.saved_count = 0
        self.written_end = 0
        self.write_failed = False


class LogOffsets(Protocol):
    """The part of the commit log that the metrics read."""

    @property
    def min_offset(self) -> int:
        """The offset of the oldest byte that the log still has."""

    @property
    def visible_end(self) -> int:
        """The offset from which consumers see nothing."""

    @property
    def position(self) -> int:
        """The offset at which the next record starts."""


class StoreFigures:
    """The store's metrics; the code that does the counted thing runs ``figure.value += 1``."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.stored_messages = registry.counter("rocketmq_gateway_stored_messages_total", "Messages stored and visible")
        self.log_syncs = registry.counter("rocketmq_gateway_log_syncs_total", "Syncs (fdatasync) of commit log files")
        self.flush_timeouts = registry.counter(
            "rocketmq_gateway_flush_timeouts_total", "Messages answered FLUSH_DISK_TIMEOUT (syncFlushTimeout)"
        )
        self.refused_messages = registry.counter(
            "rocketmq_gateway_refused_messages_total", "Messages refused: no space, store closed or failed"
        )
        self.deleted_files = registry.counter(
            "rocketmq_gateway_deleted_log_files_total", "Commit log files deleted as expired or for space"
        )

    def watch(self, log: LogOffsets, progress: StoreProgress, admission: Admission) -> None:
        """Show the levels that other objects keep; each is read when the metrics are read."""
        watch = self.registry.watch
        watch("rocketmq_storage_size", "Bytes of the commit log", lambda: log.position - log.min_offset)
        watch(
            "rocketmq_storage_flush_behind_bytes",
            "Bytes consumers may see that are not known to be on disk",
            lambda: max(log.visible_end - progress.flushed, 0),
        )
        watch(
            "rocketmq_storage_dispatch_behind_bytes",
            "Stored bytes whose consume queues could not be written yet",
            lambda: max(log.visible_end - progress.dispatched_end, 0),
        )
        watch(
            "rocketmq_gateway_store_refusing",
            "1 while messages are refused: no space, not open, or failed",
            lambda: int(admission.refusal is not None),
        )
        watch(
            "rocketmq_gateway_store_failed",
            "1 after a failed write or sync: nothing is acknowledged until a restart",
            lambda: int(admission.failure is not None),
        )
