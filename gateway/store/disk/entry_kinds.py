"""The check that each fixed name of a store is a file or a directory, and the making of missing directories.

A directory in place of a file, the reverse, or a pipe would end a start somewhere in its middle or make the start hang.
The check runs once, before anything else is opened; a link counts as its target. The content of the files is checked by
their readers, and so are the files of the log, the queues and the index.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gateway.store.disk.files import EntryKind, FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.errors import ForeignFile

_FILES = (
    *("timerwheel", "config/timercheck"),
    *("checkpoint", "abort", "lock", "gateway-queues", "gateway-index", "gateway-deleted", "gateway-broker-name"),
    *("epochFileCheckpoint", "epochFileCheckpoint.bak"),
    *("gateway-cut", "gateway-copy", "gateway-role", "gateway-replicated"),
    *("transaction/checks", "transaction/state-store", "transaction/audit.jsonl"),
)
_DIRECTORIES = (
    "commitlog",
    "consumequeue",
    "consumequeue_ext",
    "index",
    "config",
    "transaction",
    "deleted",
    "recovered",
    "timerlog",
)
_TABLE_ENDINGS = (".json", ".json.bak")


class Misfit(msgspec.Struct, frozen=True):
    """A name that stands for the wrong kind of entry; ``what`` says for which kind."""

    path: Path
    what: str


def misfits(files: FileLayer, root: Path) -> list[Misfit]:
    """Return all names that stand for the wrong kind of entry; missing names are not included.

    :raises OSError: the operating system does not allow the check.
    """
    wanted = [(root / name, EntryKind.DIRECTORY) for name in _DIRECTORIES]
    wanted += [(root / name, EntryKind.FILE) for name in _FILES]
    config = root / "config"
    if files.kind(config) is EntryKind.DIRECTORY:
        names = [name for name in files.list(config) if name.endswith(_TABLE_ENDINGS)]
        wanted += [(config / name, EntryKind.FILE) for name in names]
    found = []
    for path, right in wanted:
        kind = files.kind(path)
        if kind is EntryKind.LOOP and files.kind(path.parent) is EntryKind.LOOP:
            continue  # the directory above is told of
        if kind not in (right, EntryKind.MISSING):
            found.append(Misfit(path, f"is a {kind}, a {right} belongs there"))
    return found


def refuse_misfits(files: FileLayer, root: Path) -> None:
    """Refuse a directory with misfits.

    :raises ForeignFile: there is a misfit; nothing was changed.
    :raises OSError: as ``misfits``.
    """
    for found in misfits(files, root):
        raise ForeignFile(
            found.path, found.what, f"move it away, or let 'rocketmq-gateway store repair {root} --apply' do that"
        )


def make_directories(files: FileLayer, paths: StorePaths) -> None:
    """Make missing directories, so that a power failure cannot take them away again.

    File names that a kill left unsynced become durable as well.

    :raises OSError: a directory cannot be made or synced.
    """
    wanted = (paths.root, paths.commit_log, paths.consume_queue, paths.index, paths.deleted)
    made = {parent for directory in wanted for parent in _missing(files, directory)}
    for directory in wanted:
        files.make_directory(directory)
    for directory in sorted({paths.commit_log, paths.root, *(directory.parent for directory in (*wanted, *made))}):
        try:
            files.fsync_directory(directory)
        except PermissionError:
            if directory in made or directory in wanted:
                raise  # otherwise an older directory above the store, which the broker may not read


def _missing(files: FileLayer, directory: Path) -> list[Path]:
    """Return the directory and its parents, as far as they do not exist."""
    missing = []
    while not files.exists(directory) and directory != directory.parent:
        missing.append(directory)
        directory = directory.parent
    return missing
