"""One reading of a range of the commit log, which checks every record and collects the consume queue units.

A walk reads a megabyte at a time with positioned reads: its memory does not grow with the log, and a bad sector is an
error with a name. ``UnitCollector`` takes the records that are plainly right, ``LogScan`` examines the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.log.log_scan import LogScan
from wire.disk.unit_collector import UnitCollector
from wire.errors import RecordError

CHUNK_BYTES = 1024 * 1024
MAX_COLLECTED_UNITS = 4_000_000
"""The most units of one walk, 80 MB; a further walk collects the rest, after the first units were applied."""

Told = Callable[[int], None]
"""A function that is called with the log offset that the walk has reached."""


class LogWalk:
    """A walk over a range of the log; call ``run`` once.

    Afterwards ``end`` is the offset where the walk stopped, and ``problem`` the reason as in ``LogScan``. The units of
    all messages below ``collected_end`` are in ``collector``, which also says how closely records are checked.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        start: int,
        limit: int | None,
        collector: UnitCollector,
        *,
        max_units: int = MAX_COLLECTED_UNITS,
    ) -> None:
        self._files = files
        self._max_units = max_units
        self.collector = collector
        self.start = self.end = self.collected_end = start
        self.limit = files.end_offset if limit is None else limit
        self.problem: str | None = None

    def run(self, told: Told | None = None, *, stop_when_full: bool = False) -> None:
        """Walk to the limit, or to the offset where no intact record starts.

        :param told: called with the offset reached, after each chunk.
        :param stop_when_full: True to stop when no more units may be collected, instead of checking the rest.
        """
        collector = self.collector
        while self.end < self.limit and (file := self._files.find(self.end)) is not None:
            if collector.collecting and collector.units >= self._max_units:
                collector.stop_collecting()
                if stop_when_full:
                    break
            if not (self._take(file) or self._look_closer()):
                break
            if collector.collecting:
                self.collected_end = self.end
            if told is not None:
                told(self.end)
        if collector.collecting:
            self.collected_end = self.end

    def _take(self, file: MappedFile) -> bool:
        position = self.end - file.start_offset
        data = file.read(position, min(CHUNK_BYTES, file.size - position, self.limit - self.end))
        taken = self.collector.take(data, self.end)
        self.end += taken
        return taken > 0

    def _look_closer(self) -> bool:
        """Take one record that is large or odd, or a filler; return False if there is neither."""
        before, collector = self.end, self.collector
        scan = LogScan(
            self._files,
            before,
            self.limit,
            check_crc=collector.check_crc,
            unsynced_from=collector.unsynced_from,
        )
        message = next(iter(scan), None)
        if message is not None:
            try:
                collector.add(message)
            except RecordError as error:
                self.end, self.problem = message.commit_log_offset, str(error)
                return False
        self.end, self.problem = scan.end, scan.problem
        return message is not None
