"""The model of what a crash leaves: as harsh as the manual pages allow, and no harsher."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tests.crash.disk.image import Crash, Moment
from gateway.tests.crash.disk.recording import SECTOR_BYTES, Fault, Image, RecordingFiles

START = Image({}, {"/": 0, "/d": 0})
FILE = Path("/d/file")
OTHER = Path("/d/other")


def disk() -> RecordingFiles:
    return RecordingFiles(START, lambda: 7)


def contents(image: Image) -> dict[str, bytes]:
    return {path: file.content for path, file in image.files.items()}


def left(files: RecordingFiles, crash: Crash, seed: int = 0) -> dict[str, bytes]:
    """Return what a crash at the end of a disk's log leaves."""
    moment = Moment(files.image)
    for change in files.changes:
        moment.pass_over(change)
    return contents(moment.image(moment.choice(crash, Random(seed))))


def all_left(files: RecordingFiles) -> list[dict[str, bytes]]:
    """Many of the images."""
    plain = [left(files, crash) for crash in (Crash.KILL, Crash.NOTHING, Crash.NAMES, Crash.BYTES)]
    return plain + [left(files, Crash.SOME, seed) for seed in range(200)]


def made(files: RecordingFiles, path: Path = FILE, content: bytes = b"") -> int:
    """A file of which everything is durable."""
    fd = files.open(path, create=True)
    files.pwrite(fd, content, 0)
    files.fdatasync(fd)
    files.fsync_directory(path.parent)
    return fd


def test_what_was_synced_is_there_after_every_crash() -> None:
    files = disk()
    made(files, content=b"abc")
    assert all(found == {"/d/file": b"abc"} for found in all_left(files))


def test_a_kill_loses_nothing() -> None:
    files = disk()
    files.pwrite(files.open(FILE, create=True), b"abc", 0)
    assert left(files, Crash.KILL) == {"/d/file": b"abc"}


def test_an_unsynced_name_may_be_lost_and_its_file_with_it() -> None:
    files = disk()
    fd = files.open(FILE, create=True)
    files.pwrite(fd, b"abc", 0)
    files.fdatasync(fd)
    found = all_left(files)
    assert {} in found
    assert {"/d/file": b"abc"} in found
    assert {"/d/file": b""} not in found


def test_an_unsynced_write_is_torn_between_sectors_and_never_within() -> None:
    files = disk()
    before, after = b"a" * 3 * SECTOR_BYTES, b"b" * 3 * SECTOR_BYTES
    fd = made(files, content=before)
    files.pwrite(fd, after, 0)
    found = {image["/d/file"] for image in all_left(files)}
    assert {before, after, before[:SECTOR_BYTES] + after[SECTOR_BYTES:]} <= found
    for content in found:
        for start in range(0, len(content), SECTOR_BYTES):
            assert len(set(content[start : start + SECTOR_BYTES])) == 1


def test_a_later_write_to_a_sector_never_comes_without_an_earlier_one() -> None:
    files = disk()
    fd = made(files, content=b"....")
    files.pwrite(fd, b"1", 0)
    files.pwrite(fd, b"2", 2)
    assert {image["/d/file"] for image in all_left(files)} == {b"....", b"1...", b"1.2."}


def test_two_writes_to_different_sectors_arrive_in_any_order() -> None:
    files = disk()
    fd = made(files, content=bytes(2 * SECTOR_BYTES))
    files.pwrite(fd, b"1", 0)
    files.pwrite(fd, b"2", SECTOR_BYTES)
    found = {(image["/d/file"][0], image["/d/file"][SECTOR_BYTES]) for image in all_left(files)}
    assert found == {(0, 0), (0, ord("2")), (ord("1"), 0), (ord("1"), ord("2"))}


def test_a_cut_and_regrown_file_shows_its_old_end_its_cut_or_zeros() -> None:
    files = disk()
    fd = made(files, content=b"abcd")
    files.truncate(fd, 2)
    files.truncate(fd, 4)
    assert {image["/d/file"] for image in all_left(files)} == {b"abcd", b"ab", b"ab\0\0"}


def test_what_was_written_behind_a_lost_cut_is_lost_too() -> None:
    files = disk()
    fd = made(files, content=b"abcd")
    files.truncate(fd, 0)
    files.pwrite(fd, b"xy", 0)
    found = {image["/d/file"] for image in all_left(files)}
    assert found == {b"abcd", b"", b"\0\0", b"xy"}


def test_a_rename_happens_as_a_whole_or_not_at_all() -> None:
    files = disk()
    made(files, content=b"old")
    made(files, OTHER, b"new")
    files.rename(OTHER, FILE)
    found = all_left(files)
    assert {tuple(sorted(image.items())) for image in found} == {
        (("/d/file", b"new"),),
        (("/d/file", b"old"), ("/d/other", b"new")),
    }


def test_a_removed_file_may_come_back_until_its_directory_is_synced() -> None:
    files = disk()
    made(files, content=b"abc")
    files.unlink(FILE)
    assert {"/d/file": b"abc"} in all_left(files)
    files.fsync_directory(Path("/d"))
    assert all(image == {} for image in all_left(files))


def test_names_are_lost_one_by_one_and_not_only_from_the_end() -> None:
    files = disk()
    made(files)
    made(files, OTHER)
    files.unlink(FILE)
    files.unlink(OTHER)
    assert {frozenset(image) for image in all_left(files)} == {
        frozenset({"/d/file", "/d/other"}),
        frozenset({"/d/file"}),
        frozenset({"/d/other"}),
        frozenset(),
    }


def test_a_file_is_lost_with_its_directory() -> None:
    files = disk()
    files.make_directory(Path("/d/new"))
    made(files, Path("/d/new/file"), b"abc")
    found = all_left(files)
    assert {} in found
    assert {"/d/new/file": b"abc"} in found


def test_files_that_were_removed_with_their_directory_do_not_come_back_into_a_new_one() -> None:
    files = disk()
    below = Path("/d/new")
    files.make_directory(below)
    files.fsync_directory(Path("/d"))
    made(files, below / "file", b"abc")
    files.unlink(below / "file")
    files.remove_directory(below)
    files.fsync_directory(Path("/d"))
    files.make_directory(below)
    assert all(image == {} for image in all_left(files))


def test_the_same_seed_draws_the_same_image() -> None:
    files = disk()
    fd = made(files, content=bytes(4096))
    files.pwrite(fd, b"x" * 4096, 0)
    assert left(files, Crash.SOME, 5) == left(files, Crash.SOME, 5)


ACTIONS: list[Callable[[RecordingFiles, int, Random], object]] = [
    lambda files, fd, random: files.pwrite(fd, random.randbytes(random.randint(0, 1500)), random.randint(0, 3000)),
    lambda files, fd, random: files.truncate(fd, random.randint(0, 3000)),
    lambda files, fd, random: files.fdatasync(fd),
    lambda files, fd, random: files.fsync_directory(Path("/d")),
    lambda files, fd, random: files.rename(OTHER, FILE) if files.exists(OTHER) else None,
    lambda files, fd, random: files.unlink(FILE),
    lambda files, fd, random: files.open(FILE, create=True),
    lambda files, fd, random: files.open(OTHER, create=True),
    lambda files, fd, random: files.link(FILE, OTHER) if files.exists(FILE) and not files.exists(OTHER) else None,
]


@given(st.lists(st.integers(0, len(ACTIONS) - 1), max_size=30), st.integers(0, 99))
def test_a_kill_always_leaves_what_the_disk_shows_and_a_full_sync_what_a_kill_leaves(
    actions: list[int], seed: int
) -> None:
    random = Random(seed)
    files = disk()
    fd = files.open(FILE, create=True)
    for action in actions:
        ACTIONS[action](files, fd, random)
    shown = {f"/d/{name}": files.read(Path(f"/d/{name}")) for name in files.list(Path("/d"))}
    assert left(files, Crash.KILL) == shown
    for name in shown:
        files.fdatasync(files.open(Path(name)))
    files.fsync_directory(Path("/d"))
    assert left(files, Crash.NOTHING) == shown
    assert left(files, Crash.SOME, seed) == shown


def test_a_directory_moves_with_all_in_it_or_not_at_all() -> None:
    files = disk()
    files.make_directory(Path("/d/sub"))
    files.fsync_directory(Path("/d"))
    made(files, Path("/d/sub/file"), b"abc")
    files.rename(Path("/d/sub"), Path("/d/away"))
    assert files.list(Path("/d")) == ["away"]
    found = all_left(files)
    assert {tuple(image) for image in found} == {("/d/sub/file",), ("/d/away/file",)}
    files.fsync_directory(Path("/d"))
    assert all(image == {"/d/away/file": b"abc"} for image in all_left(files))


def test_what_was_made_in_a_directory_before_it_moved_moves_with_it() -> None:
    files = disk()
    files.make_directory(Path("/d/sub"))
    files.fsync_directory(Path("/d"))
    files.open(Path("/d/sub/file"), create=True)
    files.rename(Path("/d/sub"), Path("/d/away"))
    files.make_directory(Path("/d/sub"))
    files.fsync_directory(Path("/d"))
    assert {tuple(image) for image in all_left(files)} == {(), ("/d/away/file",)}


def test_a_sync_below_a_new_directory_brings_the_move_that_made_room_for_it() -> None:
    files = disk()
    files.make_directory(Path("/d/sub"))
    files.fsync_directory(Path("/d"))
    made(files, Path("/d/sub/file"), b"old")
    files.rename(Path("/d/sub"), Path("/d/away"))
    files.make_directory(Path("/d/sub"))
    made(files, Path("/d/sub/file"), b"new")
    for image in all_left(files):
        assert image["/d/away/file"] == b"old"
        assert image.get("/d/sub/file", b"new") == b"new"


def test_a_failed_sync_is_not_made_good_by_a_later_one() -> None:
    files = disk()
    fd = made(files, content=b"abc")
    files.pwrite(fd, b"def", 3)
    files.fault = Fault("fdatasync", "/d/file")
    with pytest.raises(OSError, match="Input/output error"):
        files.fdatasync(fd)
    files.fdatasync(fd)
    assert left(files, Crash.KILL) == {"/d/file": b"abcdef"}
    assert left(files, Crash.NOTHING) == {"/d/file": b"abc"}


def test_a_failed_write_leaves_a_part() -> None:
    files = disk()
    fd = made(files)
    files.fault = Fault("pwrite", "/d/")
    with pytest.raises(OSError, match="Input/output error"):
        files.pwrite(fd, b"x" * 1200, 0)
    assert left(files, Crash.KILL) == {"/d/file": b"x" * 512}
    files.pwrite(fd, b"x" * 1200, 0)
    assert left(files, Crash.KILL) == {"/d/file": b"x" * 1200}
