"""The disk of the tables' files: everything that ``JsonFile`` does goes through a ``ConfigDisk``.

Recording and failing disks of tests derive from it. Nothing here decides anything.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


class ConfigDisk:
    """The operations that a table's file needs, on the operating system's files. All errors are ``OSError``."""

    _mode = 0o666
    """The permissions of new files, without those that the process's mask takes away."""

    def exists(self, path: Path) -> bool:
        """Return whether the path is a file or directory."""
        return path.exists()

    def file_size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return path.stat().st_size

    def read(self, path: Path) -> bytes:
        """Return the whole content of a file."""
        return path.read_bytes()

    def write(self, path: Path, content: bytes) -> None:
        """Make a file with this content, or replace an existing file's content; return when the bytes are on disk."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, self._mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; some file systems cannot."""
        os.link(source, target)

    def copy(self, source: Path, target: Path) -> None:
        """Make a file with the content of another."""
        shutil.copyfile(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source``."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file; a missing one is fine."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory and its parents; existing ones are fine."""
        path.mkdir(parents=True, exist_ok=True)

    def fsync_directory(self, path: Path) -> None:
        """Return when names made or removed in the directory are on disk."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_anew(disk: ConfigDisk, path: Path, content: bytes) -> None:
    """Write a file that will replace another one; if that fails, no such file is left.

    After a failed sync the system may have forgotten bytes that a later sync takes for written, so a file whose write
    failed is not written again.

    :raises OSError: the disk refused it.
    """
    try:
        disk.write(path, content)
    except OSError:
        with suppress(OSError):
            disk.unlink(path)
        raise


def replace_file(disk: ConfigDisk, path: Path, content: bytes) -> None:
    """Replace a file as a whole; the new content and its name are on disk when the function returns.

    :raises OSError: the old content is there, or the new one, of which the name may not be on disk.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    write_anew(disk, temporary, content)
    disk.rename(temporary, path)
    disk.fsync_directory(path.parent)
