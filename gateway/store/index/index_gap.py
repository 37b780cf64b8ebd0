"""The part of the log that a lost index file knew: found when the store opens, filled again afterwards.

The list ``gateway-index`` has one name a line, followed by the word ``lost`` while the file is being made again. If the
list is missing or unreadable, nothing is known and nothing is lost. A file is lost if the list has it, it does not
exist, and a later file does; files missing at the end are simply built again. The new files take the names of the lost
ones, which stay marked as lost until they are whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths, is_index_name
from gateway.store.disk.small_files import read_file, replace_file
from gateway.store.index.index_file import IndexFile


class IndexGap:
    """The part of the log that has to be read again, and how far the work has got.

    - ``lost``: the names of the missing files.
    - ``behind``: the file after them.
    - ``made``: the files made instead.
    - ``next_offset`` … ``last_offset``: the records that still have to be examined.
    """

    def __init__(self, lost: Sequence[str], before: IndexFile | None, behind: IndexFile, log_min: int) -> None:
        self.lost = lost
        self.behind = behind
        self.made: list[IndexFile] = []
        self._before = before
        # The first and last message may have some of their keys in the neighbouring files.
        self.next_offset = max(before.end_offset if before is not None else 0, log_min)
        self.last_offset = behind.begin_offset

    def may_know(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether messages of the gap may have been stored within [begin_ms, end_ms]."""
        gap_begin_ms = self._before.end_ms if self._before is not None else 0
        return gap_begin_ms <= end_ms and begin_ms <= self.behind.begin_ms

    def is_known(self, key_hash: int, offset: int, lock: AbstractContextManager[object]) -> bool:
        """Return whether a neighbouring file already has an entry."""
        neighbour = self.behind
        if offset != self.last_offset:
            if self._before is None or offset != self._before.end_offset:
                return False
            neighbour = self._before
        return any(found is not None and found[0] == offset for found in neighbour.find(key_hash, lock))

    @property
    def is_unsaved(self) -> bool:
        """True if a part of the new files is only in memory."""
        return any(file.dirty for file in self.made)


def find_gaps(names: Mapping[str, bool], present: Sequence[IndexFile], log_min: int) -> list[IndexGap]:
    """Return the gaps, oldest first.

    :param names: see ``load_index_names``; files made again after the last of them count as well.
    """
    used = {file.path.name: file for file in present}
    missing = [name for name in names if name not in used]
    gaps = []

    def neighbours(name: str) -> tuple[IndexFile | None, IndexFile | None]:
        before = [file for other, file in used.items() if other < name]
        behind = [file for other, file in used.items() if other > name]
        return (before[-1] if before else None), (behind[0] if behind else None)

    for (before, behind), lost in groupby(missing, key=neighbours):
        if behind is not None and behind.begin_offset >= log_min:
            gaps.append(IndexGap(list(lost), before, behind, log_min))
    return gaps


MAX_BYTES = 1 << 20
"""The most bytes that are read of the file: 40,000 names."""
_LOST = "lost"


def save_index_names(files: FileLayer, paths: StorePaths, names: Mapping[str, bool]) -> None:
    """Replace the list durably; blocks.

    :param names: for each name, whether the file is whole.
    """
    text = "".join(f"{name}\n" if whole else f"{name} {_LOST}\n" for name, whole in sorted(names.items()))
    replace_file(files, paths.index_names, text.encode())


def load_index_names(files: FileLayer, paths: StorePaths) -> dict[str, bool]:
    """Return the names of the last ``save_index_names``, oldest first, each with whether the file was whole."""
    if not files.exists(paths.index_names):
        return {}
    text = read_file(files, paths.index_names, MAX_BYTES).decode("ascii", "replace")
    fields = [line.split(" ") for line in text.splitlines()]
    return {name: not rest for name, *rest in sorted(fields) if is_index_name(name)}
