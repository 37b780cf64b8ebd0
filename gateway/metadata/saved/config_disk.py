"""The disk of the tables' files: everything that ``JsonFile`` does goes through a ``ConfigDisk``.

Tests use recording and failing disks; ``RealConfigDisk`` is the operating system. Nothing here decides anything.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Protocol


class ConfigDisk(Protocol):
    """The functions of a disk that a table's file uses. All errors are ``OSError``."""

    def exists(self, path: Path) -> bool:
        """Return whether the path is a file or directory."""

    def file_size(self, path: Path) -> int:
        """Return the size of a file in bytes."""

    def read(self, path: Path) -> bytes:
        """Return the whole content of a file."""

    def write(self, path: Path, content: bytes) -> None:
        """Make a file with this content, or replace an existing file's content; return when the bytes are on disk."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; some file systems cannot."""

    def copy(self, source: Path, target: Path) -> None:
        """Make a file with the content of another."""

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source``."""

    def unlink(self, path: Path) -> None:
        """Remove a file; a missing one is fine."""

    def make_directory(self, path: Path) -> None:
        """Make a directory and its parents; existing ones are fine."""

    def fsync_directory(self, path: Path) -> None:
        """Return when names made or removed in the directory are on disk."""


class RealConfigDisk:
    """The operating system's files."""

    def exists(self, path: Path) -> bool:
        """Implement ``ConfigDisk.exists``."""
        return path.exists()

    def file_size(self, path: Path) -> int:
        """Implement ``ConfigDisk.file_size``."""
        return path.stat().st_size

    def read(self, path: Path) -> bytes:
        """Implement ``ConfigDisk.read``."""
        return path.read_bytes()

    def write(self, path: Path, content: bytes) -> None:
        """Implement ``ConfigDisk.write``."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def link(self, source: Path, target: Path) -> None:
        """Implement ``ConfigDisk.link``."""
        os.link(source, target)

    def copy(self, source: Path, target: Path) -> None:
        """Implement ``ConfigDisk.copy``."""
        shutil.copyfile(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Implement ``ConfigDisk.rename``."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Implement ``ConfigDisk.unlink``."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Implement ``ConfigDisk.make_directory``."""
        path.mkdir(parents=True, exist_ok=True)

    def fsync_directory(self, path: Path) -> None:
        """Implement ``ConfigDisk.fsync_directory``."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
