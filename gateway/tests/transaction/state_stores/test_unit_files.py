from __future__ import annotations

from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.transaction.state_stores import unit_files
from gateway.transaction.state_stores.unit_files import UnitFiles

UNIT = 4


def made(root: Path, file_units: int = 3) -> UnitFiles:
    return UnitFiles(FileLayer(), root, root / "a" / "b", UNIT, file_units)


def read(files: UnitFiles, first: int, end: int) -> bytes:
    return b"".join(data for _, data in files.read(first, end))


def test_units_lie_in_files_named_after_their_first_byte(tmp_path: Path) -> None:
    files = made(tmp_path)
    files.write(2, b"aaaabbbbccccdddd")
    assert [path.name for path in sorted((tmp_path / "a" / "b").iterdir())] == [f"{0:020d}", f"{12:020d}"]
    assert read(files, 0, 7) == bytes(8) + b"aaaabbbbccccdddd" + bytes(4)
    assert [number for number, _ in files.read(1, 6)] == [1, 3]


def test_what_was_never_written_reads_as_zeros(tmp_path: Path) -> None:
    assert read(made(tmp_path), 5, 9) == bytes(16)
    assert not (tmp_path / "a").exists()


def test_bytes_inside_a_unit_can_be_replaced(tmp_path: Path) -> None:
    files = made(tmp_path)
    files.write(0, b"aaaabbbb")
    files.write_at(6, b"XY")
    files.sync()
    files.close()
    assert read(made(tmp_path), 0, 2) == b"aaaabbXY"


def test_only_whole_files_below_a_unit_go(tmp_path: Path) -> None:
    files = made(tmp_path)
    files.write(0, bytes(range(40)))
    files.remove(5)
    assert read(files, 0, 10) == bytes(12) + bytes(range(12, 40))
    files.remove()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_few_files_are_open_and_none_is_left_unsynced(tmp_path: Path) -> None:
    files = made(tmp_path, file_units=1)
    for number in range(2 * unit_files.MAX_OPEN):
        files.write(number, b"aaaa")
    assert len(files._open) == unit_files.MAX_OPEN
    files.sync()
    files.close()
    assert read(files, 0, 2 * unit_files.MAX_OPEN) == b"aaaa" * 2 * unit_files.MAX_OPEN
    files.close()
