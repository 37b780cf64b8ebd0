"""The end of the log after a crash: what is cut, and the copy that is kept of it."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult
from gateway.tests.store.recovering import expected, fill
from gateway.tests.store.small_store import (
    ASYNC,
    LOG_FILE_BYTES,
    SMALL,
    START_MS,
    Clock,
    Disk,
    bodies,
    killed,
    log_file,
    message,
    opened,
    overwrite,
    put,
    small_store,
)
from wire.disk.checkpoint import StoreCheckpoint


def test_a_torn_tail_is_cut_and_a_copy_is_kept(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    ends = fill(directory, 10, close=False)
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
    assert bodies(store) == [*expected(10), b"next"]
    store.close()
    assert small_store(directory).open().torn_bytes == 0


def test_a_torn_tail_that_spans_two_files_is_cut_in_both(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    ends = fill(directory, 3, close=False)
    directory = killed(directory)
    overwrite(log_file(directory), ends[-1] + 50, b"torn")
    log_file(directory, LOG_FILE_BYTES).write_bytes(b"later".ljust(LOG_FILE_BYTES, b"\x00"))
    store = small_store(directory)
    report = store.open()
    assert report.torn_copy is not None
    assert report.torn_copy.stat().st_size == LOG_FILE_BYTES - ends[-1] + len(b"later")
    assert not log_file(directory, LOG_FILE_BYTES).exists()
    assert bodies(store) == expected(3)


def test_a_long_torn_tail_is_copied_up_to_the_limit(tmp_path: Path) -> None:
    fill(tmp_path / "s", 3, close=False)
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


def test_another_broker_leaves_old_bytes_behind_the_end_and_they_are_cut(tmp_path: Path) -> None:
    ends = fill(tmp_path / "s", 10)
    (tmp_path / "s" / "checkpoint").write_bytes(StoreCheckpoint(START_MS, START_MS, START_MS, 0, 0).build())
    overwrite(log_file(tmp_path / "s"), ends[-1] + 100, b"not ours")
    assert small_store(tmp_path / "s").open().torn_bytes == 108


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


def test_a_kill_in_the_middle_of_a_write_leaves_no_message_with_a_part_of_its_properties(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", ASYNC)
    torn = _fill_up_to_sector(store, 300, 200)
    directory = killed(tmp_path / "s")
    overwrite(log_file(directory), torn.commit_log_offset + torn.size - 200, b"\x00" * 200)
    report = small_store(directory, ASYNC).open()
    assert (report.end_offset, report.torn_bytes > 0) == (torn.commit_log_offset, True)


# -- after a power failure --------------------------------------------------------------------------------------


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


def _fill_up_to_sector(store: MessageStore, properties: int, behind: int, value: str = "") -> PutResult:
    """Store a message with so many bytes of properties, the last ``behind`` of them in another sector.

    :param value: of its property, three bytes shorter than all of them.
    """
    here = put(store, b"durable")
    store.flush()
    overhead = put(store, message(P="x" * (properties - 3))).size - properties
    position = here.commit_log_offset + here.size + overhead + properties
    filling = -(position + 2 * overhead + 2 * properties - behind) % 512
    put(store, message(b"body" + b"-" * filling, P="x" * (properties - 3)))
    result = put(store, message(P=value or "x" * (properties - 3)))
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


def test_after_a_kill_zeros_in_properties_of_earlier_messages_are_what_somebody_sent(tmp_path: Path) -> None:
    """A kill cuts short what is written last: behind a whole sector of zeros nothing would stand."""
    store = opened(tmp_path / "s", ASYNC)
    _fill_up_to_sector(store, 2000, 700, "x" * 786 + "\0" * 512 + "x" * 699)
    put(store, b"behind them")
    assert bodies(opened(killed(tmp_path / "s"), ASYNC)) == bodies(store)
    assert len(bodies(store)) == 5
