"""The directories of a store, made so that a power failure cannot take them away again."""

from __future__ import annotations

from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths


def make_directories(files: FileLayer, paths: StorePaths) -> None:
    """Make missing directories; also make file names durable that a kill left unsynced.

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
