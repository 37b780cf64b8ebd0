"""Appending, batches, full and failing disks, upkeep."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.settings.store import StoreSettings
from gateway.store.disk.files import Buffer, DiskSpace
from gateway.store.log.log_batch import MAX_OUT_BYTES
from gateway.store.put_result import PutResult, PutStatus, WaitFor, each_result
from gateway.tests.store.small_store import (
    ASYNC,
    GIB,
    HOST,
    LOG_FILE_BYTES,
    SMALL,
    START_MS,
    Clock,
    Disk,
    Executor,
    bodies,
    killed,
    log_file,
    message,
    opened,
    put,
    put_all,
    read_all,
    small_store,
)
from wire.disk.consume_queue import parse_units
from wire.message.record import LARGE_BODY_BYTES, OutgoingMessage, build_record

FOUR_DAYS_MS = 4 * 86_400_000


class BufferSizes(Disk):
    """Remembers how large the buffers were that the log was written from."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        self.sizes += map(len, buffers)
        super().pwritev(fd, buffers, offset)


def test_what_is_stored_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    store = opened(tmp_path)
    result = put(store, message(b"\x00\xffbody", TAGS="a", KEYS="k1 k2"))
    (found,) = read_all(store)
    assert (found.body, found.topic, found.queue_offset) == (b"\x00\xffbody", "T", 0)
    assert found.property_map == {"TAGS": "a", "KEYS": "k1 k2"}
    assert found.commit_log_offset == result.commit_log_offset
    assert store.record_at(result.commit_log_offset) == store.record_at(result.commit_log_offset, result.size)


def test_offsets_of_each_queue_are_dense(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(6):
        assert put(store, message(queue_id=number % 2)).queue_offset == number // 2
    assert sorted(store.queues()) == [("T", 0), ("T", 1)]


def test_nothing_is_visible_before_it_is_durable_in_sync_mode(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    results: list[PutResult] = []
    store.append(message(), results.append)
    assert store.max_offset("T", 0) == 0
    executor.run_turn()
    executor.work()()  # the first file is made
    tell = executor.work()
    assert store.max_offset("T", 0) == 0
    assert store.record_at(0) is None
    assert results == []
    tell()
    assert store.max_offset("T", 0) == 1
    assert store.flushed_offset == store.max_commit_log_offset
    assert [result.status for result in results] == [PutStatus.PUT_OK]


def test_messages_are_written_at_once_and_only_the_sync_waits_for_the_thread(tmp_path: Path) -> None:
    executor = Executor()
    disk = Disk()
    store = opened(tmp_path, disk=disk, soon=executor.soon, in_thread=executor.in_thread)
    store.append(message(b"makes the file"), lambda _: None)
    executor.run()
    told: list[PutResult] = []
    store.append(message(b"quick"), told.append, WaitFor.WRITE)
    store.append(message(b"durable"), told.append)
    executor.run_turn()
    assert [result.message.body for result in told] == [b"quick"]
    assert store.max_offset("T", 0) == 1
    assert len(executor.threads) == 1
    executor.run()
    assert store.max_offset("T", 0) == 3
    assert len(told) == 2


def test_a_batch_goes_where_the_one_before_has_prepared_its_place(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, disk=disk)
    writes: list[int] = []
    for _ in range(4):
        before = len(disk.calls)
        put(store, b"more")
        writes.append(sum(operation == "write" and "commitlog" in str(path) for operation, path in disk.calls[before:]))
    assert writes[0] == writes[1] + 1, "zeros"
    assert len(set(writes[1:])) == 1


def test_what_arrives_during_a_sync_shares_the_next_one(tmp_path: Path) -> None:
    executor = Executor()
    disk = Disk()
    store = opened(tmp_path, disk=disk, soon=executor.soon, in_thread=executor.in_thread)
    results: list[PutResult] = []
    store.append(message(b"makes the file"), lambda _: None)
    executor.run()
    store.append(message(b"first"), results.append)
    executor.run_turn()
    for number in range(20):
        store.append(message(b"%d" % number), results.append)
    disk.calls.clear()
    executor.work()()
    executor.work()()
    assert len(results) == 21
    assert [call for call in disk.calls if call == ("sync", log_file(tmp_path))] == [("sync", log_file(tmp_path))] * 2


def test_async_mode_answers_before_the_disk_has_it(tmp_path: Path) -> None:
    store = opened(tmp_path, ASYNC)
    result = put(store, b"one")
    assert result.status is PutStatus.PUT_OK
    assert store.flushed_offset == 0
    store.flush()
    assert store.flushed_offset == result.size


def test_a_record_that_does_not_fit_goes_to_the_next_file(tmp_path: Path) -> None:
    store = opened(tmp_path)
    body = b"x" * 3000
    results = [put(store, body) for _ in range(5)]
    assert [result.commit_log_offset // LOG_FILE_BYTES for result in results] == [0, 0, 1, 1, 2]
    assert results[2].commit_log_offset == LOG_FILE_BYTES
    filler_at = results[1].commit_log_offset + results[1].size
    filler = log_file(tmp_path).read_bytes()[filler_at:]
    assert int.from_bytes(filler[:4], "big") == len(filler)
    assert filler[4:8] == bytes.fromhex("cbd43194")
    assert bodies(store) == [body] * 5
    assert bodies(opened(killed(tmp_path))) == [body] * 5


def test_a_record_may_fill_a_file_up_to_its_filler(tmp_path: Path) -> None:
    settings = replace(SMALL, max_message_size=LOG_FILE_BYTES)
    store = opened(tmp_path, settings)
    overhead = put(store, b"").size
    largest = LOG_FILE_BYTES - 8 - overhead
    assert put(store, b"x" * (largest + 1)).status is PutStatus.MESSAGE_ILLEGAL
    result = put(store, b"x" * largest)
    assert (result.status, result.commit_log_offset) == (PutStatus.PUT_OK, LOG_FILE_BYTES)
    assert put(store, b"next").commit_log_offset == 2 * LOG_FILE_BYTES
    assert [len(body) for body in bodies(opened(killed(tmp_path), settings))] == [0, largest, 4]


@pytest.mark.parametrize("together", [False, True])
def test_bodies_of_any_size_lie_as_they_came(tmp_path: Path, together: bool) -> None:
    """In one batch over several files: small ones in one buffer, large ones between them each in its own."""
    file_bytes = 4 * LARGE_BODY_BYTES
    settings = replace(SMALL, mapped_file_size_commit_log=file_bytes, max_message_size=file_bytes)
    executor = Executor()
    store = opened(tmp_path, settings, soon=executor.soon)
    sizes = [LARGE_BODY_BYTES, 10, LARGE_BODY_BYTES, 20, LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES, 5, file_bytes - 200, 6]
    outgoing = [message(bytes([number]) * size) for number, size in enumerate(sizes)]
    results: list[PutResult] = []
    for start in range(0, len(outgoing), 3):
        some = outgoing[start : start + 3]
        if together and len(some[1].body) < file_bytes // 2:
            store.append_all(some, results.extend)
        else:
            for one in some:
                store.append(one, results.append)
    assert results == []
    executor.run()
    log = b"".join(file.read_bytes() for file in sorted((tmp_path / "commitlog").iterdir()))
    for one, result in zip(outgoing, results, strict=True):
        place = result.commit_log_offset
        record = build_record(one, result.queue_offset, place, result.stored_at_ms)
        assert log[place : place + result.size] == record
    assert results[-1].commit_log_offset >= 2 * file_bytes
    assert [len(body) for body in bodies(opened(killed(tmp_path), settings))] == sizes


@pytest.mark.parametrize("together", [False, True])
def test_many_messages_of_one_batch_are_not_gathered_in_one_piece(tmp_path: Path, together: bool) -> None:
    settings = replace(SMALL, mapped_file_size_commit_log=4 * MAX_OUT_BYTES)
    executor, disk = Executor(), BufferSizes()
    store = opened(tmp_path, settings, soon=executor.soon, disk=disk)
    count = 2 * MAX_OUT_BYTES // 1000
    outgoing = [message(b"%03d" % number * 330) for number in range(count)]
    results: list[PutResult] = []
    if together:
        store.append_all(outgoing, results.extend)
    else:
        for one in outgoing:
            store.append(one, results.append)
    executor.run()
    assert len(disk.sizes) == 3
    assert max(disk.sizes) < MAX_OUT_BYTES + 1200
    assert sum(disk.sizes) == sum(result.size for result in results) == store.max_commit_log_offset
    stored = read_all(store)
    assert [one.body for one in stored] == [one.body for one in outgoing]


@pytest.mark.parametrize("body_bytes", [0, LARGE_BODY_BYTES])
def test_a_refused_message_leaves_nothing_between_the_others(tmp_path: Path, body_bytes: int) -> None:
    settings = replace(SMALL, mapped_file_size_commit_log=4 * LARGE_BODY_BYTES, max_message_size=2 * LARGE_BODY_BYTES)
    executor = Executor()
    store = opened(tmp_path, settings, soon=executor.soon)
    results: list[PutResult] = []
    store.append(message(b"one"), results.append)
    body = bytes(body_bytes)
    for refused in (
        OutgoingMessage("T", 0, 1 << 31, 0, START_MS, HOST, HOST, 0, 0, body),
        OutgoingMessage("T", 0, 0, 0, 1 << 63, HOST, HOST, 0, 0, body),
        message(body, topic="t" * 256),
        message(bytes(4 * LARGE_BODY_BYTES)),
    ):
        store.append(refused, results.append)
    store.append(message(b"two"), results.append)
    executor.run()
    illegal = PutStatus.MESSAGE_ILLEGAL
    assert [result.status for result in results] == [*[illegal] * 4, PutStatus.PUT_OK, PutStatus.PUT_OK]
    one, two = results[-2:]
    assert (two.commit_log_offset, two.queue_offset) == (one.commit_log_offset + one.size, 1)
    assert bodies(store) == bodies(opened(killed(tmp_path), settings)) == [b"one", b"two"]


def test_messages_appended_together_lie_together_also_at_the_end_of_a_file(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, b"x" * 4000)
    results = put_all(store, [message(b"y" * 1500, topic=topic) for topic in ("A", "B", "A")])
    assert results[0].commit_log_offset == LOG_FILE_BYTES
    assert [result.queue_offset for result in results] == [0, 0, 1]
    for first, second in pairwise(results):
        assert second.commit_log_offset == first.commit_log_offset + first.size
    assert bodies(store, "A") == [b"y" * 1500] * 2


def test_messages_that_never_fit_together_are_refused_and_leave_no_trace(tmp_path: Path) -> None:
    store = opened(tmp_path)
    results = put_all(store, [message(b"x" * 3000)] * 3)
    assert [result.status for result in results] == [PutStatus.MESSAGE_ILLEGAL] * 3
    assert store.max_commit_log_offset == 0
    assert put(store, b"next").queue_offset == 0


def test_one_illegal_message_refuses_all_that_were_appended_with_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    bad = OutgoingMessage("T", 0, 0, 0, 0, b"short", b"short", 0, 0, b"", b"")
    assert {result.status for result in put_all(store, [message(), bad])} == {PutStatus.MESSAGE_ILLEGAL}
    assert bodies(store) == []
    assert put(store, b"next").queue_offset == 0


def test_appending_no_messages_at_all_is_answered(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert put_all(store, []) == []
    assert put(store, b"one").status is PutStatus.PUT_OK


def test_too_large_messages_and_properties_are_refused_without_rolling_the_file(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, b"one")
    position = store.max_commit_log_offset
    assert put(store, b"x" * LOG_FILE_BYTES).status is PutStatus.MESSAGE_ILLEGAL
    many = message(KEYS="k" * 33_000)
    assert put(store, many).status is PutStatus.PROPERTIES_SIZE_EXCEEDED
    assert put(store, message(topic="t" * 256)).status is PutStatus.MESSAGE_ILLEGAL
    assert store.max_commit_log_offset == position
    assert put(store, b"two").commit_log_offset == position


def test_a_store_that_is_not_open_refuses(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    assert put(store, b"early").status is PutStatus.SERVICE_NOT_AVAILABLE
    store.open()
    store.close()
    store.close()
    assert put(store, b"late").status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.flush() is False


def test_more_than_fits_into_memory_is_refused(tmp_path: Path) -> None:
    executor = Executor()
    settings = replace(SMALL, max_unwritten_bytes=1000)
    store = opened(tmp_path, settings, soon=executor.soon, in_thread=executor.in_thread)
    results: list[PutResult] = []
    for _ in range(8):
        store.append(message(b"x" * 300), results.append)
    assert {result.status for result in results} == {PutStatus.SERVICE_NOT_AVAILABLE}
    executor.run()
    assert put_count(results) == 3


def test_what_is_added_to_a_batch_is_not_refused_for_what_senders_gathered(tmp_path: Path) -> None:
    executor = Executor()
    settings = replace(SMALL, max_unwritten_bytes=1000)
    store = opened(tmp_path, settings, soon=executor.soon, in_thread=executor.in_thread)
    results: list[PutResult] = []
    store.append(message(b"in flight"), lambda _: None)
    executor.run_turn()
    store.before_batch(lambda: store.append_all([message(b"outcome")], results.extend))
    for _ in range(8):
        store.append(message(b"x" * 300), lambda _: None)
    executor.run()
    assert [result.status for result in results] == [PutStatus.PUT_OK]
    store.append(message(b"in flight"), lambda _: None)
    executor.run_turn()
    for _ in range(8):
        store.append(message(b"x" * 300), lambda _: None)
    store.append_all([message(b"late")], results.extend)
    assert results[-1].status is PutStatus.SERVICE_NOT_AVAILABLE


def put_count(results: list[PutResult]) -> int:
    return sum(result.status is PutStatus.PUT_OK for result in results)


@pytest.mark.parametrize("settings", [SMALL, ASYNC], ids=["sync", "async"])
def test_a_full_disk_refuses_and_takes_messages_again_when_there_is_space(tmp_path: Path, settings: object) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", settings, disk=disk)  # type: ignore[arg-type]
    put(store, b"before")
    disk.fail("write", "commitlog", errno.ENOSPC)
    refused = put(store, b"refused")
    assert (refused.status, refused.queue_offset) == (PutStatus.SERVICE_NOT_AVAILABLE, -1)
    assert put(store, b"still refused").status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "No space left" in str(store.refusal)
    disk.fault = None
    store.delete_expired(START_MS)
    assert store.refusal is None
    assert put(store, b"after").queue_offset == 1
    assert bodies(store) == [b"before", b"after"]
    assert bodies(opened(killed(tmp_path / "s"))) == [b"before", b"after"]


def test_a_full_disk_while_a_file_is_made_leaves_no_half_made_file(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", disk=disk)
    put(store, b"x" * 4000)
    put(store, b"y" * 3000)
    for operation in ("create", "truncate", "sync"):
        disk.fail(operation, f"commitlog/{LOG_FILE_BYTES:020d}", errno.ENOSPC)
        assert put(store, b"z" * 4000).status is not PutStatus.PUT_OK
        assert not log_file(tmp_path / "s", LOG_FILE_BYTES).exists()
        disk.fault = None
        store.delete_expired(START_MS)
    result = put(store, b"z" * 4000)
    assert (result.status, result.queue_offset) == (PutStatus.PUT_OK, 2)
    named = ("sync", tmp_path / "s" / "commitlog")
    assert named in disk.calls[disk.calls.index(("create", log_file(tmp_path / "s", LOG_FILE_BYTES))) :]
    assert len(bodies(opened(killed(tmp_path / "s")))) == 3


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("settings", [SMALL, ASYNC], ids=["sync", "async"])
def test_where_no_file_can_be_opened_a_batch_is_refused_and_the_next_one_tries_again(
    tmp_path: Path, settings: object, number: int
) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", settings, disk=disk)  # type: ignore[arg-type]
    put(store, b"x" * 4000)
    put(store, b"y" * 3000)
    disk.fail("create", f"commitlog/{LOG_FILE_BYTES:020d}", number)
    for _ in range(2):
        refused = put(store, b"z" * 4000)
        assert (refused.status, refused.queue_offset) == (PutStatus.SERVICE_NOT_AVAILABLE, -1)
    assert store.refusal is None
    assert put(store, b"fits").queue_offset == 2
    disk.fault = None
    assert put(store, b"z" * 4000).queue_offset == 3
    store.flush()
    assert [len(body) for body in bodies(store)] == [4000, 3000, 4, 4000]
    assert [len(body) for body in bodies(opened(killed(tmp_path / "s")))] == [4000, 3000, 4, 4000]


def test_a_batch_behind_one_that_found_no_space_is_refused_too_and_offsets_go_back(tmp_path: Path) -> None:
    disk, executor = Disk(), Executor()
    store = opened(tmp_path, disk=disk, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    results: list[PutResult] = []
    store.append(message(b"x" * 4050), results.append)
    store.append(message(b"x" * 4050), results.append)
    executor.run_turn()
    store.append(message(b"x" * 4050), results.append)  # gathered, and rolled to a third file
    store.append(message(b"x" * 4050, topic="U"), results.append)
    disk.fail("write", f"commitlog/{LOG_FILE_BYTES:020d}", errno.ENOSPC)
    executor.run()
    assert [result.status for result in results] == [PutStatus.SERVICE_NOT_AVAILABLE] * 4
    assert store.max_commit_log_offset == 0
    assert log_file(tmp_path).read_bytes() == bytes(LOG_FILE_BYTES)
    disk.fault = None
    store.delete_expired(START_MS)
    store.append(message(b"again"), results.append)
    executor.run()
    assert (results[-1].queue_offset, results[-1].commit_log_offset) == (0, 0)
    assert bodies(store) == [b"again"]


def test_a_failing_sync_stops_acknowledging_for_good(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", disk=disk)
    put(store, b"before")
    disk.fail("sync", "commitlog")
    assert put(store, b"unsure").status is PutStatus.UNKNOWN_ERROR
    disk.fault = None
    store.delete_expired(START_MS)
    assert put(store, b"later").status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "restart the broker to recover" in str(store.refusal)
    assert store.flush() is False
    assert bodies(store) == [b"before"]
    store.close()
    assert (tmp_path / "s" / "abort").exists(), "the next start is a recovery"
    assert bodies(opened(tmp_path / "s"))[0] == b"before"


@pytest.mark.parametrize("settings", [SMALL, ASYNC])
def test_a_write_that_fails_by_a_bug_is_answered_and_stops_acknowledging(
    tmp_path: Path, settings: StoreSettings
) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", settings, disk=disk)
    put(store, b"before")

    def bug(operation: str, path: Path) -> None:
        if operation == "write" and "commitlog" in str(path):
            raise ValueError("a bug")

    disk.fault = bug
    assert put(store, b"unsure").status is PutStatus.UNKNOWN_ERROR
    disk.fault = None
    assert put(store, b"later").status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "a bug" in str(store.refusal)
    assert store.close() is False
    assert bodies(opened(tmp_path / "s", settings)) == [b"before"]


def test_a_failing_timed_flush_stops_what_was_gathered_meanwhile(tmp_path: Path) -> None:
    disk, executor = Disk(), Executor()
    store = opened(tmp_path, ASYNC, disk=disk, soon=executor.soon, in_thread=executor.in_thread)
    results: list[PutResult] = []
    store.append(message(b"one"), results.append)
    executor.run()
    store.append(message(b"two"), results.append)
    disk.fail("sync", "commitlog")
    assert store.flush() is False
    executor.run()
    assert [result.status for result in results] == [PutStatus.PUT_OK, PutStatus.UNKNOWN_ERROR]


def test_queues_without_room_are_written_when_there_is_some(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", disk=disk)
    told: list[str] = []
    store.listen(lambda batch: told.extend(result.message.body.decode() for result in each_result(batch)))
    disk.fail("truncate", "consumequeue", errno.ENOSPC)
    assert put(store, b"one").status is PutStatus.PUT_OK
    assert not store.flush()
    assert bodies(store) == [b"one"], "its unit is in memory"
    assert bodies(opened(killed(tmp_path / "s", 1))) == [b"one"]
    disk.fault = None
    put(store, b"two")
    assert store.flush()
    assert bodies(store) == [b"one", b"two"]
    assert told == ["one", "two"]
    assert bodies(opened(killed(tmp_path / "s"))) == [b"one", b"two"]


def test_closing_with_queues_that_never_got_room_keeps_the_messages(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, disk=disk)
    disk.fail("write", "consumequeue", errno.ENOSPC)
    put(store, b"one")
    store.close()
    assert (tmp_path / "abort").exists()
    assert bodies(opened(tmp_path)) == [b"one"]


def test_a_failing_callback_or_listener_keeps_no_other_sender_waiting(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    results: list[PutResult] = []

    def fails(_: object) -> None:
        raise RuntimeError("broken")

    store.listen(fails)
    store.append(message(b"one"), fails)
    store.append(message(b"two"), results.append)
    executor.run_turn()
    store.append(message(b"three"), results.append)
    executor.run()
    assert [result.status for result in results] == [PutStatus.PUT_OK] * 2


def test_a_callback_may_append(tmp_path: Path) -> None:
    store = opened(tmp_path)
    results: list[PutResult] = []
    store.append(message(b"one"), lambda _: store.append(message(b"two"), results.append))
    assert len(results) == 1
    assert bodies(store) == [b"one", b"two"]


def test_when_idle_comes_after_everything_appended_is_answered(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    order: list[str] = []
    store.when_idle(lambda: order.append("idle"))
    assert order == ["idle"]
    store.append(message(), lambda _: order.append("stored"))
    executor.run_turn()
    store.append(message(), lambda _: order.append("stored"))
    store.when_idle(lambda: order.append("idle"))
    executor.run()
    assert order == ["idle", "stored", "stored", "idle"]


def test_closing_writes_what_was_still_gathered(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, ASYNC, soon=executor.soon, in_thread=executor.in_thread)
    store.append(message(b"late"), lambda _: None)
    store.close()
    assert not (tmp_path / "abort").exists()
    assert bodies(opened(tmp_path)) == [b"late"]


def test_a_partition_above_the_limit_refuses_with_the_numbers(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, disk=disk)
    disk.space = DiskSpace(100 * GIB, 3 * GIB)
    store.delete_expired(START_MS)
    assert put(store, b"refused").status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.refusal is not None
    assert "3072 MiB of 102400 MiB free, 97 % used" in store.refusal
    disk.space = DiskSpace(100 * GIB, 50 * GIB)
    store.delete_expired(START_MS)
    assert put(store, b"taken").status is PutStatus.PUT_OK


def test_expired_files_go_with_their_queue_and_index_files_but_not_the_last(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(40):
        put(store, message(b"%d" % number * 400, KEYS=f"k{number}"))
    store.query_by_key("T", "k1", 1, 0, 1 << 60)
    store.flush()
    for path in (tmp_path / "commitlog").iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    assert store.delete_expired(START_MS + FOUR_DAYS_MS, asked=True) > 0
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == [f"{store.min_commit_log_offset:020d}"]
    low = store.min_offset("T", 0)
    assert low > 10
    assert not (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").exists()
    assert [found.queue_offset for found in read_all(store)] == list(range(low, 40))
    assert store.get_messages("T", 0, 0, 32, 1 << 20).next_begin_offset == low
    assert store.query_by_key("T", "k1", 1, 0, 1 << 60) == []
    assert len(store.query_by_key("T", "k39", 1, 0, 1 << 60)) == 1
    store.close()
    store = opened(tmp_path)
    assert store.min_offset("T", 0) == low
    assert put(store, b"next").queue_offset == 40


def test_retention_keeps_what_is_still_asked_for(tmp_path: Path) -> None:
    store = opened(tmp_path)
    results = [put(store, b"x" * 3000) for _ in range(8)]
    store.deletion.keep_from = lambda: results[2].commit_log_offset
    assert store.delete_expired(START_MS + 100 * FOUR_DAYS_MS, asked=True) <= 1
    assert store.message_at(results[2].commit_log_offset) is not None


def test_a_deleted_topic_begins_at_zero_again_and_stays_deleted_after_a_kill(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    put(store, b"old")
    put(store, message(b"other", topic="Other"))
    store.close()
    store = opened(tmp_path / "s")
    store.flush()
    store.delete_topic("T")
    store.delete_topic("Unknown")
    assert not (tmp_path / "s" / "consumequeue" / "T").exists()
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (-1, 0)
    assert bodies(opened(killed(tmp_path / "s"))) == []
    assert put(store, b"new").queue_offset == 0
    store.close()
    store = opened(tmp_path / "s")
    assert bodies(store) == [b"new"]
    assert bodies(store, "Other") == [b"other"]


def test_a_topic_deleted_while_its_message_is_on_the_way_stays_deleted(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    results: list[PutResult] = []
    store.append(message(b"late"), results.append)
    executor.run_turn()
    tell = executor.work()
    store.delete_topic("T")
    tell()
    assert bodies(store) == []
    store.append(message(b"new"), results.append)
    executor.run()
    assert results[-1].queue_offset == 0
    assert bodies(store) == [b"new"]


def test_many_queues_are_served_with_few_descriptors(tmp_path: Path) -> None:
    disk = Disk()
    settings = replace(SMALL, max_open_consume_queue_files=8, message_index_enable=False)
    store = opened(tmp_path, settings, disk=disk)
    for number in range(120):
        put(store, message(b"%d" % number, topic=f"T{number % 60}", queue_id=number % 3))
    assert disk.most_open < 8 + 12
    assert len(bodies(store, "T7", 1)) == 2
    store.flush()
    store.close()
    assert not [path for path in disk.open_fds.values() if "consumequeue" in str(path)]


def test_the_flush_timer_has_least_pages_and_a_thorough_round(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(ASYNC, flush_interval_consume_queue_ms=1 << 60))
    assert store.flush_due(START_MS) is False
    put(store, b"small")
    assert store.flush_due(START_MS + 1) is True, "the first round is a thorough one"
    put(store, b"small")
    assert store.flush_due(START_MS + 500) is False
    for _ in range(6):
        put(store, b"x" * 3000)
    assert store.flush_due(START_MS + 1000) is True
    put(store, b"small")
    assert store.flush_due(START_MS + 11_001) is True
    assert store.flushed_offset == store.max_commit_log_offset


def test_delayed_messages_keep_their_time_of_delivery_in_the_queue(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock=clock, delay_of={3: 10_000}.get)
    codes: list[int] = []
    store.listen(lambda batch: codes.extend(result.tags_code for result in each_result(batch)))
    for level in ("3", "99", "x", "0", "9" * 6000):
        put(store, message(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, DELAY=level))
    assert codes == [START_MS + 10_000, 0, 0, 0, 0]


def test_hot_and_cold_are_told_by_the_distance_to_the_end(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, hot_bytes=5000))
    for _ in range(10):
        put(store, b"x" * 1000)
    assert store.is_cold("T", 0, 0)
    assert not store.is_cold("T", 0, 9)
    assert not store.is_cold("T", 0, 10)
    assert not store.is_cold("Unknown", 0, 0)


def test_nothing_is_found_at_places_where_no_record_starts(tmp_path: Path) -> None:
    store = opened(tmp_path)
    result = put(store, b"one")
    for offset in (-1, 1, 50, result.size, 1 << 50):
        assert store.record_at(offset) is None
        assert store.message_at(offset) is None
    assert store.record_at(0, 1 << 30) is None


def test_the_units_of_a_queue_are_those_that_readers_may_see(tmp_path: Path) -> None:
    store = opened(tmp_path)
    results = [put(store, b"%d" % number) for number in range(3)]
    units = parse_units(store.queue_units("T", 0, 1, 10))
    assert [(position, size) for position, size, _ in units] == [
        (result.commit_log_offset, result.size) for result in results[1:]
    ]
    assert store.queue_units("T", 0, 3, 10) == store.queue_units("U", 0, 0, 10) == b""


def test_a_store_closed_by_a_callback_has_everything_in_its_queues(tmp_path: Path) -> None:
    """Seed 100274: an op record waited for the next write when the last answer let the broker stop."""

    def close() -> None:
        store.before_batch(lambda: store.append_all([message(b"late")], lambda _: None))
        assert store.close()

    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    store.append(message(b"first"), lambda _: None)
    store.when_idle(close)
    executor.run()

    assert bodies(opened(tmp_path)) == [b"first", b"late"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_store_is_idle_when_what_waits_for_the_next_batch_is_stored(tmp_path: Path, count: int) -> None:
    """Seed 119545: the broker stopped beside an outcome whose op record was just about to be written."""
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    order: list[str] = []
    store.append(message(b"first"), lambda _: order.append("first"))
    executor.run_turn()

    def add() -> None:
        order.append("added")
        for _ in range(count):
            store.append(message(b"late"), lambda _: order.append("late"))

    store.before_batch(lambda: store.before_batch(add))
    store.when_idle(lambda: order.append("idle"))
    executor.run()

    assert order == ["first", "added", *["late"] * count, "idle"]
    assert store.close()
