"""The moment at which senders are answered, and what readers see by then; the file that is made ahead."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from twisted.internet.task import Clock as TaskClock

from gateway.settings.store import StoreSettings
from gateway.store.disk.paths import StorePaths
from gateway.store.figures import StoreFigures
from gateway.store.log.commit_log import CommitLog
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus, WaitFor
from gateway.telemetry.metrics import Registry
from gateway.tests.store.small_store import (
    ASYNC,
    LOG_FILE_BYTES,
    SMALL,
    START_MS,
    Disk,
    Executor,
    bodies,
    killed,
    later_by,
    log_file,
    message,
    opened,
    put,
    small_store,
)
from wire.message.batch import BatchPart, build_batch
from wire.quick.message_run import MessageRun

AHEAD = replace(SMALL, file_ahead_bytes=LOG_FILE_BYTES // 4)


class Waiting:
    """A store whose thread works when told to, and what its senders were told, in order."""

    def __init__(self, directory: Path, settings: StoreSettings = SMALL, disk: Disk | None = None) -> None:
        self.executor = Executor()
        self.clock = TaskClock()
        self.disk = Disk() if disk is None else disk
        self.directory = directory
        self.store = opened(
            directory,
            settings,
            disk=self.disk,
            soon=self.executor.soon,
            in_thread=self.executor.in_thread,
            later=later_by(self.clock),
        )
        self.told: list[tuple[str, PutStatus]] = []
        self.executor.run()

    def send(self, body: str, wait_for: WaitFor = WaitFor.DISK) -> None:
        self.store.append(message(body.encode()), lambda result: self.told.append((body, result.status)), wait_for)

    def send_both(self, first: str, second: str, wait_for: WaitFor) -> None:
        def told(results: list[PutResult]) -> None:
            self.told.extend((result.message.body.decode(), result.status) for result in results)

        self.store.append_all([message(first.encode()), message(second.encode())], told, wait_for)

    def write_until_the_sync(self) -> None:
        """The batch is written; the sync of it does not return."""
        self.executor.run_turn()
        batch = self.store._group.in_flight
        assert batch is not None
        self.store._log.write(batch)


def seen(store: MessageStore) -> int:
    return store.max_offset("T", 0)


# -- WAIT=false -------------------------------------------------------------------------------------------------


def test_who_does_not_wait_for_the_disk_is_told_when_it_is_written_and_consumers_see_it_when_it_is_durable(
    tmp_path: Path,
) -> None:
    waiting = Waiting(tmp_path)
    waiting.send("waits")
    waiting.send("hasty", WaitFor.WRITE)
    waiting.send_both("hasty 1", "hasty 2", WaitFor.WRITE)
    waiting.executor.run_turn()
    tell = waiting.executor.work()
    assert waiting.told == []
    tell()
    assert waiting.told == [(body, PutStatus.PUT_OK) for body in ("hasty", "hasty 1", "hasty 2")]
    assert seen(waiting.store) == 0
    assert not waiting.store._group.is_idle
    waiting.executor.run()
    assert waiting.told[-1] == ("waits", PutStatus.PUT_OK)
    assert len(waiting.told) == 4, "nobody is told twice"
    assert seen(waiting.store) == 4


def test_a_message_that_was_answered_early_is_not_seen_when_its_sync_fails_and_nothing_is_acknowledged_after_it(
    tmp_path: Path,
) -> None:
    waiting = Waiting(tmp_path)
    waiting.send("hasty", WaitFor.WRITE)
    waiting.send("waits")
    waiting.disk.fail("sync", f"commitlog/{0:020d}")
    waiting.executor.run_turn()
    log_file(tmp_path).touch()  # its making is not what fails
    log_file(tmp_path).write_bytes(bytes(LOG_FILE_BYTES))
    waiting.executor.run()
    assert waiting.told == [("hasty", PutStatus.PUT_OK), ("waits", PutStatus.UNKNOWN_ERROR)]
    assert seen(waiting.store) == 0
    waiting.send("later", WaitFor.WRITE)
    assert waiting.told[-1] == ("later", PutStatus.SERVICE_NOT_AVAILABLE)


def test_with_a_full_disk_nobody_is_told_early(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.disk.fail("write", "commitlog", errno.ENOSPC)
    waiting.send("hasty", WaitFor.WRITE)
    waiting.executor.run()
    assert waiting.told == [("hasty", PutStatus.SERVICE_NOT_AVAILABLE)]
    assert "MiB free" in str(waiting.store.refusal)


def test_in_async_mode_waiting_makes_no_difference(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, ASYNC)
    for wait_for in WaitFor:
        waiting.send(wait_for.name, wait_for)
    waiting.executor.run_turn()
    assert [status for _, status in waiting.told] == [PutStatus.PUT_OK] * 3
    assert not waiting.executor.threads
    assert waiting.clock.getDelayedCalls() == []


# -- syncFlushTimeout -------------------------------------------------------------------------------------------


def test_a_sync_that_takes_too_long_is_answered_as_such_and_the_message_is_stored_in_the_end(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    statuses: list[PutStatus] = []
    waiting.store.listen(lambda outcomes: statuses.extend(outcome.status for outcome in outcomes))
    waiting.send("patient", WaitFor.DISK)
    waiting.send("sender", WaitFor.DISK_OR_TIMEOUT)
    waiting.send_both("a", "b", WaitFor.DISK_OR_TIMEOUT)
    waiting.write_until_the_sync()
    waiting.clock.advance(4.999)
    assert waiting.told == []
    waiting.clock.advance(0.001)
    assert waiting.told == [(body, PutStatus.FLUSH_DISK_TIMEOUT) for body in ("sender", "a", "b")]
    assert waiting.store.figures.flush_timeouts.value == 3
    assert seen(waiting.store) == 0
    waiting.executor.run()
    assert waiting.told[3:] == [("patient", PutStatus.PUT_OK)]
    assert bodies(waiting.store) == [b"patient", b"sender", b"a", b"b"]
    assert statuses == [PutStatus.PUT_OK] * 4


def test_a_batch_whose_sync_takes_too_long_is_answered_once_and_all_its_messages_count(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    parts = [BatchPart(0, body, b"") for body in (b"a", b"b")]
    statuses: list[PutStatus] = []
    run = MessageRun(message(build_batch(parts)))
    waiting.store.append_run(run, lambda told: statuses.extend(each.status for each in told), WaitFor.DISK_OR_TIMEOUT)
    waiting.write_until_the_sync()
    waiting.clock.advance(5)
    assert statuses == [PutStatus.FLUSH_DISK_TIMEOUT]
    assert waiting.store.figures.flush_timeouts.value == 2
    waiting.executor.run()
    assert bodies(waiting.store) == [b"a", b"b"]
    assert waiting.store.figures.stored_messages.value == 2


def test_a_sync_that_fails_after_its_timeout_tells_only_those_who_still_wait(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.send("sender", WaitFor.DISK_OR_TIMEOUT)
    waiting.send("patient")
    waiting.write_until_the_sync()
    waiting.clock.advance(6)
    waiting.disk.fail("sync", "commitlog")
    waiting.executor.run()
    assert waiting.told == [("sender", PutStatus.FLUSH_DISK_TIMEOUT), ("patient", PutStatus.UNKNOWN_ERROR)]
    assert waiting.store.refusal is not None


def test_closing_leaves_no_timer(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.send("one")
    waiting.executor.run()
    assert len(waiting.clock.getDelayedCalls()) == 1
    waiting.store.close()
    assert waiting.clock.getDelayedCalls() == []


# -- sharing syncs ----------------------------------------------------------------------------------------------


def test_many_senders_share_few_syncs(tmp_path: Path) -> None:
    """64 senders, each with one message at a time: at most one sync for ten messages."""
    settings = replace(SMALL, mapped_file_size_commit_log=1 << 20)
    waiting = Waiting(tmp_path, settings)
    figures = waiting.store.figures
    left = dict.fromkeys(range(64), 50)

    def send(sender: int) -> None:
        left[sender] -= 1
        waiting.store.append(message(b"x"), lambda _: send(sender) if left[sender] else None)

    for sender in left:
        send(sender)
    waiting.executor.run()
    assert set(left.values()) == {0}
    assert figures.stored_messages.value == 64 * 50
    assert figures.log_syncs.value <= figures.stored_messages.value / 10


# -- the next file ----------------------------------------------------------------------------------------------


def test_a_batch_in_two_files_is_answered_when_both_are_synced_and_the_place_behind_it_with_them(
    tmp_path: Path,
) -> None:
    executor, disk = Executor(), Disk()
    store = opened(tmp_path, disk=disk, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    results: list[PutResult] = []
    for _ in range(3):
        store.append(message(b"x" * 3000), results.append)
    disk.calls.clear()
    executor.run_turn()
    while not results:
        executor.work()()
    first, second = log_file(tmp_path), log_file(tmp_path, LOG_FILE_BYTES)
    log_calls = [(what, path) for what, path in disk.calls if path in (first, second)]
    zeros = max(number for number, call in enumerate(log_calls) if call == ("write", second))
    assert sorted(log_calls[zeros + 1 :]) == [("sync", first), ("sync", second)]
    assert store._log.files.list[-1]._prepared_to == LOG_FILE_BYTES


def test_the_next_file_is_made_in_the_thread_before_it_is_needed(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, AHEAD)
    following = log_file(tmp_path, LOG_FILE_BYTES)
    for _ in range(2):
        waiting.send("x" * 2500)
        waiting.executor.run()
    assert not following.exists()
    waiting.send("x" * 1500)
    waiting.executor.run_turn()
    waiting.executor.work()()
    assert not following.exists()
    waiting.executor.work()()
    assert following.stat().st_size == LOG_FILE_BYTES
    made = waiting.disk.calls.index(("create", following))
    assert ("sync", tmp_path / "commitlog") in waiting.disk.calls[made:]
    waiting.disk.calls.clear()
    for _ in range(3):
        waiting.send("x" * 2000)
    waiting.executor.run()
    made_later = [path for operation, path in waiting.disk.calls if operation == "create" and path.suffix == ""]
    assert following not in made_later
    assert len(bodies(waiting.store)) == 6


def test_in_async_mode_the_reactor_never_waits_for_a_new_file(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, replace(ASYNC, file_ahead_bytes=LOG_FILE_BYTES // 2))
    for _ in range(30):
        waiting.send("x" * 900)
        waiting.executor.run_turn()
        created = [call for call in waiting.disk.calls if call[0] == "create" and call[1].parent.name == "commitlog"]
        assert created in ([], [("create", log_file(tmp_path))]), "the first one, of an empty store"
        waiting.disk.calls.clear()
        while waiting.executor.threads:
            waiting.executor.work()()
        waiting.disk.calls.clear()
    assert len(bodies(waiting.store)) == 30


def test_a_file_made_ahead_is_gone_after_a_clean_stop_and_served_after_a_kill(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", AHEAD)
    put(store, b"x" * 4000)
    put(store, b"x" * 3000)
    assert log_file(tmp_path / "s", LOG_FILE_BYTES).exists()
    image = killed(tmp_path / "s")
    store.close()
    assert [path.name for path in (tmp_path / "s" / "commitlog").iterdir()] == [f"{0:020d}"]
    for directory in (tmp_path / "s", image):
        again = opened(directory, AHEAD)
        assert len(bodies(again)) == 2
        assert put(again, b"x" * 4000).commit_log_offset == LOG_FILE_BYTES
        again.close()
        assert len(bodies(opened(directory, AHEAD))) == 3


def test_the_only_file_stays_although_it_is_empty_because_its_name_is_where_the_log_goes_on(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path)
    paths.commit_log.mkdir()
    path = log_file(tmp_path, LOG_FILE_BYTES)
    path.write_bytes(bytes(LOG_FILE_BYTES))
    commit_log = CommitLog(Disk(), paths, LOG_FILE_BYTES, StoreFigures(Registry()))
    commit_log.files.load()
    commit_log.move_to(LOG_FILE_BYTES)
    commit_log.remove_files_ahead()
    assert path.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
def test_no_space_for_the_next_file_is_nobodys_trouble_until_it_is_needed(tmp_path: Path, number: int) -> None:
    disk = Disk()
    store = opened(tmp_path, AHEAD, disk=disk)
    put(store, b"x" * 4000)
    disk.fail("create", f"commitlog/{LOG_FILE_BYTES:020d}", number)
    assert put(store, b"x" * 3000).status is PutStatus.PUT_OK
    assert store.refusal is None
    assert put(store, b"small").status is PutStatus.PUT_OK
    assert put(store, b"x" * 4000).status is PutStatus.SERVICE_NOT_AVAILABLE
    disk.fault = None
    store.delete_expired(START_MS)
    assert put(store, b"x" * 4000).commit_log_offset == LOG_FILE_BYTES


def test_a_next_file_whose_sync_fails_stops_the_store(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, AHEAD, disk=disk)
    put(store, b"x" * 4000)
    disk.fail("sync", f"commitlog/{LOG_FILE_BYTES:020d}")
    assert put(store, b"x" * 3000).status is PutStatus.PUT_OK
    assert "could not be made" in str(store.refusal)
    assert put(store, b"next").status is PutStatus.SERVICE_NOT_AVAILABLE


def test_a_store_that_was_never_opened_has_nothing_to_close(tmp_path: Path) -> None:
    small_store(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_messages_whose_queues_cannot_be_written_are_taken_up_to_a_limit_and_again_when_they_can(
    tmp_path: Path, number: int
) -> None:
    disk = Disk()
    store = opened(tmp_path, replace(SMALL, max_unwritten_bytes=2500), disk=disk)
    put(store, b"shown")
    assert store.flush()
    disk.fail("create", "consumequeue", number)
    taken = []
    for _ in range(8):
        taken.append(put(store, message(b"x" * 900, queue_id=1)).status)
        assert not store.flush()
    assert len(bodies(store, queue_id=1)) == 3, "they are in memory"
    assert taken == [PutStatus.PUT_OK] * 3 + [PutStatus.SERVICE_NOT_AVAILABLE] * 5
    assert "the consume queues cannot be written" in str(store.refusal)
    store.look_at_space(store.deletion.look())
    assert put(store, b"still").status is PutStatus.SERVICE_NOT_AVAILABLE
    disk.fault = None
    assert store.flush()
    store.look_at_space(store.deletion.look())
    assert store.refusal is None
    assert len(bodies(store, queue_id=1)) == 3
    assert put(store, b"again").status is PutStatus.PUT_OK
    assert bodies(store) == [b"shown", b"again"]
