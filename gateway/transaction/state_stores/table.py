"""``transactionStateStore = table``: the state table and redo log of 3.1.x.

    statetable/<offset>     24 bytes for every half message, its state overwritten in place
    redolog/TRANSACTION_REDOLOG_TOPIC_XXXX/0/<offset>   20 bytes for every half message and every outcome
    tablemark               how far both go

The redo log is on disk before the mark says so. The table is not synced while the store is open. After a kill or a
power failure the table is thrown away and made again from the redo log, as 3.1.x does. Units of the redo log after the
mark are ignored, because the end of the commit log has the same facts. A unit's number in the table is the half
message's offset in the half queue.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.telemetry.logs import EventLog
from gateway.transaction.state_stores.changes import Changes, Known, Prepared, Settled
from gateway.transaction.state_stores.unit_files import UnitFiles, sync_names
from gateway.transaction.states import State
from wire.disk import redo_log, state_table
from wire.disk.state_table import TableMark
from wire.message.java_hash import java_string_hash

log = EventLog("transaction")

MARK_NAME = "tablemark"

MAX_PLACES = 10_000
"""The number of remembered places in the redo log, which let its oldest files be deleted.

Above this number every second place is forgotten.
"""
FILL_UNITS = 4_096
"""The number of units that are completed at once after they were made again."""

GAP_UNIT = state_table.build_unit(0, 0, 0, 0, state_table.SETTLED)
"""The unit of a half message whose record could not be read, and that nobody could ever settle."""

_ON_DISK = {
    State.COMMITTED: state_table.COMMITTED,
    State.ROLLED_BACK: state_table.ROLLED_BACK,
    State.DISCARDED: state_table.ROLLED_BACK,
    State.REPLACED: state_table.ROLLED_BACK,
    State.SETTLED: state_table.SETTLED,
}
_FROM_DISK = {
    state_table.COMMITTED: State.COMMITTED,
    state_table.ROLLED_BACK: State.ROLLED_BACK,
    state_table.SETTLED: State.SETTLED,
}


class TableStates:
    """The state table, redo log and mark of one store.

    :param directory: the folder ``transaction`` below the store's directory.
    :param file_units: how many units a file has, of the table and of the redo log.
    """

    def __init__(
        self,
        directory: Path,
        *,
        files: FileLayer | None = None,
        file_units: int = state_table.FILE_UNITS,
    ) -> None:
        self._files: FileLayer = FileLayer() if files is None else files
        self._directory = directory
        root = directory.parent
        self._mark_path = directory / MARK_NAME
        self._table = UnitFiles(self._files, root, directory / "statetable", state_table.UNIT_BYTES, file_units)
        redo = directory / "redolog" / redo_log.QUEUE_NAME / "0"
        self._redo = UnitFiles(self._files, root, redo, redo_log.UNIT_BYTES, file_units)
        self._mark_fd = -1
        self._mark = TableMark(0, 0, 0, 0, 0, 0)
        self._redo_places: deque[tuple[int, int]] = deque()
        self._incomplete: list[Prepared] | None = None

    keeps_settled = True  # units have no gaps

    # -- TransactionStates ----------------------------------------------------------------------------------

    def load(self, first: int, end: int, log_end: int) -> Known:
        """Implement ``TransactionStates.load``."""
        mark = self._read_mark()
        if mark is None or mark.position > log_end or mark.half_end > end:
            if mark is not None:
                log.error("state table does not fit the log; made again from it", mark=str(mark), log_end=log_end)
            self.begin(first, 0)
            return Known()
        self._mark = mark
        first = max(first, mark.settled_below)
        if not mark.is_whole:
            log.info("state table made again from its redo log", units=mark.redo_end - mark.redo_first)
            self._rebuild(first)
        self._write_mark(is_whole=False)
        self._redo_places.append((mark.half_first, mark.redo_first))
        return Known(mark.position, first, self._settled(first, mark.half_end))

    def found(self, prepared: Prepared) -> None:
        """Implement ``TransactionStates.found``, because the redo log lacks some facts of a unit."""
        if self._incomplete is not None:
            self._incomplete.append(prepared)
            if len(self._incomplete) >= FILL_UNITS:
                self._fill()

    def begin(self, first: int, position: int) -> None:
        """Implement ``TransactionStates.begin``."""
        self._table.remove()
        self._redo.remove()
        self._incomplete = None
        self._redo_places = deque([(first, 0)])
        self._mark = TableMark(position, 0, 0, first, first, first)
        self._write_mark(is_whole=False)

    def apply(self, changes: Changes) -> None:
        """Implement ``TransactionStates.apply``."""
        if changes.is_whole:
            self.begin(changes.first, 0)
        self._fill()
        mark = self._mark
        redo, half_end = self._redo_units(changes)
        if redo:
            self._redo.write(mark.redo_end, redo)
        if half_end - mark.half_end > len(changes.prepared):
            self._write_gaps(changes.prepared, mark.half_end, half_end)
        self._write_units(changes.prepared)
        for settled in changes.settled:
            self._settle(settled)
        self._redo.sync()
        half_first, redo_first = self._first_needed(changes.first)
        self._mark = replace(
            mark,
            position=changes.position,
            redo_first=redo_first,
            redo_end=mark.redo_end + len(redo) // redo_log.UNIT_BYTES,
            half_first=half_first,
            half_end=half_end,
            settled_below=max(changes.first, mark.settled_below),
        )
        if changes.prepared:
            self._redo_places.append((mark.half_end, mark.redo_end))
            if len(self._redo_places) > MAX_PLACES:
                self._redo_places = deque(islice(self._redo_places, 0, None, 2))
        self._write_mark(is_whole=False)
        self._redo.remove(redo_first)
        self._table.remove(self._mark.settled_below)

    def close(self) -> None:
        """Implement ``TransactionStates.close``."""
        if self._mark_fd >= 0:
            self._fill()
            self._table.sync()
            self._write_mark(is_whole=True)
            self._files.close(self._mark_fd)
            self._mark_fd = -1
        self._table.close()
        self._redo.close()

    # -- inside ---------------------------------------------------------------------------------------------

    def _redo_units(self, changes: Changes) -> tuple[bytearray, int]:
        """Return the redo units of changes, and the end of the half messages after the changes."""
        redo = bytearray()
        half_end = self._mark.half_end
        for offset, place, size, _, _ in changes.prepared:
            if offset != half_end:
                redo += redo_log.GAP * (offset - half_end)
            redo += redo_log.build_prepared(place, size)
            half_end = offset + 1
        redo += redo_log.GAP * (changes.half_end - half_end)
        for settled in changes.settled:
            redo += redo_log.build_settled(settled.record_place, settled.record_bytes, settled.place)
        return redo, max(half_end, changes.half_end)

    def _first_needed(self, first: int) -> tuple[int, int]:
        """Return where the redo log starts: a half message at or below ``first``, with its unit or an earlier one."""
        places = self._redo_places
        while len(places) > 1 and places[1][0] <= first:
            places.popleft()
        return places[0]

    def _write_gaps(self, prepared: Sequence[Prepared], begin: int, end: int) -> None:
        """Write units for the half messages from ``begin`` to ``end`` that ``prepared`` leaves out."""
        for offset in [*(half.offset for half in prepared), end]:
            if offset > begin:
                self._table.write(begin, GAP_UNIT * (offset - begin))
            begin = offset + 1

    def _write_units(self, prepared: Sequence[Prepared]) -> None:
        """Write units in as few writes as possible."""
        start = 0
        for index in range(1, len(prepared) + 1):
            if index == len(prepared) or prepared[index].offset != prepared[index - 1].offset + 1:
                self._table.write(prepared[start].offset, b"".join(map(_unit, prepared[start:index])))
                start = index

    def _fill(self) -> None:
        """Complete the units that were made again from the redo log."""
        if self._incomplete:
            self._write_units(self._incomplete)
            self._incomplete = []

    def _settle(self, settled: Settled) -> None:
        state = state_table.build_state(_ON_DISK[settled.state])
        self._table.write_at(state_table.state_position(settled.offset), state)

    def _settled(self, first: int, end: int) -> Iterator[tuple[int, State]]:
        for number, data in self._table.read(first, end):
            for index, unit in enumerate(state_table.UNIT.iter_unpack(data)):
                state = _FROM_DISK.get(unit[-1])
                if state is not None:
                    yield number + index, state

    def _rebuild(self, first: int) -> None:
        """Make the table from the redo log, for half messages from ``first`` on.

        Of a settled half message only the fact that it is settled comes back.
        """
        mark = self._mark
        self._table.remove()
        self._incomplete = []
        offset = mark.half_first
        places = array("q")
        for _, data in self._redo.read(mark.redo_first, mark.redo_end):
            redo = redo_log.parse_units(data)
            prepared = [unit for unit in redo if unit[2] == redo_log.PREPARED]
            wanted = prepared[max(first - offset, 0) :]
            self._table.write(max(offset, first), b"".join([_again(place, size) for place, size, _ in wanted]))
            for place, _, _ in wanted:
                places.append(max(place, places[-1] if places else 0))  # a gap gets the place before
            offset += len(prepared)
            for _, _, prepared_place in redo:
                index = bisect_left(places, prepared_place)
                if prepared_place != redo_log.PREPARED and index < len(places) and places[index] == prepared_place:
                    self._settle(Settled(first + index, prepared_place, State.SETTLED, 0, 0))

    # -- the mark -------------------------------------------------------------------------------------------

    def _read_mark(self) -> TableMark | None:
        if not self._files.exists(self._mark_path):
            return None
        self._open_mark()
        return TableMark.parse(self._files.pread(self._mark_fd, self._files.size(self._mark_fd), 0))

    def _open_mark(self) -> None:
        if self._mark_fd < 0:
            self._files.make_directory(self._directory)
            self._mark_fd = self._files.open(self._mark_path, create=True)

    def _write_mark(self, *, is_whole: bool) -> None:
        is_new = not self._files.exists(self._mark_path)
        self._open_mark()
        self._mark = replace(self._mark, is_whole=is_whole)
        self._files.pwrite(self._mark_fd, self._mark.build(), 0)
        self._files.fdatasync(self._mark_fd)
        if is_new:
            sync_names(self._files, self._directory.parent, self._directory)


def _unit(prepared: Prepared) -> bytes:
    _, place, size, stored_at_ms, group = prepared
    return state_table.build_unit(place, size, stored_at_ms, _group_hash(group))


@lru_cache(maxsize=1_024)
def _group_hash(group: str) -> int:
    return java_string_hash(group)


def _again(place: int, size: int) -> bytes:
    """Return the unit of a half message as far as the redo log knows it."""
    return GAP_UNIT if redo_log.is_gap(place, size) else state_table.build_unit(place, size, 0, 0)
