"""The files of the commit log in order: one after the other without a gap, all of one size."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.paths import offset_name, parse_offset_name
from gateway.store.disk.small_files import file_size
from gateway.store.errors import ForeignFile


class MappedFileQueue:
    """A growing list of ``MappedFile``; only the reactor's thread changes it, other threads may read it.

    The last files may be empty: made in advance, or left over from a write that was undone.

    :param root: the store directory, which errors name; None for the parent of ``directory``.
    :param what: the name of the files in error texts, and the setting of their size.
    """

    def __init__(
        self,
        files: FileLayer,
        directory: Path,
        file_size: int,
        root: Path | None = None,
        what: tuple[str, str] = ("commit log", "mappedFileSizeCommitLog"),
    ) -> None:
        self._files = files
        self._what = what
        self._repair = f"'rocketmq-gateway store repair {directory.parent if root is None else root}'"
        self.directory = directory
        self.file_size = file_size
        self.list: list[MappedFile] = []
        self.remarks: list[str] = []

    def load(self) -> None:
        """Find the existing files and check their names and sizes.

        If all files have one size that differs from the configured size, their size is used, and ``remarks`` says so.

        :raises ForeignFile: sizes differ, or a file is missing in between.
        """
        sizes = self._sizes()
        if not sizes:
            return
        self._choose_file_size(sizes)
        starts = sorted(sizes)
        for start, following in pairwise(starts):
            if following != start + self.file_size:
                raise ForeignFile(
                    self._path(start + self.file_size),
                    f"is missing: {offset_name(start)} is followed by {offset_name(following)}",
                    f"restore it from a copy; {self._repair} puts stand-ins in its place",
                )
        self.list = [self._file(start) for start in starts]

    def _sizes(self) -> dict[int, int]:
        sizes = {}
        for name in self._files.list(self.directory):
            start = parse_offset_name(name)
            if start is None:
                self.remarks.append(f"{self.directory / name} is not a {self._what[0]} file and was left alone")
                continue
            sizes[start] = file_size(self._files, self._path(start))
        if sizes and sizes[last := max(sizes)] == 0:
            # A crash came after the file was made and before it got its size: nothing was ever written to the file.
            self._files.unlink(self._path(last))
            del sizes[last]
        return sizes

    def _choose_file_size(self, sizes: dict[int, int]) -> None:
        configured = self.file_size
        common, times = Counter(sizes.values()).most_common(1)[0]
        if 0 < common != configured and times == len(sizes) and all(start % common == 0 for start in sizes):
            self.file_size = common
            self.remarks.append(
                f"{self._what[0]} files in {self.directory} have {common} bytes, not the configured {configured}; "
                "their size is used"
            )
        for start, size in sorted(sizes.items()):
            if size != self.file_size:
                raise ForeignFile(
                    self._path(start),
                    f"has {size} bytes, a {self._what[0]} file here has {self.file_size}",
                    f"restore it from a copy; {self._repair} gives it its size again with stand-ins for what is "
                    f"lost. When most files have this size, set {self._what[1]} to it",
                )

    @property
    def min_offset(self) -> int:
        """The first offset of the first file; 0 without files."""
        return self.list[0].start_offset if self.list else 0

    @property
    def end_offset(self) -> int:
        """The offset after the last file; 0 without files."""
        return self.list[-1].start_offset + self.file_size if self.list else 0

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that covers an offset; None if there is none."""
        files = self.list
        if not files:
            return None
        index = (offset - files[0].start_offset) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def at(self, offset: int) -> MappedFile:
        """Return the file that covers ``offset``; if there is none yet, plan a file that its first write makes.

        :param offset: at most the end of the last file.
        """
        file = self.find(offset)
        if file is None:
            start = self.end_offset if self.list else offset // self.file_size * self.file_size
            assert start <= offset < start + self.file_size, "files are added one by one"
            file = self._file(start)
            self.list.append(file)
        return file

    def forget_last(self, file: MappedFile) -> None:
        """Take a planned file that could not be made off the list."""
        if self.list and self.list[-1] is file and not file.is_open:
            self.list = self.list[:-1]

    def take_first(self) -> MappedFile:
        """Take the oldest file off the list and return it for deletion; readers that have the file keep reading."""
        file, self.list = self.list[0], self.list[1:]
        return file

    def remove_after(self, offset: int) -> None:
        """Delete the files that start above ``offset``."""
        kept = [file for file in self.list if file.start_offset <= offset]
        for file in reversed(self.list[len(kept) :]):
            self._files.unlink(file.path)
            # Each removal is synced before the next: a crash must not bring back a file that follows a gap.
            self._files.fsync_directory(self.directory)
        self.list = kept

    def _path(self, start: int) -> Path:
        return self.directory / offset_name(start)

    def _file(self, start: int) -> MappedFile:
        return MappedFile(self._files, self._path(start), start, self.file_size)
