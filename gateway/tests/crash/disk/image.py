"""The states in which a crash may leave the disk, made from a log of changes.

The model is that of POSIX, harsher than most file systems:

- What ``fdatasync`` returned for is there: bytes and size. Of what a file got since, each sector of 512 bytes has the
  content of any moment since then; mostly whole pages of 4 KiB move together. Sizes change in order, and what was
  written behind a cut that did not reach the disk is not there either.
- Names made, removed or changed since the directory's last sync may be there or not, each for itself, but in order
  for one name. A rename is one change; that of a directory is there when anything that came later below either of its
  names was synced, as in a journal. What lies in a directory whose own name is lost is lost.
- The kill of a process loses nothing that the system was given.
- After a failed ``fdatasync`` nothing of that file is there for sure any more: the system may call lost pages clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from gateway.tests.crash.disk.recording import (
    SECTOR_BYTES,
    Change,
    File,
    Image,
    Kind,
    move_below,
    overwrite,
    resize,
)

PAGE_BYTES = 4096
PAGE_SECTORS = PAGE_BYTES // SECTOR_BYTES
NO_LIMIT = 1 << 62


class Crash(Enum):
    """The ways to lose; all but the last are one image each."""

    KILL = "kill"
    """Of the process: everything arrived."""
    NOTHING = "nothing"
    """Only what was synced arrived."""
    NAMES = "names"
    """The names arrived, of the files only what was synced."""
    BYTES = "bytes"
    """The files arrived, of the names only what was synced."""
    SOME = "some"
    """Drawn from a seed."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The part of a file's changes since its last sync that arrived.

    :param sizes: how many changes of its size.
    :param moments: for each sector, up to which change its content arrived.
    """

    sizes: int = 0
    moments: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the images of a moment.

    :param names: the positions of name changes that arrived.
    :param fates: of files with changes on their way; those not listed arrived as they were.
    """

    names: frozenset[int]
    fates: Mapping[int, Fate]


NONE_ARRIVED = Fate()


class _Unsynced:
    """A file's changes since its last sync. A plain class: it grows change by change."""

    __slots__ = ("arrived", "changes", "grown", "is_doomed", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_doomed = False
        self.changes: list[Change] = []
        self.grown: list[bool] = []
        self.arrived: File | None = None

    def add(self, change: Change) -> None:
        end = change.offset + len(change.data) if change.kind is Kind.WRITE else change.offset
        self.grown.append(change.kind is Kind.TRUNCATE or end > self.size)
        self.size = max(self.size, end) if change.kind is Kind.WRITE else end
        self.changes.append(change)
        self.arrived = None


class Moment:
    """The certain state of the disk at a moment of a log, and the changes on their way; moves on change by change.

    :param image: what was there before the log, all of it for sure.
    """

    def __init__(self, image: Image) -> None:
        self._durable = {file.inode: file for file in image.files.values()}
        self._names = {path: file.inode for path, file in image.files.items()}
        self._directories = dict(image.directories)
        self._run = image.run
        self._unsynced: dict[int, _Unsynced] = {}
        self._name_changes: list[Change] = []

    # --- moving on -----------------------------------------------------------------------------------------------

    def pass_over(self, change: Change) -> None:
        """The change was made."""
        if change.kind in (Kind.WRITE, Kind.TRUNCATE):
            self._add(change)
        elif change.kind is Kind.SYNC:
            unsynced = self._unsynced.get(change.inode)
            if unsynced is not None and not unsynced.is_doomed:
                self._durable[change.inode] = self._whole(change.inode, self._unsynced.pop(change.inode))
        elif change.kind is Kind.FAILED_SYNC:
            unsynced = self._unsynced.setdefault(change.inode, _Unsynced(len(self._durable[change.inode].content)))
            unsynced.is_doomed = True
        elif change.kind is Kind.SYNC_DIRECTORY:
            self._sync_names(change.path)
        else:
            if change.kind is Kind.MAKE:
                self._durable[change.inode] = File(b"", change.at_ms, change.inode)
            self._name_changes.append(change)

    def _add(self, change: Change) -> None:
        unsynced = self._unsynced.get(change.inode)
        if unsynced is None:
            unsynced = self._unsynced[change.inode] = _Unsynced(len(self._durable[change.inode].content))
        unsynced.add(change)

    def _sync_names(self, directory: str) -> None:
        waiting, self._name_changes = self._name_changes, []
        moves = [number for number, change in enumerate(waiting) if _moves(change, directory)]
        moved_until = moves[-1] if moves else -1
        for number, change in enumerate(waiting):
            if number <= moved_until or _parent(change.path) == directory:
                _rename(self._names, self._directories, change)
                if change.kind is Kind.RENAME and change.inode < 0:
                    self._name_changes = [_moved(kept, change) for kept in self._name_changes]
                if change.kind is Kind.REMOVE_DIRECTORY:
                    below = f"{change.path}/"
                    self._name_changes = [kept for kept in self._name_changes if not kept.path.startswith(below)]
            else:
                self._name_changes.append(change)

    # --- choosing ------------------------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Return whether no change is on its way."""
        return not self._unsynced and not self._name_changes

    def choice(self, crash: Crash, random: Random) -> Choice:
        """Return which changes arrive."""
        all_names = frozenset(range(len(self._name_changes)))
        lost = dict.fromkeys(self._unsynced, NONE_ARRIVED)
        if crash is Crash.KILL:
            return Choice(all_names, {})
        if crash is Crash.NOTHING:
            return Choice(frozenset(), lost)
        if crash is Crash.NAMES:
            return Choice(all_names, lost)
        if crash is Crash.BYTES:
            return Choice(frozenset(), {})
        return Choice(self._some_names(random), self._some_bytes(random))

    def _some_names(self, random: Random) -> frozenset[int]:
        count = len(self._name_changes)
        if random.random() < 0.5:  # as a journal: in order
            return frozenset(range(random.randint(0, count)))
        return frozenset(position for position in range(count) if random.random() < 0.5)

    def _some_bytes(self, random: Random) -> dict[int, Fate]:
        fates = {}
        for inode, unsynced in self._unsynced.items():
            dice = random.random()
            if dice < 0.3:
                fates[inode] = NONE_ARRIVED
            elif dice < 0.7:
                fates[inode] = _torn(unsynced, random)
        return fates

    def lighter(self, choice: Choice) -> Iterator[Choice]:
        """The choices in which one thing more arrived."""
        for position in range(len(self._name_changes)):
            if position not in choice.names:
                yield replace(choice, names=choice.names | {position})
        for inode in choice.fates:
            yield replace(choice, fates={kept: fate for kept, fate in choice.fates.items() if kept != inode})

    # --- making --------------------------------------------------------------------------------------------------

    def image(self, choice: Choice) -> Image:
        """The disk that a choice leaves."""
        names, directories = self._names, self._directories
        if self._name_changes:
            names, directories = dict(names), dict(directories)
            for _, change in self._arrived_names(choice.names):
                _rename(names, directories, change)
        directories = _reachable(directories)
        files = {path: self._file(inode, choice) for path, inode in names.items() if _parent(path) in directories}
        is_whole = not choice.fates and len(choice.names) == len(self._name_changes)
        return Image(files, directories, self._run if is_whole else self._run + 1)

    def _arrived_names(self, chosen: frozenset[int]) -> Iterator[tuple[int, Change]]:
        """The chosen name changes, without those that come after one of the same name that did not arrive."""
        missing: set[str] = set()
        for position, change in enumerate(self._name_changes):
            touched = {change.path, change.target or change.path}
            if position in chosen and not any(_is_below(path, name) for path in touched for name in missing):
                yield position, change
            else:
                missing |= touched

    def _file(self, inode: int, choice: Choice) -> File:
        unsynced = self._unsynced.get(inode)
        if unsynced is None:
            return self._durable[inode]
        fate = choice.fates.get(inode)
        if fate is None:
            return self._whole(inode, unsynced)
        durable = self._durable[inode]
        return durable if fate is NONE_ARRIVED else replace(durable, content=_content(durable.content, unsynced, fate))

    def _whole(self, inode: int, unsynced: _Unsynced) -> File:
        if not unsynced.changes:  # a sync failed that had nothing to do
            return self._durable[inode]
        if unsynced.arrived is None:
            content = bytearray(self._durable[inode].content)
            for change in unsynced.changes:
                if change.kind is Kind.TRUNCATE:
                    resize(content, change.offset)
                else:
                    overwrite(content, change.offset, change.data)
            unsynced.arrived = File(bytes(content), unsynced.changes[-1].at_ms, inode)
        return unsynced.arrived

    # --- describing ----------------------------------------------------------------------------------------------

    def losses(self, choice: Choice) -> list[str]:
        """Return what did not arrive, a line each."""
        arrived = {position for position, _ in self._arrived_names(choice.names)}
        lines = [str(change) for position, change in enumerate(self._name_changes) if position not in arrived]
        for inode, fate in choice.fates.items():
            unsynced = self._unsynced.get(inode)
            if unsynced is not None:
                lines += _lost_bytes(unsynced, fate)
        return lines


def _torn(unsynced: _Unsynced, random: Random) -> Fate:
    count = len(unsynced.changes)
    moments: dict[int, int] = {}
    for sectors in _pages(unsynced.changes):
        if random.random() < 0.6:
            moments.update(dict.fromkeys(sectors, random.choice((0, count, random.randint(0, count)))))
        else:
            moments.update({sector: random.randint(0, count) for sector in sectors})
    return Fate(random.randint(0, sum(unsynced.grown)), moments)


def _pages(changes: Iterable[Change]) -> Iterable[list[int]]:
    """The sectors written to, page by page."""
    touched: set[int] = set()
    for change in changes:
        if change.data:
            last = (change.offset + len(change.data) - 1) // SECTOR_BYTES
            touched.update(range(change.offset // SECTOR_BYTES, last + 1))
    pages: dict[int, list[int]] = {}
    for sector in sorted(touched):
        pages.setdefault(sector // PAGE_SECTORS, []).append(sector)
    return pages.values()


def _content(durable: bytes, unsynced: _Unsynced, fate: Fate) -> bytes:
    content = bytearray(durable)
    sizes = fate.sizes
    hidden_from = NO_LIMIT
    for number, (change, grown) in enumerate(zip(unsynced.changes, unsynced.grown, strict=True), 1):
        resized = grown and sizes > 0
        sizes -= resized
        if change.kind is Kind.TRUNCATE:
            if resized:
                resize(content, change.offset)
            else:
                hidden_from = min(hidden_from, change.offset)
            continue
        end = change.offset + len(change.data)
        if resized and end > len(content):
            resize(content, end)
        for sector in range(change.offset // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1):
            if number <= fate.moments.get(sector, 0):
                first = max(change.offset, sector * SECTOR_BYTES)
                stop = min(end, (sector + 1) * SECTOR_BYTES, hidden_from, len(content))
                if first < stop:
                    content[first:stop] = change.data[first - change.offset : stop - change.offset]
    return bytes(content)


def _lost_bytes(unsynced: _Unsynced, fate: Fate) -> list[str]:
    lines = []
    sizes = fate.sizes
    for number, (change, grown) in enumerate(zip(unsynced.changes, unsynced.grown, strict=True), 1):
        if grown:
            sizes -= 1
        if change.kind is Kind.TRUNCATE:
            if sizes < 0:
                lines.append(str(change))
            continue
        last = (change.offset + len(change.data) - 1) // SECTOR_BYTES
        sectors = range(change.offset // SECTOR_BYTES, last + 1)
        lost = [sector for sector in sectors if number > fate.moments.get(sector, 0)]
        if len(lost) == len(sectors):
            lines.append(str(change))
        elif lost:
            lines.append(f"{change}: its sectors {', '.join(map(str, lost))} of {sectors[0]} … {sectors[-1]}")
        elif grown and sizes < 0:
            lines.append(f"{change}: the new size")
    return lines


def _rename(names: dict[str, int], directories: dict[str, int], change: Change) -> None:
    """Apply a change of names."""
    kind, path = change.kind, change.path
    if _parent(path) in directories:
        directories[_parent(path)] = change.at_ms
    if kind is Kind.MAKE:
        names[path] = change.inode
    elif kind is Kind.LINK:
        names[change.target] = change.inode
    elif kind is Kind.UNLINK:
        names.pop(path, None)
    elif kind is Kind.RENAME and change.inode < 0:
        move_below(names, path, change.target)
        move_below(directories, path, change.target)
    elif kind is Kind.RENAME:
        names.pop(path, None)
        names[change.target] = change.inode
    elif kind is Kind.MAKE_DIRECTORY:
        directories[path] = change.at_ms
    else:
        directories.pop(path, None)
        below = f"{path}/"
        for name in [name for name in names if name.startswith(below)]:
            del names[name]


def _moves(change: Change, directory: str) -> bool:
    """Return whether a change renames a directory above something that has to be synced."""
    renames = change.kind is Kind.RENAME and change.inode < 0
    return renames and (_is_below(directory, change.path) or _is_below(directory, change.target))


def _moved(change: Change, rename: Change) -> Change:
    """A change that was made below a directory before that was renamed."""
    old, new = rename.path, rename.target
    path = new + change.path[len(old) :] if _is_below(change.path, old) else change.path
    target = new + change.target[len(old) :] if _is_below(change.target, old) else change.target
    return replace(change, path=path, target=target)


def _is_below(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}/")


def _reachable(directories: dict[str, int]) -> dict[str, int]:
    reachable: dict[str, int] = {}
    for path in sorted(directories):
        if path == "/" or _parent(path) in reachable:
            reachable[path] = directories[path]
    return reachable


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
