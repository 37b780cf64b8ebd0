"""Files of the commit log that are not what they should be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.errors import ForeignFile
from gateway.tests.store.small_store import (
    LOG_FILE_BYTES,
    SMALL,
    bodies,
    log_file,
    opened,
    put,
    remove_first,
    small_store,
)


def _queue(directory: Path, sizes: dict[int, int], file_size: int = 100) -> MappedFileQueue:
    for start, size in sizes.items():
        (directory / f"{start:020d}").write_bytes(bytes(size))
    return MappedFileQueue(FileLayer(), directory, file_size)


def test_files_are_found_in_order_with_the_place_each_covers(tmp_path: Path) -> None:
    files = _queue(tmp_path, {200: 100, 100: 100})
    files.load()
    assert (files.min_offset, files.end_offset) == (100, 300)
    assert [files.find(offset) is not None for offset in (99, 100, 299, 300, -1)] == [False, True, True, False, False]
    assert files.at(300).start_offset == 300
    assert not (tmp_path / f"{300:020d}").exists(), "made at its first write"


def test_an_empty_directory_has_no_files(tmp_path: Path) -> None:
    files = _queue(tmp_path, {})
    files.load()
    assert (files.min_offset, files.end_offset, files.find(0)) == (0, 0, None)


def test_a_gap_names_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ForeignFile, match=rf"{100:020d} is missing: .* restore it from a copy"):
        _queue(tmp_path, {0: 100, 200: 100}).load()


@pytest.mark.parametrize("size", [1, 99, 101, 200])
def test_a_wrong_size_among_right_ones_names_file_and_size(tmp_path: Path, size: int) -> None:
    with pytest.raises(ForeignFile, match=rf"{100:020d} has {size} bytes, a commit log file here has 100"):
        _queue(tmp_path, {0: 100, 100: size, 200: 100}).load()


def test_one_other_uniform_size_is_accepted(tmp_path: Path) -> None:
    files = _queue(tmp_path, {0: 100, 100: 100}, file_size=1000)
    files.load()
    assert files.file_size == 100
    assert "their size is used" in files.remarks[0]


def test_another_size_at_offsets_that_do_not_fit_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignFile):
        _queue(tmp_path, {50: 100, 150: 100}, file_size=1000).load()


def test_a_last_file_without_bytes_was_never_used(tmp_path: Path) -> None:
    files = _queue(tmp_path, {0: 100, 100: 0})
    files.load()
    assert files.end_offset == 100
    assert not (tmp_path / f"{100:020d}").exists()


def test_a_file_without_bytes_in_the_middle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignFile):
        _queue(tmp_path, {0: 100, 100: 0, 200: 100}).load()


def test_files_without_any_bytes_are_refused_with_their_name(tmp_path: Path) -> None:
    with pytest.raises(ForeignFile, match=rf"{0:020d} has 0 bytes, a commit log file here has 100"):
        _queue(tmp_path, {0: 0, 100: 0}).load()


def test_foreign_names_are_left_alone_and_reported(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"mine")
    files = _queue(tmp_path, {0: 100})
    files.load()
    assert "notes.txt is not a commit log file and was left alone" in files.remarks[0]
    assert (tmp_path / "notes.txt").read_bytes() == b"mine"


def test_a_reader_does_not_make_a_deleted_file_again(tmp_path: Path) -> None:
    files = _queue(tmp_path, {0: 100, 100: 100})
    files.load()
    held = files.find(0)
    assert held is not None
    remove_first(files)
    assert held.read(0, 10) == b""
    assert not (tmp_path / f"{0:020d}").exists()
    assert files.min_offset == 100


def test_a_reader_that_has_a_file_outlives_its_deletion(tmp_path: Path) -> None:
    files = _queue(tmp_path, {0: 100, 100: 100})
    files.load()
    held = files.find(0)
    assert held is not None
    held.open()
    remove_first(files)
    assert held.read(0, 10) == bytes(10)


def test_a_store_with_another_uniform_file_size_goes_on_with_it(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=60))
    for number in range(10):
        put(store, b"%d" % number * 1000)
    store.close()
    store = small_store(tmp_path)
    report = store.open()
    assert len([remark for remark in report.remarks if "their size is used" in remark]) == 2
    assert put(store, b"next" * 900).queue_offset == 10
    assert put(store, b"x" * 4096).commit_log_offset == -1, "too large for these files"
    assert len(bodies(store)) == 11
    assert {path.stat().st_size for path in (tmp_path / "commitlog").iterdir()} == {4096}
    assert {path.stat().st_size for path in (tmp_path / "consumequeue" / "T" / "0").iterdir()} == {60}


def test_a_store_with_a_cut_off_log_file_refuses_to_start(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for _ in range(4):
        put(store, b"x" * 4000)
    store.close()
    path = log_file(tmp_path, LOG_FILE_BYTES)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ForeignFile, match="has 5000 bytes"):
        small_store(tmp_path).open()
    assert path.stat().st_size == 5000
