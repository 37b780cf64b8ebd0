"""Damage to the log that no crash makes: the store refuses to start, says why, and changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gateway.settings.store import StoreSettings
from gateway.store.errors import LogCutShort, LogDamaged
from gateway.tests.store.recovering import MODES, fill
from gateway.tests.store.small_store import (
    ASYNC,
    LOG_FILE_BYTES,
    SMALL,
    Clock,
    content,
    killed,
    log_file,
    message,
    opened,
    overwrite,
    put,
    small_store,
)


@MODES
@pytest.mark.parametrize("size_again", [False, True], ids=["shorter", "zeroed"])
@pytest.mark.parametrize("into_record", [0, 30], ids=["between records", "within a record"])
def test_a_log_cut_short_after_a_clean_stop_refuses_to_start_and_changes_nothing(
    tmp_path: Path, settings: StoreSettings, into_record: int, size_again: bool
) -> None:
    directory = tmp_path / "s"
    ends = fill(directory, 10, settings)
    path = log_file(directory)
    os.truncate(path, ends[5] + into_record)
    if size_again:
        os.truncate(path, LOG_FILE_BYTES)
    before = content(directory)
    for _ in range(2):  # the second time: it gave the lock back, and the store still counts as closed properly
        with pytest.raises(LogCutShort) as caught:
            small_store(directory, settings).open()
    assert {**content(directory), "lock": b""} == {**before, "lock": b""}
    assert caught.value.lost_bytes == ends[-1] - ends[5]
    text = str(caught.value)
    assert f"commit log file {path} was cut short" in text
    assert f"ends at offset {ends[5]}, but {ends[-1]} bytes were on disk" in text
    assert f"'rocketmq-gateway store repair {directory} --apply'" in text


@MODES
def test_a_damaged_durable_record_in_the_middle_refuses_to_start_and_changes_nothing(
    tmp_path: Path, settings: StoreSettings
) -> None:
    directory = tmp_path / "s"
    store = opened(directory, settings)
    store.flush()
    results = [put(store, b"%04d" % number * 25) for number in range(5)]
    before_flush = killed(directory, 1) if settings is SMALL else None
    store.flush()
    # The marks of the second flush say that all is durable; the queues ask for the walk, as after a lost queue.
    directory = before_flush or killed(directory, 2)
    shutil.rmtree(directory / "consumequeue")
    damaged = results[2].commit_log_offset
    overwrite(log_file(directory), damaged + 95, b"\xff\xff")
    before = content(directory)
    with pytest.raises(LogDamaged) as caught:
        small_store(directory, settings).open()
    after = content(directory)
    assert {name: data for name, data in after.items() if name != "lock"} == {
        name: data for name, data in before.items() if name != "lock"
    }
    text = str(caught.value)
    assert str(log_file(directory)) in text
    assert f"commit log offset {damaged}" in text
    assert f"from offset {results[3].commit_log_offset} on" in text
    assert "Nothing was changed" in text
    with pytest.raises(LogDamaged):  # and gave the lock back
        small_store(directory, settings).open()


def _refused(directory: Path, settings: StoreSettings = SMALL) -> str:
    """The text of a refusal that changes nothing."""
    before = content(directory)
    with pytest.raises(LogDamaged) as caught:
        small_store(directory, settings).open()
    assert {**content(directory), "lock": b""} == {**before, "lock": b""}
    return str(caught.value)


@MODES
@pytest.mark.parametrize("count", [5, 60], ids=["in the same file", "in a file before"])
def test_an_older_copy_over_a_newer_directory_refuses_to_start(
    tmp_path: Path, settings: StoreSettings, count: int
) -> None:
    directory, older = tmp_path / "s", tmp_path / "older"
    ends = fill(directory, count, settings)
    shutil.copytree(directory, older)
    store = opened(directory, settings)
    for number in range(count, 300):
        put(store, b"%04d" % number * 25)
    store.close()
    shutil.copytree(older, directory, dirs_exist_ok=True)
    text = _refused(directory, settings)
    assert f"(commit log offset {ends[-1]}): " in text
    assert "although the store was closed properly" in text or "intact records follow" in text
    assert f"'rocketmq-gateway store repair {directory}'" in text


def test_an_older_copy_over_the_directory_of_a_killed_server_is_told_by_index_and_queues(tmp_path: Path) -> None:
    directory, older = tmp_path / "s", tmp_path / "older"
    fill(directory, 5)
    shutil.copytree(directory, older)
    store = opened(directory)
    for number in range(5, 300):
        put(store, message(b"%04d" % number * 25, KEYS=f"k{number}"))
    store.flush()
    directory = killed(directory)
    shutil.copytree(older, directory, dirs_exist_ok=True)
    assert "when the log was on disk up to" in _refused(directory)


def test_what_was_stored_over_hours_is_no_torn_tail(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path / "s", ASYNC, clock=clock)
    put(store, b"durable")
    store.flush()
    marked = killed(tmp_path / "s", 1)
    lost = put(store, b"lost page" * 20)
    for number in range(100):
        clock.now_ms += 9_000
        put(store, b"%d" % number)
    directory = killed(tmp_path / "s", 2)
    shutil.copyfile(marked / "checkpoint", directory / "checkpoint")
    overwrite(log_file(directory), lost.commit_log_offset, b"\x00" * lost.size)
    assert "stored over 603 s or more: no crash leaves so much" in _refused(directory, ASYNC)


def test_bytes_behind_the_end_of_a_store_closed_properly_are_not_cut(tmp_path: Path) -> None:
    ends = fill(tmp_path / "s", 10)
    overwrite(log_file(tmp_path / "s"), ends[-1] + 100, b"not ours")
    text = _refused(tmp_path / "s")
    assert f"{108} bytes are written behind it although the store was closed properly" in text
