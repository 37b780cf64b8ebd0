"""An overview of a store directory without reading the messages: sizes, offsets, times, queues, marks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gateway.readable import moment_text
from gateway.store_tool.checks.checkpoint_check import read_checkpoint
from gateway.store_tool.checks.index_part import IndexPart, read_part
from gateway.store_tool.checks.queue_check import UnitReader
from gateway.store_tool.files.directory import DiskFile, QueueFolder, StoreDirectory, data_end, holder_of, record_at
from wire.disk.consume_queue import UNIT_BYTES, is_filler, is_written
from wire.disk.index_file import IndexShape

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogSegment:
    """One commit log file. ``data_end`` is the position after its last byte that is not zero."""

    file: DiskFile
    data_end: int
    first_stored_at_ms: int


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """One queue, with the messages ``min_offset`` … ``max_offset`` − 1."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    files: int


class Inspection:
    """All facts of the overview. With ``topic``, only the queues of this topic are listed."""

    def __init__(self, directory: StoreDirectory, topic: str | None = None) -> None:
        self.directory = directory
        settings = directory.settings
        self.segments = [_segment(file) for file in directory.log_files]
        reader = UnitReader(directory)
        self.queues = [
            _range(reader, folder, directory.log_min)
            for name, folder in sorted(directory.queues.items())
            if topic is None or name[0] == topic
        ]
        shape = IndexShape(settings.max_hash_slot_num, settings.max_index_num)
        self.index_files = [(file, read_part(file, shape)) for file in directory.index_files]
        self.times, self.marks = read_checkpoint(directory)
        self.holder = holder_of(directory.root)

    @property
    def state(self) -> str:
        """The state in which the last server left the directory, in a few words."""
        if self.holder is not None:
            return f"in use by {self.holder}"
        return "killed: the next start recovers" if self.directory.killed else "closed properly"

    # --- for programs --------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return all figures, for programs."""
        directory, times, marks = self.directory, self.times, self.marks
        return {
            "directory": str(directory.root),
            "killed": directory.killed,
            "holder": self.holder,
            "commit_log": {
                "file_bytes": directory.log_file_bytes,
                "min_offset": directory.log_min,
                "data_end": self._data_end(),
                "files": [
                    {
                        "path": str(segment.file.path),
                        "start": segment.file.start,
                        "bytes": segment.file.size,
                        "used_bytes": segment.file.used_bytes,
                        "data_end": segment.file.start + segment.data_end,
                        "first_stored_at_ms": segment.first_stored_at_ms or None,
                    }
                    for segment in self.segments
                ],
            },
            "queues": [asdict(queue) for queue in self.queues],
            "index_files": [_index_json(file, part) for file, part in self.index_files],
            "checkpoint": {
                "log_stored_at_ms": times.log_stored_at_ms,
                "queues_stored_at_ms": times.queues_stored_at_ms,
                "index_stored_at_ms": times.index_stored_at_ms,
                "durable_offset": None if marks is None else marks.durable,
                "queues_offset": None if marks is None else marks.queues,
                "index_offset": None if marks is None else marks.index.scanned,
            },
        }

    def _data_end(self) -> int:
        ends = [segment.file.start + segment.data_end for segment in self.segments if segment.data_end]
        return max(ends, default=self.directory.log_min)

    # --- for people ----------------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """Return the overview as lines of tables, for people."""
        lines = [f"{self.directory.root}: {self.state}", ""]
        lines += self._log_lines()
        lines += ["", *self._queue_lines(), "", *self._index_lines(), "", *self._checkpoint_lines()]
        return lines

    def _log_lines(self) -> list[str]:
        rows = [("COMMIT LOG FILE", "DATA", "ON DISK", "OF", "HOLES", "FIRST MESSAGE STORED")]
        for segment in self.segments:
            file = segment.file
            rows.append(
                (
                    file.path.name,
                    _size(segment.data_end),
                    _size(file.used_bytes),
                    _size(file.size),
                    _size(max(file.size - file.used_bytes, 0)),
                    moment_text(segment.first_stored_at_ms),
                )
            )
        return [*table(rows), f"offsets {self.directory.log_min} … {self._data_end()}"]

    def _queue_lines(self) -> list[str]:
        rows = [("TOPIC", "QUEUE", "MIN", "MAX", "MESSAGES", "FILES")]
        rows += [
            (
                queue.topic,
                str(queue.queue_id),
                str(queue.min_offset),
                str(queue.max_offset),
                str(queue.max_offset - queue.min_offset),
                str(queue.files),
            )
            for queue in self.queues
        ]
        return table(rows)

    def _index_lines(self) -> list[str]:
        rows = [("INDEX FILE", "ENTRIES", "ROOM", "ON DISK", "OF", "MESSAGES STORED")]
        for file, part in self.index_files:
            if isinstance(part, IndexPart):
                span = f"{moment_text(part.head.begin_ms)} … {moment_text(part.head.end_ms)}"
                entries, room = str(part.entry_count), str(part.shape.entries - 1)
            else:
                span, entries, room = part, "?", "?"
            rows.append((file.path.name, entries, room, _size(file.used_bytes), _size(file.size), span))
        return table(rows)

    def _checkpoint_lines(self) -> list[str]:
        times, marks = self.times, self.marks
        rows = [("ON DISK ARE", "MESSAGES STORED UP TO", "COMMIT LOG UP TO")]
        for name, moment, offset in (
            ("commit log", times.log_stored_at_ms, None if marks is None else marks.durable),
            ("consume queues", times.queues_stored_at_ms, None if marks is None else marks.queues),
            ("index", times.index_stored_at_ms, None if marks is None else marks.index.scanned),
        ):
            rows.append((name, moment_text(moment), "unknown" if offset is None else str(offset)))
        return table(rows)


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _size(size: int) -> str:
    return f"{size / _MIB:.1f} MiB" if size >= _MIB else f"{size} B"


def _segment(file: DiskFile) -> LogSegment:
    end = data_end(file.path, file.size)
    return LogSegment(file, end, _first_stored_ms(file.path) if end else 0)


def _first_stored_ms(path: Path) -> int:
    first = record_at(path, 0, check_crc=False)
    return 0 if first is None else first.stored_at_ms


def _range(reader: UnitReader, folder: QueueFolder, log_min: int) -> QueueBounds:
    """Return the bounds of a queue, found with a binary search, because units of a queue are in log order."""
    if not folder.files:
        return QueueBounds(folder.topic, folder.queue_id, 0, 0, 0)
    low = folder.files[0].start // UNIT_BYTES
    high = max(file.start // UNIT_BYTES + -(-data_end(file.path, file.size) // UNIT_BYTES) for file in folder.files)
    last = max(low, high)

    def is_kept(offset: int) -> bool:
        unit = reader.unit(folder.topic, folder.queue_id, offset)
        return not is_filler(unit[0], unit[1]) and not (is_written(unit[0], unit[1]) and unit[0] < log_min)

    first = low + bisect_left(range(low, last), True, key=is_kept)
    return QueueBounds(folder.topic, folder.queue_id, first, last, len(folder.files))


def _index_json(file: DiskFile, part: IndexPart | str) -> dict[str, Any]:
    values: dict[str, Any] = {"path": str(file.path), "bytes": file.size, "used_bytes": file.used_bytes}
    if isinstance(part, str):
        return {**values, "fault": part}
    head = part.head
    return {
        **values,
        "slots": part.shape.slots,
        "room": part.shape.entries - 1,
        "entries": part.entry_count,
        "begin_ms": head.begin_ms,
        "end_ms": head.end_ms,
        "begin_commit_log_offset": head.begin_commit_log_offset,
        "end_commit_log_offset": head.end_commit_log_offset,
    }
