"""Opening a store that was closed or killed, or that another broker served."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.settings.store import StoreSettings
from gateway.store.errors import ForeignFile, StoreInUse, StoreNotAccessible
from gateway.store.put_result import PutStatus
from gateway.tests.store.recovering import MODES, expected, fill
from gateway.tests.store.small_store import (
    ASYNC,
    SMALL,
    START_MS,
    Clock,
    Disk,
    Executor,
    bodies,
    killed,
    message,
    opened,
    overwrite,
    put,
    put_all,
    read_all,
    small_store,
)
from wire.disk.checkpoint import StoreCheckpoint


@MODES
def test_a_restart_after_a_clean_stop_reads_nothing_again_and_resumes_offsets(
    tmp_path: Path, settings: StoreSettings
) -> None:
    fill(tmp_path / "s", 90, settings)
    store = small_store(tmp_path / "s", settings)
    report = store.open()
    assert (report.clean, report.records, report.torn_bytes, report.remarks) == (True, 0, 0, [])
    assert put(store, b"next").queue_offset == 90
    assert bodies(store) == [*expected(90), b"next"]


@MODES
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, settings: StoreSettings) -> None:
    store = opened(tmp_path / "s", settings)
    for number in range(100):
        if number == 60:
            store.flush()
        assert put(store, b"%04d" % number * 25).status is PutStatus.PUT_OK
    store = small_store(killed(tmp_path / "s"), settings)
    report = store.open()
    assert not report.clean
    assert report.start_offset > 0, "it starts at the checkpoint"
    assert bodies(store) == expected(100)
    assert put(store, b"next").queue_offset == 100


def test_a_second_kill_during_the_first_life_after_a_kill_loses_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "s", 10, close=False)
    first = killed(tmp_path / "s", 1)
    store = opened(first)
    put(store, b"after")
    store = opened(killed(first, 2))
    assert bodies(store) == [*expected(10), b"after"]


def test_a_kill_between_write_and_sync_was_never_acknowledged(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path / "s", soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    acknowledged: list[object] = []
    store.append(message(b"unsure"), acknowledged.append)
    executor.run_turn()
    executor.work()()  # in a new file
    tell = executor.work()  # written and synced, the reactor does not know yet
    assert acknowledged == []
    copy = killed(tmp_path / "s")
    tell()
    assert len(acknowledged) == 1
    assert bodies(opened(copy)) in ([], [b"unsure"])


def test_hidden_records_take_part_in_recovery_but_in_no_queue(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    put(store, b"one")
    hidden = put(store, message(b"prepared", sys_flag=4))
    assert hidden.queue is None
    put_all(store, [message(b"rollback", sys_flag=12), message(b"two")])
    store = opened(killed(directory))
    assert bodies(store) == [b"one", b"two"]
    found = store.message_at(hidden.commit_log_offset)
    assert found is not None
    assert found.body == b"prepared"


def test_a_deleted_and_recreated_topic_survives_a_kill(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    for number in range(3):
        put(store, b"old %d" % number)
    store.flush()
    put(store, b"old 3")
    store.delete_topic("T")
    put(store, b"new 0")
    put(store, b"new 1")
    store = opened(killed(directory))
    assert bodies(store) == [b"new 0", b"new 1"]


def test_store_times_do_not_fall_when_the_clock_was_set_back_over_a_kill(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path / "s", ASYNC, clock=clock)
    clock.now_ms += 1000
    put(store, b"early")
    store.flush()
    clock.now_ms += 60_000
    put(store, b"late")
    store = opened(killed(tmp_path / "s"), ASYNC, clock=Clock(START_MS - 86_400_000))
    put(store, b"after a day back")
    times = [found.stored_at_ms for found in read_all(store)]
    assert times == sorted(times)


def test_progress_is_told_of_a_long_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.recovery.recovery.PROGRESS_BYTES", 1000)
    monkeypatch.setattr("gateway.store.log.log_walk.CHUNK_BYTES", 700)
    fill(tmp_path / "s", 60, close=False)
    directory = killed(tmp_path / "s")
    (directory / "checkpoint").unlink()
    told: list[tuple[int, int]] = []
    small_store(directory).open(lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert all(0 < done <= total for done, total in told)
    assert len(told) > 3


def test_an_empty_store_takes_less_than_a_mebibyte_of_disk(tmp_path: Path) -> None:
    store = opened(tmp_path, StoreSettings())
    put(store, b"one")
    store.flush()
    store.close()
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file()) < 1024 * 1024


# -- marks and other brokers ------------------------------------------------------------------------------------


def test_a_mark_of_the_queues_never_lies_beyond_the_durable_log(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", ASYNC, disk=disk)
    put(store, b"first")
    added: list[int] = []

    def another_message_meanwhile(operation: str, path: Path) -> None:
        if operation == "sync" and "commitlog" in str(path) and not added:
            added.append(1)
            put(store, b"second")

    disk.fault = another_message_meanwhile
    store.flush()
    assert added
    marks = store._checkpoint.marks
    assert marks is not None
    assert marks.queues <= marks.durable
    assert marks.index.scanned <= marks.durable


@pytest.mark.parametrize("abort", [False, True], ids=["clean", "killed"])
@pytest.mark.parametrize("checkpoint_ms", [0, START_MS - 10_000, START_MS + 10_000])
def test_a_directory_of_another_broker_is_taken_over(tmp_path: Path, abort: bool, checkpoint_ms: int) -> None:
    directory = tmp_path / "s"
    fill(directory, 60)
    times = StoreCheckpoint(checkpoint_ms, checkpoint_ms, checkpoint_ms, 17, 18)
    (directory / "checkpoint").write_bytes(times.build())
    (directory / "gateway-queues").unlink()
    (directory / "lock").write_bytes(b"lock")
    (directory / "consumequeue" / "Empty" / "0").mkdir(parents=True)
    (directory / "consumequeue" / "Empty" / "0" / f"{0:020d}").write_bytes(bytes(200))
    if abort:
        (directory / "abort").write_bytes(b"")
    store = opened(directory)
    assert bodies(store) == expected(60)
    assert store.max_offset("Empty", 0) == 0
    assert put(store, message(b"e", topic="Empty")).queue_offset == 0
    assert put(store, b"next").queue_offset == 60
    store.close()
    saved = StoreCheckpoint.parse((directory / "checkpoint").read_bytes())
    assert (saved.master_flushed_offset, saved.confirmed_offset) == (17, 18)
    assert not (directory / "abort").exists()


@pytest.mark.parametrize("abort", [False, True], ids=["clean", "killed"])
def test_marks_are_not_trusted_after_another_broker_served_the_directory(tmp_path: Path, abort: bool) -> None:
    directory = tmp_path / "s"
    fill(directory, 5)
    marked = (directory / "checkpoint").read_bytes()
    store = opened(directory)
    for number in range(5, 40):
        put(store, b"%04d" % number * 25)
    store.close()
    # The other broker writes its times only, and may have deleted a topic that we knew.
    later = StoreCheckpoint(START_MS + 5, START_MS + 5, START_MS + 5).build()
    (directory / "checkpoint").write_bytes(later[:40] + marked[40:])
    (directory / "gateway-queues").write_text("T\t0\t5\nGone\t0\t7\n")
    if abort:
        (directory / "abort").write_bytes(b"")
    store = small_store(directory)
    report = store.open()
    assert report.rebuilt_queues == 0
    assert bodies(store) == expected(40)


def test_a_damaged_checkpoint_counts_as_nothing_known(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    fill(directory, 40, close=False)
    directory = killed(directory)
    overwrite(directory / "checkpoint", 0, b"\xff" * 4096)
    store = opened(directory)
    assert bodies(store) == expected(40)


# -- directories that cannot be opened --------------------------------------------------------------------------


def test_a_log_that_is_gone_as_a_whole_refuses_to_start(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    fill(directory, 3)
    shutil.rmtree(directory / "commitlog")
    with pytest.raises(ForeignFile, match="holds no commit log file, but"):
        small_store(directory).open()


@pytest.mark.parametrize("place", ["{}/elsewhere/commitlog", "$HOME/elsewhere/commitlog"])
def test_a_log_elsewhere_that_has_to_be_made_is_told_of(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = replace(SMALL, store_path_commit_log=place.format(tmp_path))
    first = small_store(tmp_path / "s", settings)
    assert first.open().remarks == [f"{tmp_path}/elsewhere/commitlog (storePathCommitLog) did not exist and was made"]
    first.close()
    assert small_store(tmp_path / "s", settings).open().remarks == []


def test_a_second_process_is_refused_and_told_what_to_do(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(StoreInUse, match=r"in use by another process \(pid \d+\); stop that process or choose"):
        small_store(tmp_path).open()
    store.close()
    opened(tmp_path).close()


def test_a_directory_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreNotAccessible, match="check that the path is a directory"):
        small_store(tmp_path / "file").open()


def test_a_failing_disk_at_the_start_is_no_open_store(tmp_path: Path) -> None:
    fill(tmp_path / "s", 3, close=False)
    directory = killed(tmp_path / "s")
    (directory / "checkpoint").unlink()
    disk = Disk()
    disk.fail("sync", "commitlog/0", errno.EIO)
    with pytest.raises(Exception, match="the store failed: sync of the commit log failed"):
        small_store(directory, disk=disk).open()
    assert bodies(opened(directory)) == expected(3)
