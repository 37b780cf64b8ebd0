"""Files that are read or written in one call, without a descriptor that somebody keeps. All functions block."""

from __future__ import annotations

from pathlib import Path

from gateway.store.disk.files import Buffer, FileLayer


def file_size(files: FileLayer, path: Path) -> int:
    """Return the number of bytes of a file, holes included."""
    fd = files.open(path)
    try:
        return files.size(fd)
    finally:
        files.close(fd)


def read_file(files: FileLayer, path: Path, count: int, position: int = 0) -> bytes:
    """Return up to ``count`` bytes of a file; fewer only at its end."""
    fd = files.open(path)
    try:
        return files.pread(fd, count, position)
    finally:
        files.close(fd)


def write_file(files: FileLayer, path: Path, content: Buffer) -> None:
    """Make a file with this content, or replace an existing file's content; return when the bytes are on disk."""
    fd = files.open(path, create=True)
    try:
        files.truncate(fd, 0)
        files.pwrite(fd, content, 0)
        files.fdatasync(fd)
    finally:
        files.close(fd)


def replace_file(files: FileLayer, target: Path, content: Buffer) -> None:
    """Replace a file as a whole by way of ``NAME.new``; the new content and its name are on disk at return."""
    temporary = target.with_name(f"{target.name}.new")
    files.unlink(temporary)
    fd = files.open(temporary, create=True)
    try:
        files.pwrite(fd, content, 0)
        files.fdatasync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, target)
    files.fsync_directory(target.parent)
