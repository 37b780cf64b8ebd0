"""The narrow door to the disk for the tables' files: everything ``JsonFile`` does goes through a ``ConfigDisk``.

Tests put recording and failing disks here; ``RealConfigDisk`` is the operating system. Nothing here decides anything.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Protocol


class ConfigDisk(Protocol):
    """What a table's file asks of a disk. All errors are ``OSError``."""

    def exists(self, path: Path) -> bool:
        """Whether there is a file or directory."""

    def file_size(self, path: Path) -> int:
        """Bytes of a file."""

    def read(self, path: Path) -> bytes:
        """The whole content of a file."""

    def write(self, path: Path, content: bytes) -> None:
        """Make a file with this content, or replace that of an existing one; return when the bytes are on disk."""

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
        """See ``ConfigDisk``."""
        return path.exists()

    def file_size(self, path: Path) -> int:
        """See ``ConfigDisk``."""
        return path.stat().st_size

    def read(self, path: Path) -> bytes:
        """See ``ConfigDisk``."""
        return path.read_bytes()

    def write(self, path: Path, content: bytes) -> None:
        """See ``ConfigDisk``."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def link(self, source: Path, target: Path) -> None:
        """See ``ConfigDisk``."""
        os.link(source, target)

    def copy(self, source: Path, target: Path) -> None:
        """See ``ConfigDisk``."""
        shutil.copyfile(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """See ``ConfigDisk``."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """See ``ConfigDisk``."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """See ``ConfigDisk``."""
        path.mkdir(parents=True, exist_ok=True)

    def fsync_directory(self, path: Path) -> None:
        """See ``ConfigDisk``."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
