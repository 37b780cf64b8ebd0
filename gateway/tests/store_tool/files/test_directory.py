"""The check of what is a store directory, and of who has it open."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.store_tool.errors import DirectoryInUse
from gateway.store_tool.files.directory import data_end, holder_of, opened
from gateway.tests.store.small_store import SMALL
from gateway.tests.store.small_store import opened as opened_store
from gateway.tests.store_tool.small_directory import fill, queue_file, run

COMMANDS = ["inspect", "verify", "repair", "dump"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_is_no_store_is_named_with_the_fix(tmp_path: Path, command: str) -> None:
    empty, file, foreign = tmp_path / "empty", tmp_path / "file", tmp_path / "foreign"
    empty.mkdir()
    file.touch()
    foreign.mkdir()
    (foreign / "notes.txt").touch()
    above = tmp_path / "above"
    (above / "store" / "commitlog").mkdir(parents=True)
    part = above / "store" / "commitlog"
    (part / f"{0:020d}").touch()
    for path, text in (
        (tmp_path / "none", "does not exist; give the directory that storePathRootDir (--data) names"),
        (file, "is not a directory but a file; give the directory"),
        (empty, "is not a store directory: it is empty; a server that starts on it will make one"),
        (foreign, "is not a store directory: it holds no commitlog, consumequeue, config or checkpoint"),
        (above, f"is not a store directory: there is one in it; give {above / 'store'}"),
        (part, f"it holds the files of one part of a store; give the directory above it, {above / 'store'}"),
    ):
        result = run(command, path)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: {path} ")
        assert text in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_a_gateway_serves_is_refused_and_it_says_by_whom(tmp_path: Path, command: str) -> None:
    store = fill(tmp_path / "data", close=False)
    try:
        for result in (run(command, tmp_path / "data"), run("export", tmp_path / "data", tmp_path / "copy")):
            assert result.exit_code == 2
            assert f"is in use by process {os.getpid()} (" in result.stderr
            assert "stop it first, or work on a copy" in result.stderr
    finally:
        store.close()


def test_a_look_at_a_served_directory_can_be_asked_for(tmp_path: Path) -> None:
    store = fill(tmp_path / "data", close=False)
    try:
        result = run("inspect", tmp_path / "data", "--live")
        assert result.exit_code == 0, result.output
        assert f"{tmp_path / 'data'}: in use by process {os.getpid()}" in result.stdout
    finally:
        store.close()


def test_the_lock_of_apache_rocketmq_is_respected_and_its_process_named(directory: Path) -> None:
    """Java's FileChannel.tryLock(0, 1, false) is a POSIX record lock of byte 0."""
    code = (
        "import fcntl, sys\n"
        f"file = open({str(directory / 'lock')!r}, 'r+b')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert holder_of(directory) is not None
        result = run("verify", directory)
        assert process.stdin is not None
        process.stdin.close()
    assert result.exit_code == 2
    assert f"is in use by process {process.pid} (" in result.stderr


def test_readers_keep_servers_out_and_each_other_not(directory: Path) -> None:
    with opened(directory, SMALL), opened(directory, SMALL):
        fd = os.open(directory / "lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)
        with pytest.raises(DirectoryInUse), opened(directory, SMALL, write=True):
            pass
    opened_store(directory).close()


def test_the_end_of_data_is_found_behind_holes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(50 << 20)
        file.seek(30 << 20)
        file.write(b"abc\x00\x00")
    assert data_end(path, 50 << 20) == (30 << 20) + 3
    path.write_bytes(bytes(10))
    assert data_end(path, 10) == 0


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_file_instead_of_a_directory_names_its_store(tmp_path: Path, command: str) -> None:
    fill(tmp_path / "data", 20)
    result = run(command, queue_file(tmp_path / "data"))
    assert result.exit_code == 2
    assert "is not a directory but a file; it belongs to the store" in result.stderr
    assert result.stderr.rstrip().endswith(f"{tmp_path / 'data'}; give that")
    (tmp_path / "note").write_text("x")
    assert "note is not a directory but a file; give the directory" in run(command, tmp_path / "note").stderr


def test_symbolic_links_among_queues_are_followed_and_told_of_in_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data)
    shutil.move(data / "consumequeue" / "orders", tmp_path / "other-disk")
    (data / "consumequeue" / "orders").symlink_to(tmp_path / "other-disk")
    (data / "consumequeue" / "stock" / "9").symlink_to(tmp_path / "nowhere")
    result = run("verify", data)
    assert result.exit_code == 0, result.output
    notes = [line for line in result.output.splitlines() if line.startswith("Note: symbolic links")]
    assert len(notes) == 2
    assert notes[0].startswith("Note: symbolic links are followed")
    assert notes[0].endswith("other-disk and 1 more")
    assert notes[1].endswith(f"lead nowhere: {data / 'consumequeue' / 'stock' / '9'} → {tmp_path / 'nowhere'}")
