"""A file of the log: zeros lie where it goes on, and never where it has been."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gateway.store.disk.files import Buffer, FileLayer
from gateway.store.disk.mapped_file import PREPARED_BYTES, PREPARED_LEAST_BYTES, MappedFile

FILE_BYTES = 4 * PREPARED_BYTES


class Files(FileLayer):
    """Remembers where something was written in one piece, and fails when it is asked to."""

    def __init__(self) -> None:
        self.written: list[tuple[int, int]] = []
        self.failure: int | None = None

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        """Implement ``FileLayer``."""
        if self.failure is not None:
            raise OSError(self.failure, os.strerror(self.failure))
        self.written.append((offset, offset + len(data)))
        super().pwrite(fd, data, offset)


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def file(files: Files, tmp_path: Path) -> MappedFile:
    made = MappedFile(files, tmp_path / "00000000000000000000", 0, FILE_BYTES)
    made.open(create=True)
    return made


def test_the_next_bytes_find_their_place_prepared(files: Files, file: MappedFile) -> None:
    file.prepare(100)
    assert files.written == [(100, 100 + PREPARED_BYTES)]
    file.prepare(100 + PREPARED_BYTES - PREPARED_LEAST_BYTES)
    assert len(files.written) == 1, "there is enough"
    file.prepare(101 + PREPARED_BYTES - PREPARED_LEAST_BYTES)
    assert files.written[1] == (100 + PREPARED_BYTES, 101 + 2 * PREPARED_BYTES - PREPARED_LEAST_BYTES)


def test_bytes_in_a_prepared_place_stay(file: MappedFile) -> None:
    written = b""
    for number in range(200):
        data = b"%03d" % number * 1500
        file.write(len(written), [data])
        written += data
        file.prepare(len(written))
    assert len(written) > 2 * PREPARED_BYTES
    assert file.read(0, FILE_BYTES) == written + bytes(FILE_BYTES - len(written))


def test_a_file_is_prepared_to_its_end_and_no_further(files: Files, file: MappedFile) -> None:
    for _ in range(2):
        file.prepare(FILE_BYTES - 10)
        file.prepare(FILE_BYTES)
    assert files.written == [(FILE_BYTES - 10, FILE_BYTES)]
    assert file.path.stat().st_size == FILE_BYTES


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_place_that_cannot_be_prepared_for_lack_of_space_is_no_failure(
    files: Files, file: MappedFile, number: int
) -> None:
    files.failure = number
    file.prepare(0)
    files.failure = None
    file.write(0, [b"still room for this"])
    assert file.read(0, 19) == b"still room for this"


def test_a_bad_disk_is_a_failure(files: Files, file: MappedFile) -> None:
    files.failure = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        file.prepare(0)
