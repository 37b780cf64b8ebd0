"""Syncs by interval, and a failed sync, after which nothing is acknowledged any more."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.put_result import PutResult, PutStatus
from gateway.telemetry.metrics import Registry
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
    put,
)
from wire.disk.consume_queue import UNIT, UNIT_BYTES

PAGE = 4096
ROOMY = replace(ASYNC, mapped_file_size_commit_log=1 << 20, max_message_size=1 << 18)
LONG_QUEUES = replace(SMALL, mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=UNIT_BYTES * 10_000)
"""Each a file, as those of nearly all queues."""
WOKEN = replace(ROOMY, flush_commit_log_timed=False)


def level(store: object, name: str) -> object:
    registry: Registry = store.figures.registry  # type: ignore[attr-defined]
    return next(sample.value for sample in registry.samples() if sample.name == name)


# -- intervals --------------------------------------------------------------------------------------------------


def test_little_is_flushed_by_the_thorough_round_and_much_by_the_next_one(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(ROOMY, flush_interval_consume_queue_ms=1 << 60))
    put(store, b"first")
    assert store.flush_due(START_MS)
    put(store, b"little")
    assert not store.flush_due(START_MS + 9_999)
    assert store.flushed_offset < store.max_commit_log_offset
    assert store.flush_due(START_MS + 10_000)
    put(store, b"x" * 4 * PAGE)
    assert store.flush_due(START_MS + 10_500)
    assert store.flushed_offset == store.max_commit_log_offset
    assert not store.flush_due(START_MS + 60_000), "nothing is left to do"


def test_queues_are_flushed_when_each_of_those_written_to_has_a_page_or_eight_have(tmp_path: Path) -> None:
    settings = replace(LONG_QUEUES, flush_consume_queue_least_pages=1)
    store = opened(tmp_path, settings)
    put(store, b"first")
    now_ms = START_MS

    def is_flushed_after(messages: int, queues: int) -> bool:
        nonlocal now_ms
        for number in range(messages):
            put(store, message(b"", queue_id=number % queues))
        now_ms += settings.flush_interval_consume_queue_ms
        return store.flush_due(now_ms)

    assert store.flush_due(now_ms), "the first round is a thorough one"
    page = PAGE // UNIT_BYTES + 1
    assert is_flushed_after(page, queues=1)
    assert not is_flushed_after(page, queues=4)
    assert is_flushed_after(3 * page, queues=4)
    assert not is_flushed_after(4 * page, queues=20)
    assert is_flushed_after(4 * page, queues=20), "more than eight count as eight"


def test_a_clock_that_was_set_back_by_a_day_does_not_stop_the_flushing(tmp_path: Path) -> None:
    store = opened(tmp_path, ASYNC)
    put(store, b"one")
    assert store.flush_due(START_MS)
    put(store, b"two")
    assert store.flush_due(START_MS - 86_400_000)
    assert store.flushed_offset == store.max_commit_log_offset


def test_no_least_pages_means_every_round(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(ROOMY, flush_commit_log_least_pages=0, flush_interval_consume_queue_ms=1 << 60))
    for number in range(3):
        put(store, b"little")
        assert store.flush_due(START_MS + 500 * number)


def test_queues_are_flushed_when_enough_entries_wait_or_after_the_thorough_interval(tmp_path: Path) -> None:
    store = opened(tmp_path, LONG_QUEUES)
    put(store, b"first")
    assert store.flush_due(START_MS)
    assert store._checkpoint.marks is not None
    saved = store._checkpoint.marks.queues
    for _ in range(409):
        put(store, b"x")
    assert not store.flush_due(START_MS + 59_999), "409 entries of 20 bytes are less than two pages"
    put(store, b"x")
    assert not store.flush_due(START_MS + 999), "flushIntervalConsumeQueue has not passed"
    assert store.flush_due(START_MS + 1_000)
    assert store._checkpoint.marks.queues == store.max_commit_log_offset > saved
    put(store, b"x")
    assert not store.flush_due(START_MS + 60_999)
    assert store.flush_due(START_MS + 61_000)


def test_units_are_written_by_the_next_look_and_synced_by_the_flush(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, ROOMY, disk=disk)
    put(store, b"first")
    assert store.flush_due(START_MS)
    disk.calls.clear()
    put(store, b"second")
    put(store, b"third")
    queue_file = tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}"
    assert ("write", queue_file) not in disk.calls
    assert bodies(store) == [b"first", b"second", b"third"]
    assert not store.flush_due(START_MS + 1)
    assert disk.calls.count(("write", queue_file)) == 1
    assert ("sync", queue_file) not in disk.calls
    disk.calls.clear()
    assert not store.flush_due(START_MS + 2)
    assert disk.calls == [], "nothing is left to write"
    store.flush()
    assert ("sync", queue_file) in disk.calls
    put(store, b"fourth")
    disk.calls.clear()
    store.flush()
    assert disk.calls.index(("write", queue_file)) < disk.calls.index(("sync", queue_file))


def test_units_that_find_no_room_are_shown_and_written_later(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", ASYNC, disk=disk)
    put(store, b"first")
    disk.fail("write", "consumequeue", errno.ENOSPC)
    put(store, b"second")
    assert not store.flush()
    assert bodies(store) == [b"first", b"second"]
    assert store.refusal is None
    disk.fault = None
    assert store.flush()
    store.close()
    assert bodies(opened(tmp_path / "s")) == [b"first", b"second"]


def test_one_queue_without_room_does_not_keep_the_others_from_their_files(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", ASYNC, disk=disk)
    for topic in "ABC":
        put(store, message(b"first", topic=topic))
    for topic in "ABC":
        put(store, message(b"second", topic=topic))
    disk.fail("write", "consumequeue/B", errno.ENOSPC)
    assert not store.flush()
    assert [store._queues.by_name[topic, 0].write_held() for topic in "AC"] == [[], []], "nothing is left of them"
    disk.fault = None
    assert store.flush()
    assert store._queues.by_name["B", 0].write_held() == []


def test_writing_units_ends_although_more_come_with_every_write(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, ROOMY, disk=disk)
    for topic in "AB":
        put(store, message(b"first", topic=topic))
        put(store, message(b"second", topic=topic))
    more = iter(range(6))  # as many as go into the file

    def send_more(operation: str, path: Path) -> None:
        if operation == "write" and "consumequeue" in str(path) and next(more, None) is not None:
            put(store, message(b"more", topic="A"))
            put(store, message(b"more", topic="B"))

    disk.fault = send_more
    store._queues.write_held()
    assert len(list(more)) == 4, "each queue was written once"
    disk.fault = None
    assert store.flush()
    assert store._checkpoint.marks is not None
    assert store._checkpoint.marks.queues == store.max_commit_log_offset


def test_units_that_are_written_while_others_are_synced_are_synced_by_the_next_flush(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, ROOMY, disk=disk)
    put(store, b"first")
    assert store.flush()
    put(store, b"second")
    queue_file = tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}"

    def sync_meanwhile(operation: str, path: Path) -> None:
        if (operation, path) == ("write", queue_file):
            store._queues.sync()

    disk.fault = sync_meanwhile
    store._queues.write_held()
    disk.fault = None
    disk.calls.clear()
    assert store.flush()
    assert ("sync", queue_file) in disk.calls


def test_a_unit_that_is_mended_while_it_is_held_stays_mended(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", ASYNC)
    put(store, b"first")
    size = put(store, b"second").size
    queue = store._queues.by_name["T", 0]
    mended = UNIT.pack(size, size, 7)
    store._queues.correct(queue, 1, mended)
    assert store.flush()
    assert queue.read_units(1, 1) == mended
    assert killed(tmp_path / "s").joinpath(f"consumequeue/T/0/{0:020d}").read_bytes()[20:40] == mended


def test_units_that_cannot_be_written_stop_acknowledging(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", ASYNC, disk=disk)
    put(store, b"first")
    put(store, b"second")
    disk.fail("write", "consumequeue")
    store.flush_due(START_MS)
    assert put(store, b"third").status is PutStatus.SERVICE_NOT_AVAILABLE
    store.close()
    assert bodies(opened(tmp_path / "s")) == [b"first", b"second"]


def test_the_topic_of_held_units_may_be_deleted(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", ASYNC)
    put(store, b"first")
    put(store, b"second")
    store.delete_topic("T")
    assert store.flush()
    assert store.refusal is None
    put(store, b"third")
    assert store.flush()
    assert bodies(store) == [b"third"]


def test_without_the_timer_stored_messages_wake_the_flush_in_the_thread(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, WOKEN, soon=executor.soon, in_thread=executor.in_thread, clock=Clock(START_MS))
    executor.run()
    store.flush_due(START_MS)
    results: list[PutResult] = []
    store.append(message(b"x" * 5 * PAGE), results.append)
    executor.run_turn()
    assert len(results) == 1
    assert store.flushed_offset == 0
    assert len(executor.threads) == 1
    store.append(message(b"x" * 5 * PAGE), results.append)
    executor.run_turn()
    assert len(executor.threads) == 1, "one flush at a time"
    executor.work()()
    assert store.flushed_offset == store.max_commit_log_offset
    executor.run()
    store.append(message(b"little"), results.append)
    executor.run()
    assert store.flushed_offset < store.max_commit_log_offset, "less than flushCommitLogLeastPages"


def test_what_is_stored_and_not_yet_durable_can_be_seen(tmp_path: Path) -> None:
    store = opened(tmp_path, ROOMY)
    put(store, b"one")
    put(store, message(b"other", topic="U"))
    assert store.flush()
    size = put(store, b"two").size
    assert level(store, "rocketmq_storage_flush_behind_bytes") == size
    assert (store.durable_max_offset("T", 0), store.max_offset("T", 0), store.next_offset("T", 0)) == (1, 2, 2)
    assert store.durable_max_offset("U", 0) == 1
    assert store.flush()
    assert level(store, "rocketmq_storage_flush_behind_bytes") == 0
    assert store.durable_max_offset("T", 0) == 2
    assert (store.durable_max_offset("Unknown", 0), store.next_offset("Unknown", 0)) == (0, 0)
    assert level(store, "rocketmq_storage_size") == store.max_commit_log_offset


def test_in_sync_mode_accepted_messages_are_counted_before_they_are_seen(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    store.append(message(), lambda _: None)
    assert (store.durable_max_offset("T", 0), store.max_offset("T", 0), store.next_offset("T", 0)) == (0, 0, 1)
    executor.run()
    assert (store.durable_max_offset("T", 0), store.max_offset("T", 0)) == (1, 1)


# -- failing syncs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["commitlog/", "consumequeue/", "s/checkpoint", "index/"])
def test_a_failing_timed_flush_stops_acknowledging_and_is_never_tried_again(tmp_path: Path, part: str) -> None:
    disk, clock = Disk(), Clock(START_MS)
    store = opened(tmp_path / "s", ASYNC, disk=disk, clock=clock)
    put(store, message(b"before", KEYS="k"))
    store.query_by_key("T", "k", 1, 0, 1 << 60)
    disk.fail("sync", part)
    clock.now_ms += 60_000  # the index is flushed now and then only
    assert not store.flush_due(START_MS)
    disk.fault = None
    disk.calls.clear()
    refused = put(store, b"later")
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "restart the broker to recover" in str(store.refusal)
    assert level(store, "rocketmq_gateway_store_failed") == 1
    assert level(store, "rocketmq_gateway_store_refusing") == 1
    assert store.figures.refused_messages.value == 1
    assert not store.flush_due(START_MS + 1_000_000)
    store.delete_expired(START_MS + 1_000_000)
    assert store.refusal is not None, "space does not cure it"
    assert "sync" not in [operation for operation, _ in disk.calls], "a second sync could call lost pages good"
    assert bodies(store) == [b"before"]
    store.close()
    assert (tmp_path / "s" / "abort").exists()
    assert bodies(opened(tmp_path / "s")) == [b"before"]


@pytest.mark.parametrize(
    ("operation", "part", "number"),
    [("write", "s/checkpoint", errno.ENOSPC), ("write", "index/", errno.EDQUOT), ("create", "index/", errno.EMFILE)],
)
def test_a_lack_of_room_for_derived_files_passes(tmp_path: Path, operation: str, part: str, number: int) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", ASYNC, disk=disk)
    disk.fail(operation, part, number)
    put(store, message(b"one", KEYS="k"))
    store.flush()
    assert store.refusal is None
    disk.fault = None
    assert put(store, message(b"two", KEYS="k")).status is PutStatus.PUT_OK
    assert len(store.query_by_key("T", "k", 9, 0, 1 << 60)) == 2
    assert store.flush()
    assert bodies(opened(killed(tmp_path / "s"))) == [b"one", b"two"]


def test_a_checkpoint_that_cannot_be_noted_with_a_batch_keeps_no_answer_back(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", disk=disk)
    put(store, b"one")
    disk.fail("write", "s/checkpoint")
    assert put(store, b"two").status is PutStatus.PUT_OK
    disk.fault = None
    assert bodies(opened(killed(tmp_path / "s"))) == [b"one", b"two"]
