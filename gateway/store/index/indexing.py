"""The work that keeps the key index up with the log in the background, and queries for messages.

Entries are made in slices between the reactor's turns, so that no request waits for a long backlog.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from gateway.in_thread import Soon
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.figures import StoreProgress
from gateway.store.index.index import KeyIndex
from gateway.store.index.index_entries import KeyKind
from gateway.store.log.commit_log import CommitLog, head_at
from gateway.store.log.copied_records import KeyedRecord
from gateway.store.log.log_scan import LogScan
from gateway.store.put_result import PutOutcome
from gateway.telemetry.logs import EventLog
from wire.message.record import StoredMessage

log = EventLog("store")

AHEAD_BYTES = 8 * 1024 * 1024
"""The number of bytes of the log brought into memory before an index that catches up gets there.

The index reads its slices on the reactor's thread.
"""
INDEX_SLICE = 512
"""The number of messages indexed in one reactor turn: more than most turns store, and no request waits long."""


class Indexing:
    """The part that feeds the index, unless ``enabled`` is False."""

    def __init__(self, index: KeyIndex, log: CommitLog, soon: Soon, *, enabled: bool) -> None:
        self._index = index
        self._log = log
        self._soon = soon
        self._enabled = enabled
        self._is_scheduled = False

    def offer(self, outcomes: Sequence[PutOutcome]) -> None:
        """Take note of dispatched messages."""
        if self._enabled:
            self._index.offer(outcomes)

    def offer_copied(self, records: Sequence[KeyedRecord], end: int) -> None:
        """Take note of copied records; ``end`` is the offset of the log after them."""
        if self._enabled:
            self._index.offer_copied(records, end)

    def build_soon(self) -> None:
        """Schedule the entries of waiting messages, once there are enough for a slice."""
        if self._enabled and not self._is_scheduled and self._index.has_slice:
            self._is_scheduled = True
            self._soon(self._build)

    def _build(self) -> None:
        self._is_scheduled = False
        try:
            built = self._index.build(INDEX_SLICE)
        except OSError as error:
            log.error("key index cannot be written", error=str(error))
            return
        if built:
            self.build_soon()

    def find(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, kind: KeyKind = KeyKind.ANY
    ) -> list[StoredMessage]:
        """Return the newest messages of a topic that have a key and were stored in a time range; blocks.

        Any thread may call. The bodies of large messages are not read.
        """
        return list(islice(self.each(topic, key, begin_ms, end_ms, kind), max_count))

    def each(
        self, topic: str, key: str, begin_ms: int, end_ms: int, kind: KeyKind = KeyKind.ANY
    ) -> Iterator[StoredMessage]:
        """Yield the messages of ``find`` one by one, the newest first, for who counts only some of them; blocks."""
        for offset in self._index.find(topic, kind.indexed(key), begin_ms, end_ms):
            message = head_at(self._log, offset, MappedFile.read)
            if (
                message is not None
                and message.topic == topic
                and begin_ms <= message.stored_at_ms <= end_ms
                and kind.matches(message, key)
            ):
                yield message


class DispatchedLog:
    """The messages of the log that are dispatched, for an index that has to catch up."""

    def __init__(self, log: CommitLog, progress: StoreProgress) -> None:
        self._log = log
        self._progress = progress
        self._asked_end = 0

    def messages_from(self, offset: int) -> Iterator[StoredMessage]:
        """Return the messages from an offset on, or from the log's start if that is later."""
        start = max(offset, self._log.min_offset)
        if not start + AHEAD_BYTES // 2 <= self._asked_end <= start + AHEAD_BYTES:
            self._ask_ahead(start)
        return iter(self.walk_from(start))

    def walk_from(self, offset: int) -> LogScan:
        """Return a scan of these messages without asking ahead; the scan says where it ends, and why."""
        start = max(offset, self._log.min_offset)
        return LogScan(self._log.files, start, self._progress.dispatched_end, check_crc=False)

    def _ask_ahead(self, start: int) -> None:
        self._asked_end = start + AHEAD_BYTES
        # Files after the dispatched end may be planned but not made.
        position, end = start, min(self._asked_end, self._progress.dispatched_end)
        while position < end and (file := self._log.files.find(position)) is not None:
            if not file.is_open:
                file.open()
            file.read_ahead(position - file.start_offset, end - position)
            position = file.start_offset + file.size
