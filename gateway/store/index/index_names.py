"""The list of the index files' names, which shows that a file has been lost.

A lost older file leaves no other trace: the remaining files still answer, only with fewer messages. The list has one
name a line, followed by the word ``lost`` while the file is being made again. If the list is missing or unreadable,
nothing is known and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths, is_index_name

MAX_BYTES = 1 << 20
"""The most bytes that are read of the file: 40,000 names."""
_LOST = "lost"


def save_index_names(files: FileLayer, paths: StorePaths, names: Mapping[str, bool]) -> None:
    """Replace the list durably; blocks.

    :param names: for each name, whether the file is whole.
    """
    text = "".join(f"{name}\n" if whole else f"{name} {_LOST}\n" for name, whole in sorted(names.items()))
    temporary = paths.index_names.with_suffix(".new")
    files.unlink(temporary)
    fd = files.open(temporary, create=True)
    try:
        files.pwrite(fd, text.encode(), 0)
        files.fdatasync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, paths.index_names)
    files.fsync_directory(paths.root)


def load_index_names(files: FileLayer, paths: StorePaths) -> dict[str, bool]:
    """Return the names of the last ``save_index_names``, oldest first, each with whether the file was whole."""
    if not files.exists(paths.index_names):
        return {}
    fd = files.open(paths.index_names)
    try:
        text = files.pread(fd, min(files.size(fd), MAX_BYTES), 0).decode("ascii", "replace")
    finally:
        files.close(fd)
    fields = [line.split(" ") for line in text.splitlines()]
    return {name: not rest for name, *rest in sorted(fields) if is_index_name(name)}
