"""The closed files of a commit log, read in place instead of over the network.

The consume queue's files choose the records, as in a broker. Half messages and rolled-back messages are in queues of
the system, so they are never met. A commit log file is closed if a later file has a record. The paths may be on any
filesystem that Arrow knows (a directory, ``hdfs://``, ``s3://``); local files are mapped, not copied.

Everything is checked: the first record must be byte for byte the one that the broker has at the same offset, and every
record must name the expected place, queue and offset.
"""

from __future__ import annotations

import bisect
import itertools
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from gateway.spark.errors import OptionRefused, SparkSourceError
from gateway.spark.reading.planning import QueueRange, queue_text
from gateway.spark.table.records import Group, Integers, by_hosts
from wire.disk.consume_queue import FILLER_SIZE, UNIT, UNIT_BYTES
from wire.errors import RecordError

log = logging.getLogger(__name__)

SPAN_BYTES: Final = 8 * 1024 * 1024
"""The bytes of records that are looked at together."""
MAPPED_SPAN_BYTES: Final = 256 * 1024 * 1024
"""The most bytes from the first to the last record of a span in local files, other queues' records included.

Local files are mapped, and the bytes between the records are not read. In other files the bytes between are read, so
the limit there is ``SPAN_BYTES``.
"""
SPAN_RECORDS: Final = 16_384
LEAST_NEIGHBOURS: Final = 8
"""The number of adjacent records of the queue, on average, from which copying all records together pays off."""
UNITS_READ: Final = 65_536
"""The number of consume queue units that are read at once."""
_UNIT: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert _UNIT.itemsize == UNIT_BYTES == UNIT.size, "the layout is wire's"
_SIZE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class SealedSpan:
    """Records of a queue that lie near each other.

    :param buffer: a part of a commit log file, or a copy of its records.
    :param starts: the place of each record in the buffer.
    :param groups: the records at these places.
    :param first: the queue offset of the first record.
    :param next_offset: the queue offset after the last record.
    """

    buffer: memoryview
    starts: Integers
    groups: Sequence[Group]
    first: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Units:
    """The consume queue's entries for messages: the position of each record in the log, and its size in bytes."""

    positions: Integers
    sizes: Integers

    def __len__(self) -> int:
        return len(self.positions)

    def part(self, begin: int, end: int) -> Units:
        """Return consecutive units from ``begin`` to before ``end``."""
        return Units(self.positions[begin:end], self.sizes[begin:end])


class Segments:
    """The files of a directory, each named after its first byte; the directory is listed once."""

    def __init__(self, filesystem: pafs.FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        found = filesystem.get_file_info(pafs.FileSelector(directory, allow_not_found=True))
        files = sorted(
            (int(info.base_name), info.size, info.path) for info in found if info.is_file and info.base_name.isdecimal()
        )
        self.starts = [start for start, _, _ in files]
        self._sizes = [size for _, size, _ in files]
        self._paths = [path for _, _, path in files]
        self._open: tuple[str, Any] | None = None

    def file_at(self, position: int) -> tuple[int, int] | None:
        """Return start and end of the file that has a byte; None if no file has it."""
        place = bisect.bisect_right(self.starts, position) - 1
        if place < 0 or position >= self.starts[place] + self._sizes[place]:
            return None
        return self.starts[place], self.starts[place] + self._sizes[place]

    def read(self, position: int, size: int) -> pa.Buffer:
        """Return ``size`` bytes of one file.

        :raises OSError: the file cannot be read or is too short, or no file has the position.
        """
        data = self._file(position).read_buffer(size)
        self._refuse_end(position, size, data.size)
        return data

    def read_into(self, position: int, room: memoryview) -> None:
        """Fill ``room`` with the bytes of one file.

        :raises OSError: the file cannot be read or is too short, or no file has the position.
        """
        self._refuse_end(position, len(room), self._file(position).readinto(room))

    def _file(self, position: int) -> Any:
        """Return the file that has a byte, positioned at this byte."""
        place = bisect.bisect_right(self.starts, position) - 1
        if place < 0:
            raise FileNotFoundError(f"no file has byte {position}")
        path = self._paths[place]
        if self._open is None or self._open[0] != path:
            self.close()
            self._open = path, self._filesystem.open_input_file(path)
        file = self._open[1]
        file.seek(position - self.starts[place])
        return file

    def _refuse_end(self, position: int, size: int, found: int) -> None:
        if found < size:
            path = self._paths[bisect.bisect_right(self.starts, position) - 1]
            raise FileNotFoundError(f"{path} ends before byte {position + size}, and no file follows it")

    def close(self) -> None:
        """Close the file that was read last; buffers that were handed out stay readable."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


class SealedRange:
    """The part of a range, from its start on, whose records lie in closed files.

    :param store: the store's directory, as a path or a URI.
    :raises OptionRefused: there is no store in the directory.
    :raises OSError: the directory cannot be read.
    """

    def __init__(self, store: str, work: QueueRange) -> None:
        self._work = work
        self._filesystem, root = _filesystem(store)
        self._room = bytearray()
        queue = work.queue
        if self._filesystem.get_file_info(f"{root}/commitlog").type is not pafs.FileType.Directory:
            raise OptionRefused(
                f"storePath is {store!r}: there is no directory commitlog in it on {socket.gethostname()}. It takes "
                f"the directory of a store, and every worker must see it"
            )
        self._log = Segments(self._filesystem, f"{root}/commitlog")
        self._is_local = isinstance(self._filesystem, pafs.LocalFileSystem)
        # Neighbours are copied into one room. A mapping would cost a page fault for every few of them.
        self._pieces = Segments(pafs.LocalFileSystem(), f"{root}/commitlog") if self._is_local else self._log
        self._units = Segments(self._filesystem, f"{root}/consumequeue/{queue.topic}/{queue.queue_id}")

    @cached_property
    def sealed_end(self) -> int:
        """The start of the last file that has a record: all files before it are closed."""
        for start in reversed(self._log.starts):
            if bytes(self._log.read(start, _SIZE_BYTES)) > bytes(_SIZE_BYTES):
                return start
        return 0

    def first_record(self) -> bytes | None:
        """Return the record of the range's first offset; None if the record is not in a closed file."""
        for span in self.spans(most_records=1, units_read=1):
            at = int(span.starts[0])
            return bytes(span.buffer[at : at + int.from_bytes(span.buffer[at : at + _SIZE_BYTES], "big")])
        return None

    def spans(self, *, most_records: int = SPAN_RECORDS, units_read: int = UNITS_READ) -> Iterator[SealedSpan]:
        """Yield the records in the order of the queue, up to the first record that is not in a closed file.

        :param most_records: the most records of a span.
        :param units_read: how many units of the queue are read at once.
        :raises OSError: a file cannot be read.
        :raises SparkSourceError: the log has another record at a position that the queue names.
        """
        offset = self._work.start
        while offset < self._work.end:
            units = self._units_at(offset, units_read)
            cuts = _cuts(units, self._log, MAPPED_SPAN_BYTES if self._is_local else SPAN_BYTES)
            for first, last in itertools.pairwise(cuts):
                for begin in range(first, last, most_records):
                    yield self._span(units.part(begin, min(begin + most_records, last)), offset + begin)
            if not len(units):
                return
            offset += len(units)

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        self._pieces.close()
        self._units.close()

    def _units_at(self, offset: int, most: int) -> Units:
        """Return the next units whose records are in closed files."""
        position = offset * UNIT_BYTES
        within = self._units.file_at(position)
        if within is None:
            return Units(np.empty(0, np.int64), np.empty(0, np.int64))
        count = min(self._work.end - offset, (within[1] - position) // UNIT_BYTES, most)
        stored = np.frombuffer(self._units.read(position, count * UNIT_BYTES), _UNIT)
        units = Units(stored["position"].astype(np.int64), stored["size"].astype(np.int64))
        good = (units.sizes > 0) & (units.sizes < FILLER_SIZE)
        good &= units.positions + units.sizes <= self.sealed_end
        good &= units.positions >= (self._log.starts[0] if self._log.starts else 0)
        return units if good.all() else units.part(0, int(np.argmin(good)))

    def _span(self, units: Units, first: int) -> SealedSpan:
        buffer, starts = self._records(units)
        try:
            span = SealedSpan(buffer, starts, list(by_hosts(buffer, starts)), first, first + len(units))
            self._check(span, units)
        except (RecordError, ValueError, IndexError) as error:
            raise self._other(first, str(error)) from error
        return span

    def _records(self, units: Units) -> tuple[memoryview, Integers]:
        """Return the buffer of the records, and where each record begins.

        If many records are neighbours, they are copied without the bytes between them, into a buffer that the next
        records reuse. Records in one row can be read by column in place.
        """
        ends = units.positions + units.sizes
        cuts = np.flatnonzero(units.positions[1:] != ends[:-1])
        begin, end = int(units.positions[0]), int(ends[-1])
        if len(cuts) * LEAST_NEIGHBOURS > len(units) or not (len(cuts) or self._is_local):
            return memoryview(self._log.read(begin, end - begin)).cast("B"), units.positions - begin
        whole = None if self._is_local else memoryview(self._log.read(begin, end - begin)).cast("B")
        room = self._room_for(int(units.sizes.sum()))
        firsts, lasts = [0, *(cuts + 1).tolist()], [*cuts.tolist(), len(units) - 1]
        at = 0
        for first, last in zip(units.positions[firsts].tolist(), ends[lasts].tolist(), strict=True):
            piece = room[at : at + last - first]
            if whole is None:
                self._pieces.read_into(first, piece)
            else:
                piece[:] = whole[first - begin : last - begin]
            at += len(piece)
        return room, np.cumsum(units.sizes) - units.sizes

    def _room_for(self, size: int) -> memoryview:
        if size > len(self._room):
            self._room = bytearray(size)
        return memoryview(self._room)[:size]

    def _check(self, span: SealedSpan, units: Units) -> None:
        """Check that each record is the one that the queue names.

        :raises SparkSourceError: a record is another one. ``RecordError`` and others: the bytes are no record.
        """
        queue = self._work.queue
        for places, records in span.groups:
            sizes, positions = units.sizes, units.positions
            if places is not None:
                sizes, positions = sizes[places], positions[places]
            offsets = np.arange(span.first, span.next_offset) if places is None else span.first + places
            for field, expected in (
                ("total_size", sizes),
                ("commit_log_offset", positions),
                ("queue_offset", offsets),
                ("queue_id", queue.queue_id),
            ):
                other = records.integers(field) != expected
                if other.any():
                    place = int(np.argmax(other))
                    raise self._other(int(offsets[place]), f"its {field} is {records.integers(field)[place]}")
            if not records.all_of_topic(queue.topic.encode()):
                raise self._other(span.first, "some are of another topic")

    def _other(self, offset: int, reason: str) -> SparkSourceError:
        return SparkSourceError(
            f"queue {queue_text(self._work.queue)}: the files of storePath have another record for offset {offset} or "
            f"those after it: {reason}. Without storePath the broker is asked for it"
        )


def _cuts(units: Units, files: Segments, span_bytes: int) -> list[int]:
    """Return the numbers of the units at which a new span begins, and the number of units at the end.

    A new span begins in another file, too far from the first record, or after enough bytes.
    """
    if not len(units):
        return []
    positions = units.positions
    read_bytes = np.cumsum(units.sizes)
    file_numbers = np.searchsorted(np.array(files.starts), positions, "right")
    is_new = np.diff(file_numbers) != 0
    is_new |= np.diff(positions) <= 0  # never in a store that is as it should be
    is_new |= np.diff(positions) > span_bytes
    is_new |= np.diff(read_bytes // SPAN_BYTES) > 0
    cuts = [0]
    for end in [*(np.flatnonzero(is_new) + 1).tolist(), len(units)]:
        while positions[end - 1] - positions[cuts[-1]] > span_bytes:
            cuts.append(int(np.searchsorted(positions[:end], positions[cuts[-1]] + span_bytes, "right")))
        cuts.append(end)
    return cuts


def _filesystem(store: str) -> tuple[pafs.FileSystem, str]:
    if "://" not in store:
        return pafs.LocalFileSystem(use_mmap=True), store.rstrip("/")
    try:
        filesystem, path = pafs.FileSystem.from_uri(store)
    except pa.ArrowInvalid as error:
        raise OptionRefused(f"storePath is {store!r}: {error}") from error
    if isinstance(filesystem, pafs.LocalFileSystem):
        filesystem = pafs.LocalFileSystem(use_mmap=True)
    return filesystem, path.rstrip("/")
