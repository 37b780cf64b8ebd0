"""Read messages from a store directory, in log order, by queue, offset, time or key.

If a topic is named, the consume queues say where its messages are. After a kill the queues lack the newest messages, so
the end of the log is also read. Without a topic, or if the queues are not to be trusted, the whole log is walked.
Damaged records are reported and skipped. Files are only read.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from gateway.readable import moment_text
from gateway.store.durability.dispatch import HIDDEN
from gateway.store.log.log_scan import LogScan, next_record
from gateway.store.queues.deleted_topics import QueueName
from gateway.store.recovery.earlier_lives import NOTHING
from gateway.store_tool.checks.checkpoint_check import read_checkpoint
from gateway.store_tool.checks.config_check import known_topics
from gateway.store_tool.checks.deletions import EmptyQueues, noted_deletions
from gateway.store_tool.checks.queue_check import UnitReader
from gateway.store_tool.files.directory import DiskFile, QueueFolder, StoreDirectory, data_end, log_part, read_part
from wire.disk.consume_queue import is_filler
from wire.errors import RecordError, RemoteError
from wire.message.flags import SysFlag, transaction_kind
from wire.message.message_id import unpack_host
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, check_record, parse_record
from wire.safe_text import safe_json

SYSTEM_TOPICS = frozenset({HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TOPIC})
"""The topics with the bookkeeping of transactions, shown only on request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSelection:
    """The wanted messages. All conditions have to hold.

    ``first_offset`` … ``end_offset`` are queue offsets, and ``from_ms`` … ``to_ms`` store times, both without the end.
    """

    topic: str | None = None
    queue_id: int | None = None
    first_offset: int = 0
    end_offset: int | None = None
    from_ms: int = 0
    to_ms: int | None = None
    key: str | None = None
    system: bool = False

    def takes(self, message: StoredMessage) -> bool:
        """Return whether a message is wanted."""
        if self.topic is not None and message.topic != self.topic:
            return False
        if self.queue_id is not None and message.queue_id != self.queue_id:
            return False
        if message.queue_offset < self.first_offset or message.stored_at_ms < self.from_ms:
            return False
        if self.end_offset is not None and message.queue_offset >= self.end_offset:
            return False
        if self.to_ms is not None and message.stored_at_ms >= self.to_ms:
            return False
        if not self.system and (message.topic in SYSTEM_TOPICS or message.sys_flag & HIDDEN):
            return False
        return self.key is None or _has_key(message, self.key)


class Dump:
    """One dump. ``damaged`` counts the records that could not be read.

    :param tell: called with a text for each damaged record: path, byte, reason.
    """

    def __init__(self, directory: StoreDirectory, selection: DumpSelection, tell: Callable[[str], None]) -> None:
        self._directory = directory
        self._selection = selection
        self._tell = tell
        self._deleted, _ = noted_deletions(directory)
        self.damaged = 0

    def messages(self, *, scan: bool = False) -> Iterator[StoredMessage]:
        """Return the wanted messages, oldest first.

        :param scan: walk through the log even if a topic is named.
        """
        selection = self._selection
        found = self._queued() if selection.topic is not None and not scan else self._scanned()
        return filter(selection.takes, found if selection.system else filter(self._exists, found))

    def _exists(self, message: StoredMessage) -> bool:
        """Return whether a message's topic was not deleted after the message was stored."""
        return message.commit_log_offset >= self._deleted.not_below(message.topic, message.queue_id)

    # --- by the queues -------------------------------------------------------------------------------------------

    def _queued(self) -> Iterator[StoredMessage]:
        selection = self._selection
        folders = [
            folder
            for (topic, queue_id), folder in self._directory.queues.items()
            if topic == selection.topic and selection.queue_id in (None, queue_id)
        ]
        places = [self._places(folder) for folder in folders]
        if self._directory.killed:
            places.append(self._behind_queues())
        for position, size in heapq.merge(*places):
            message = self._message(position, size)
            if message is not None:
                if selection.to_ms is not None and message.stored_at_ms >= selection.to_ms:
                    return
                yield message

    def _places(self, folder: QueueFolder) -> Iterator[tuple[int, int]]:
        selection = self._selection
        reader = UnitReader(self._directory)
        for offset, (position, size, _) in reader.written(folder, (0, selection.first_offset)):
            if selection.end_offset is not None and offset >= selection.end_offset:
                return
            if not is_filler(position, size) and position >= self._directory.log_min:
                yield position, size

    def _behind_queues(self) -> Iterator[tuple[int, int]]:
        """Yield offset and size of the topic's messages that no queue leads to.

        A killed server had the units of such messages in memory.
        """
        directory = self._directory
        reader = UnitReader(directory)
        empty = EmptyQueues(directory, reader.covered_end(), known_topics(directory))
        ends: dict[QueueName, int] = {}
        ended: int | None = None
        _, marks = read_checkpoint(directory)
        for message in self._logged(marks.queues if marks is not None else 0):
            offset, name = message.commit_log_offset, (message.topic, message.queue_id)
            if name not in ends:
                ends[name] = reader.end_of(name)
            if ends[name] < 0:
                if ended is None:
                    ended = self._ended_lives() if empty.another else NOTHING
                if empty.were_deleted(name, offset, ended):
                    continue
            # What lies before the end of its queue and has no unit there is of an earlier queue of the name.
            if offset >= ends[name]:
                yield offset, message.total_size

    def _ended_lives(self) -> int:
        """Return the log offset below which the topic's messages were certainly deleted.

        A deletion shows if a queue starts at offset 0 again.
        """
        ended = NOTHING
        last: dict[int, int] = {}
        for message in self._logged(0):
            if message.queue_offset == 0 and message.queue_id in last:
                ended = max(ended, last[message.queue_id] + 1)
            last[message.queue_id] = message.commit_log_offset
        return ended

    def _logged(self, start: int) -> Iterator[StoredMessage]:
        """Yield the messages of the topic that the log has from an offset on."""
        for file in self._directory.log_files:
            for message in self._walk(file, max(start - file.start, 0), quiet=True):
                if message.topic == self._selection.topic and not message.sys_flag & HIDDEN:
                    yield message

    def _message(self, offset: int, size: int) -> StoredMessage | None:
        file = self._directory.log_file_at(offset)
        if file is None or offset - file.start + size > self._size(file):
            self._damage(f"a consume queue leads to commit log offset {offset}, which is not there")
            return None
        data = read_part(file.path, offset - file.start, size)
        try:
            check_record(data, 0, offset)
            return parse_record(data)
        except RecordError as error:
            self._damage(f"{file.path} byte {offset - file.start} (commit log offset {offset}): {error}")
            return None

    # --- by the log ----------------------------------------------------------------------------------------------

    def _scanned(self) -> Iterator[StoredMessage]:
        files = self._directory.log_files
        for number, file in enumerate(files):
            following = files[number + 1] if number + 1 < len(files) else None
            if following is not None and self._is_before(following):
                continue
            yield from self._walk(file)

    def _is_before(self, following: DiskFile) -> bool:
        """Return whether all messages before a file are too old. Store times never fall."""
        first = next(iter(self._walk(following, quiet=True)), None) if self._selection.from_ms else None
        return first is not None and first.stored_at_ms < self._selection.from_ms

    def _walk(self, file: DiskFile, start: int = 0, *, quiet: bool = False) -> Iterator[StoredMessage]:
        """Yield the messages of a file, from a byte on at which a record starts."""
        file_size = self._size(file)
        end = data_end(file.path, file_size) if start < file_size else 0
        log = log_part(file.path, file.start, file_size)
        position: int | None = file.start + start
        while position is not None and position < file.start + end:
            scan = LogScan(log, position, file.start + end)
            yield from scan
            if scan.problem is None:
                return
            if not quiet:
                place = f"{file.path} byte {scan.end - file.start} (commit log offset {scan.end})"
                self._damage(f"{place}: {scan.problem or 'nothing is written here'}")
            position = next_record(log, scan.end)

    def _size(self, file: DiskFile) -> int:
        """Return how many bytes of a file are looked at. Bytes after the usual size are ignored."""
        return min(file.size, self._directory.log_file_bytes)

    def _damage(self, text: str) -> None:
        self.damaged += 1
        self._tell(text)


def _has_key(message: StoredMessage, key: str) -> bool:
    properties = message.property_map
    return properties.get(PropertyName.UNIQ_KEY) == key or key in properties.get(PropertyName.KEYS, "").split(" ")


_KINDS = {
    SysFlag.TRANSACTION_NONE: None,
    SysFlag.TRANSACTION_PREPARED: "prepared",
    SysFlag.TRANSACTION_COMMIT: "commit",
    SysFlag.TRANSACTION_ROLLBACK: "rollback",
}


def record_values(message: StoredMessage) -> dict[str, Any]:
    """Return the members of the JSON object. ``body`` is text if it is UTF-8, otherwise there is ``body_base64``."""
    values: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "commit_log_offset": message.commit_log_offset,
        "size": message.total_size,
        "stored_at": moment_text(message.stored_at_ms),
        "stored_at_ms": message.stored_at_ms,
        "born_at": moment_text(message.born_at_ms),
        "born_at_ms": message.born_at_ms,
        "born_host": _host(message.born_host),
        "store_host": _host(message.store_host),
        "message_id": message.unique_key,
        "offset_message_id": message.offset_message_id,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "properties": message.property_map,
    }
    kind = _KINDS[transaction_kind(message.sys_flag)]
    if kind is not None:
        values["transaction"] = kind
        values["prepared_transaction_offset"] = message.prepared_transaction_offset
    if message.sys_flag & SysFlag.COMPRESSED:
        values["compressed"] = True
    try:
        values["body"] = message.body.decode()
    except UnicodeDecodeError:
        values["body_base64"] = base64.b64encode(message.body).decode()
    return values


def record_line(message: StoredMessage) -> str:
    """Return one line of JSON, without the line break."""
    return safe_json(record_values(message))


def _host(packed: bytes) -> str:
    try:
        address, port = unpack_host(packed)
    except RemoteError:
        return packed.hex()
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
