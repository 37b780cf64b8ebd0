"""One reading of a range of the commit log: judges every record and gathers the consume queue units meanwhile.

Reads a megabyte at a time with positioned reads: the memory taken does not grow with the log, and a bad sector is an
error with a name. ``UnitCollector`` takes what is plainly right, ``LogScan`` looks at the rest.
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
"""80 MB of units; what a walk finds beyond them is collected by a further one, after the first was applied."""

Told = Callable[[int], None]
"""Told where the walk is."""


class LogWalk:
    """``run`` once; afterwards ``end`` is where it stopped and ``problem`` why, as in ``LogScan``.

    ``collected_end``: below it all units are in ``collector``, which also says how closely records are looked at.
    """

    __slots__ = (
        "_files",
        "_max_units",
        "collected_end",
        "collector",
        "end",
        "limit",
        "problem",
        "start",
    )

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
        """Walk to the limit, or to where no intact record is any more.

        :param stop_when_full: end where no more units may be collected, instead of judging the rest.
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
        """Take one record that is large or odd, or a filler; False when none of these is here."""
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
