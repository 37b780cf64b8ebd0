"""Opening a store that was closed, killed or damaged."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.errors import ForeignFile, LogCutShort, LogDamaged, StoreInUse, StoreNotAccessible
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus
from gateway.store.store_settings import StoreSettings
from gateway.tests.store.small_store import (
    ASYNC,
    LOG_FILE_BYTES,
    SMALL,
    START_MS,
    Clock,
    Disk,
    Executor,
    bodies,
    content,
    killed,
    log_file,
    message,
    opened,
    overwrite,
    put,
    put_all,
    read_all,
    small_store,
)
from wire.disk.checkpoint import Checkpoint

MODES = pytest.mark.parametrize("settings", [SMALL, ASYNC], ids=["sync", "async"])


def _fill(directory: Path, count: int, settings: StoreSettings = SMALL, *, close: bool = True) -> list[int]:
    store = opened(directory, settings)
    ends = []
    for number in range(count):
        result = put(store, b"%04d" % number * 25)
        ends.append(result.commit_log_offset + result.size)
    store.flush()
    if close:
        store.close()
    return ends


def _expected(count: int) -> list[bytes]:
    return [b"%04d" % number * 25 for number in range(count)]


@MODES
def test_a_restart_after_a_clean_stop_reads_nothing_again_and_resumes_offsets(
    tmp_path: Path, settings: StoreSettings
) -> None:
    _fill(tmp_path / "s", 90, settings)
    store = small_store(tmp_path / "s", settings)
    report = store.open()
    assert (report.clean, report.records, report.torn_bytes, report.remarks) == (True, 0, 0, [])
    assert put(store, b"next").queue_offset == 90
    assert bodies(store) == [*_expected(90), b"next"]


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
    assert bodies(store) == _expected(100)
    assert put(store, b"next").queue_offset == 100


def test_a_second_kill_during_the_first_life_after_a_kill_loses_nothing(tmp_path: Path) -> None:
    _fill(tmp_path / "s", 10, close=False)
    first = killed(tmp_path / "s", 1)
    store = opened(first)
    put(store, b"after")
    store = opened(killed(first, 2))
    assert bodies(store) == [*_expected(10), b"after"]


def test_a_torn_tail_is_cut_and_a_copy_is_kept(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    ends = _fill(directory, 10, close=False)
    directory = killed(directory)
    overwrite(log_file(directory), ends[-1], struct.pack(">ii", 200, -626843481) + b"half a record")
    store = small_store(directory)
    report = store.open()
    assert report.torn_bytes == 8 + len(b"half a record")
    assert report.torn_copy is not None
    assert report.torn_copy.read_bytes().endswith(b"half a record")
    assert report.durable_bytes_lost == 0
    assert any(f"cut at offset {ends[-1]}" in remark for remark in report.remarks)
    assert put(store, b"next").queue_offset == 10
    assert bodies(store) == [*_expected(10), b"next"]
    store.close()
    assert small_store(directory).open().torn_bytes == 0


def test_a_torn_tail_that_spans_two_files_is_cut_in_both(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    ends = _fill(directory, 3, close=False)
    directory = killed(directory)
    overwrite(log_file(directory), ends[-1] + 50, b"torn")
    log_file(directory, LOG_FILE_BYTES).write_bytes(b"later".ljust(LOG_FILE_BYTES, b"\x00"))
    store = small_store(directory)
    report = store.open()
    assert report.torn_copy is not None
    assert report.torn_copy.stat().st_size == LOG_FILE_BYTES - ends[-1] + len(b"later")
    assert not log_file(directory, LOG_FILE_BYTES).exists()
    assert bodies(store) == _expected(3)


def test_a_long_torn_tail_is_copied_up_to_the_limit(tmp_path: Path) -> None:
    _fill(tmp_path / "s", 3, close=False)
    directory = killed(tmp_path / "s")
    overwrite(log_file(directory), 4000, b"x" * 4000)
    settings = replace(SMALL, max_tail_copy_bytes=100)
    report = small_store(directory, settings).open()
    assert report.torn_copy is not None
    assert report.torn_copy.stat().st_size == 100


def test_a_damaged_last_record_that_was_durable_is_reported_as_lost(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    store.flush()
    results = [put(store, b"%04d" % number * 25) for number in range(3)]
    directory = killed(directory)
    overwrite(log_file(directory), results[-1].commit_log_offset + 60, b"\xff" * 60)
    report = small_store(directory).open()
    assert report.durable_bytes_lost == results[-1].size
    assert report.torn_copy is not None


@MODES
@pytest.mark.parametrize("size_again", [False, True], ids=["shorter", "zeroed"])
@pytest.mark.parametrize("into_record", [0, 30], ids=["between records", "within a record"])
def test_a_log_cut_short_after_a_clean_stop_refuses_to_start_and_changes_nothing(
    tmp_path: Path, settings: StoreSettings, into_record: int, size_again: bool
) -> None:
    directory = tmp_path / "s"
    ends = _fill(directory, 10, settings)
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


def test_after_a_power_failure_pages_written_out_of_order_are_no_false_alarm(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory, ASYNC)
    put(store, b"durable")
    store.flush()
    lost = put(store, b"lost page" * 20)
    put(store, b"this page was quicker")
    directory = killed(directory)
    overwrite(log_file(directory), lost.commit_log_offset, b"\x00" * lost.size)
    store = small_store(directory, ASYNC)
    report = store.open()
    assert report.torn_bytes > 0
    assert report.durable_bytes_lost == 0
    assert bodies(store) == [b"durable"]


def test_after_a_power_failure_in_async_mode_a_log_shorter_than_its_queues_leaves_no_hole(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory, ASYNC)
    put(store, b"durable")
    store.flush()
    lost = put(store, b"lost")
    directory = killed(directory)
    overwrite(log_file(directory), lost.commit_log_offset, b"\x00" * lost.size)
    store = opened(directory, ASYNC)
    assert bodies(store) == [b"durable"]
    again = put(store, b"again")
    assert (again.queue_offset, again.commit_log_offset) == (1, lost.commit_log_offset)
    assert bodies(store) == [b"durable", b"again"]


class AfterPowerFailure(Disk):
    """The disk of a system that started anew."""

    def system_run(self) -> str:
        return "another run"


def _fill_up_to_sector(store: MessageStore, properties: int, behind: int) -> PutResult:
    """Store a message with so many bytes of properties, the last ``behind`` of them in another sector."""
    here = put(store, b"durable")
    store.flush()
    overhead = put(store, message(P="x" * (properties - 3))).size - properties
    position = here.commit_log_offset + here.size + overhead + properties
    filling = -(position + 2 * overhead + 2 * properties - behind) % 512
    put(store, message(b"body" + b"-" * filling, P="x" * (properties - 3)))
    result = put(store, message(P="x" * (properties - 3)))
    assert (result.commit_log_offset + result.size - behind) % 512 == 0
    return result


@pytest.mark.parametrize(
    ("properties", "behind"),
    [(300, 1), (300, 50), (300, 300), (300, 301), (256, 257)],  # the last two: half of their length, too
)
def test_after_a_power_failure_a_record_that_lacks_a_sector_of_its_properties_is_cut(
    tmp_path: Path, properties: int, behind: int
) -> None:
    store = opened(tmp_path / "s", ASYNC)
    torn = _fill_up_to_sector(store, properties, behind)
    directory = killed(tmp_path / "s")
    overwrite(log_file(directory), torn.commit_log_offset + torn.size - behind, b"\x00" * behind)
    store = small_store(directory, ASYNC, disk=AfterPowerFailure())
    report = store.open()
    assert (report.end_offset, len(bodies(store))) == (torn.commit_log_offset, 3)
    assert report.torn_copy is not None
    assert put(store, b"again").commit_log_offset == torn.commit_log_offset
    assert bodies(store)[-1] == b"again"


def test_after_a_power_failure_a_lost_sector_amid_long_properties_is_found(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", ASYNC)
    torn = _fill_up_to_sector(store, 2000, 700)
    directory = killed(tmp_path / "s")
    overwrite(log_file(directory), torn.commit_log_offset + torn.size - 700 - 512, b"\x00" * 512)
    report = small_store(directory, ASYNC, disk=AfterPowerFailure()).open()
    assert report.end_offset == torn.commit_log_offset


def test_zeros_that_somebody_sent_in_properties_are_no_lost_sector(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory, ASYNC)
    put(store, message(b"durable", P="\0" * 1200))
    store.flush()
    assert len(bodies(opened(killed(directory, 1), ASYNC, disk=AfterPowerFailure()))) == 1, "it is known to be on disk"
    put(store, message(b"with some", P="a\0b\0" * 300))
    assert len(bodies(opened(killed(directory, 2), ASYNC, disk=AfterPowerFailure()))) == 2, "no sector has only those"
    put(store, message(b"with many", P="\0" * 1200))
    put(store, message(b"behind them"))
    assert len(bodies(opened(killed(directory, 3), ASYNC, disk=AfterPowerFailure()))) == 4, "they end within sectors"


def test_a_kill_in_the_middle_of_a_write_leaves_no_message_with_a_part_of_its_properties(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", ASYNC)
    torn = _fill_up_to_sector(store, 300, 200)
    directory = killed(tmp_path / "s")
    overwrite(log_file(directory), torn.commit_log_offset + torn.size - 200, b"\x00" * 200)
    report = small_store(directory, ASYNC).open()
    assert (report.end_offset, report.torn_bytes > 0) == (torn.commit_log_offset, True)


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
    ends = _fill(directory, count, settings)
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
    _fill(directory, 5)
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


def test_a_machine_that_slept_between_two_writes_is_no_proof_against_a_torn_tail(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path / "s", ASYNC, clock=clock)
    put(store, b"durable")
    store.flush()
    lost = put(store, b"lost page" * 20)
    put(store, b"one")
    clock.now_ms += 86_400_000
    put(store, b"a day later")
    directory = killed(tmp_path / "s")
    overwrite(log_file(directory), lost.commit_log_offset, b"\x00" * lost.size)
    assert small_store(directory, ASYNC).open().torn_bytes > 0


def test_bytes_behind_the_end_of_a_store_closed_properly_are_not_cut(tmp_path: Path) -> None:
    ends = _fill(tmp_path / "s", 10)
    overwrite(log_file(tmp_path / "s"), ends[-1] + 100, b"not ours")
    text = _refused(tmp_path / "s")
    assert f"{108} bytes are written behind it although the store was closed properly" in text


def test_another_broker_leaves_old_bytes_behind_the_end_and_they_are_cut(tmp_path: Path) -> None:
    ends = _fill(tmp_path / "s", 10)
    (tmp_path / "s" / "checkpoint").write_bytes(Checkpoint(START_MS, START_MS, START_MS, 0, 0).build())
    overwrite(log_file(tmp_path / "s"), ends[-1] + 100, b"not ours")
    assert small_store(tmp_path / "s").open().torn_bytes == 108


def test_intact_records_behind_a_hole_are_kept_in_full(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    settings = replace(ASYNC, max_tail_copy_bytes=100)
    store = opened(directory, settings)
    put(store, b"durable")
    store.flush()
    lost = put(store, b"lost page" * 20)
    for number in range(100):
        last = put(store, b"quicker %d" % number * 20)
    directory = killed(directory)
    overwrite(log_file(directory), lost.commit_log_offset, b"\x00" * lost.size)
    report = small_store(directory, settings).open()
    assert report.torn_copy is not None
    whole = last.commit_log_offset + last.size - lost.commit_log_offset
    assert report.torn_copy.stat().st_size == whole - 2, "the last record ends in zeros"
    assert b"quicker 99" in report.torn_copy.read_bytes()
    assert any("all of them are kept" in remark and "intact records" in remark for remark in report.remarks)


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


@MODES
def test_lost_consume_queues_are_rebuilt(tmp_path: Path, settings: StoreSettings) -> None:
    directory = tmp_path / "s"
    _fill(directory, 30, settings)
    shutil.rmtree(directory / "consumequeue")
    store = opened(directory, settings)
    assert bodies(store) == _expected(30)


def test_one_lost_queue_among_others_is_rebuilt(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    for number in range(15):
        put(store, message(b"a%d" % number, topic="A"))
        put(store, message(b"b%d" % number, topic="B"))
    store.close()
    shutil.rmtree(directory / "consumequeue" / "A")
    store = small_store(directory)
    report = store.open()
    assert report.rebuilt_queues == 1
    assert bodies(store, "A") == [b"a%d" % number for number in range(15)]
    assert put(store, message(b"next", topic="A")).queue_offset == 15
    assert bodies(store, "B") == [b"b%d" % number for number in range(15)]


def test_a_queue_with_a_truncated_file_is_rebuilt_and_its_neighbours_keep_their_size(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    for number in range(15):
        put(store, message(b"a%d" % number, topic="A"))
        put(store, message(b"b%d" % number, topic="B"))
    store.close()
    path = directory / "consumequeue" / "A" / "0" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:40])
    store = opened(directory)
    assert bodies(store, "A") == [b"a%d" % number for number in range(15)]
    assert bodies(store, "B") == [b"b%d" % number for number in range(15)]
    assert path.stat().st_size == 200


def test_a_consume_queue_ahead_of_the_log_is_trimmed(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    _fill(directory, 3)
    log = log_file(directory).read_bytes()
    (directory / "checkpoint").unlink()
    store = opened(directory)
    for number in range(20):
        put(store, b"later %d" % number)
    store.close()
    log_file(directory).write_bytes(log)
    (directory / "checkpoint").unlink()
    (directory / "gateway-queues").unlink()
    store = opened(directory)
    assert bodies(store) == _expected(3)
    assert put(store, b"next").queue_offset == 3
    assert bodies(store)[-1] == b"next"


def test_units_behind_a_gap_left_by_a_power_failure_are_erased(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    put(store, b"one")
    store.flush()
    for number in range(4):
        put(store, b"%d" % number)
    directory = killed(directory)
    queue = directory / "consumequeue" / "T" / "0" / f"{0:020d}"
    data = queue.read_bytes()
    second = store._queues.make("T", 0).unit(1)
    assert second is not None
    # Of the five units the second and third did not reach the disk, and of the log nothing after the first record.
    overwrite(queue, 20, b"\x00" * 40)
    size = log_file(directory).stat().st_size
    overwrite(log_file(directory), second[0], b"\x00" * (size - second[0]))
    (directory / "checkpoint").unlink()
    opened(directory).close()
    assert queue.read_bytes() == data[:20].ljust(200, b"\x00")


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


def test_a_log_that_is_gone_as_a_whole_refuses_to_start(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    _fill(directory, 3)
    shutil.rmtree(directory / "commitlog")
    with pytest.raises(ForeignFile, match="holds no commit log file, but"):
        small_store(directory).open()


def test_a_log_elsewhere_that_has_to_be_made_is_told_of(tmp_path: Path) -> None:
    settings = replace(SMALL, commit_log_directory=str(tmp_path / "elsewhere" / "commitlog"))
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
    _fill(tmp_path / "s", 3, close=False)
    directory = killed(tmp_path / "s")
    (directory / "checkpoint").unlink()
    disk = Disk()
    disk.fail("sync", "commitlog/0", errno.EIO)
    with pytest.raises(Exception, match="the store failed: sync of the commit log failed"):
        small_store(directory, disk=disk).open()
    assert bodies(opened(directory)) == _expected(3)


def test_an_empty_store_takes_less_than_a_mebibyte_of_disk(tmp_path: Path) -> None:
    store = opened(tmp_path, StoreSettings())
    put(store, b"one")
    store.flush()
    store.close()
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file()) < 1024 * 1024


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


@pytest.mark.parametrize("abort", [False, True], ids=["clean", "killed"])
@pytest.mark.parametrize("checkpoint_ms", [0, START_MS - 10_000, START_MS + 10_000])
def test_a_directory_of_another_broker_is_taken_over(tmp_path: Path, abort: bool, checkpoint_ms: int) -> None:
    directory = tmp_path / "s"
    _fill(directory, 60)
    times = Checkpoint(checkpoint_ms, checkpoint_ms, checkpoint_ms, 17, 18)
    (directory / "checkpoint").write_bytes(times.build())
    (directory / "gateway-queues").unlink()
    (directory / "lock").write_bytes(b"lock")
    (directory / "consumequeue" / "Empty" / "0").mkdir(parents=True)
    (directory / "consumequeue" / "Empty" / "0" / f"{0:020d}").write_bytes(bytes(200))
    if abort:
        (directory / "abort").write_bytes(b"")
    store = opened(directory)
    assert bodies(store) == _expected(60)
    assert store.max_offset("Empty", 0) == 0
    assert put(store, message(b"e", topic="Empty")).queue_offset == 0
    assert put(store, b"next").queue_offset == 60
    store.close()
    saved = Checkpoint.parse((directory / "checkpoint").read_bytes())
    assert (saved.master_flushed_offset, saved.confirmed_offset) == (17, 18)
    assert not (directory / "abort").exists()


@pytest.mark.parametrize("abort", [False, True], ids=["clean", "killed"])
def test_marks_are_not_trusted_after_another_broker_served_the_directory(tmp_path: Path, abort: bool) -> None:
    directory = tmp_path / "s"
    _fill(directory, 5)
    marked = (directory / "checkpoint").read_bytes()
    store = opened(directory)
    for number in range(5, 40):
        put(store, b"%04d" % number * 25)
    store.close()
    # The other broker writes its times only, and may have deleted a topic that we knew.
    later = Checkpoint(START_MS + 5, START_MS + 5, START_MS + 5).build()
    (directory / "checkpoint").write_bytes(later[:40] + marked[40:])
    (directory / "gateway-queues").write_text("T\t0\t5\nGone\t0\t7\n")
    if abort:
        (directory / "abort").write_bytes(b"")
    store = small_store(directory)
    report = store.open()
    assert report.rebuilt_queues == 0
    assert bodies(store) == _expected(40)


def test_a_damaged_checkpoint_counts_as_nothing_known(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    _fill(directory, 40, close=False)
    directory = killed(directory)
    overwrite(directory / "checkpoint", 0, b"\xff" * 4096)
    store = opened(directory)
    assert bodies(store) == _expected(40)


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


def test_progress_is_told_of_a_long_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.recovery.PROGRESS_BYTES", 1000)
    monkeypatch.setattr("gateway.store.log_walk.CHUNK_BYTES", 700)
    _fill(tmp_path / "s", 60, close=False)
    directory = killed(tmp_path / "s")
    (directory / "checkpoint").unlink()
    told: list[tuple[int, int]] = []
    small_store(directory).open(lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert all(0 < done <= total for done, total in told)
    assert len(told) > 3
