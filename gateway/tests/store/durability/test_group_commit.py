"""One batch in flight, the next one gathers; failures dispose of both. Files are there but where a test says not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from librt.strings import BytesWriter
from twisted.internet.task import Clock

from gateway.in_thread import in_this_thread
from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.durability.group_commit import WRITTEN_AT_ONCE_BYTES, GroupCommit
from gateway.store.durability.surroundings import StoreSurroundings, never
from gateway.store.durability.surroundings import at_once as run_at_once
from gateway.store.errors import DiskFull, WriteFailed
from gateway.store.log.log_batch import LogBatch
from gateway.store.put_result import WaitFor
from gateway.tests.store.small_store import Executor

TIMEOUT_S = 5


class Log:
    """The log of a group commit, which notes the calls; its clock is moved by hand.

    :param makes_files: whether each batch has to make a file.
    """

    def __init__(
        self,
        *,
        sync: bool = True,
        fails: Exception | None = None,
        fails_in: str = "write",
        at_once: bool = False,
        makes_files: bool = False,
    ) -> None:
        self.executor = Executor()
        self.clock = Clock()
        self.told: list[str] = []
        self.threads_when_stored: list[int] = []
        self.waits_in_sync = 0
        self.on_stored: Callable[[], None] | None = None
        self.on_hasty: Callable[[], None] | None = None
        self._made = 0
        self._file = MappedFile(FileLayer(), Path("missing"), 0, 8192) if makes_files else None
        self._fails = {fails_in: fails} if fails is not None else {}
        surroundings = StoreSurroundings(
            clock_ms=int,
            soon=run_at_once if at_once else self.executor.soon,
            in_log_thread=in_this_thread if at_once else self.executor.in_thread,
            in_sync=in_this_thread if at_once else self._in_sync,
            later=self._later,
        )
        self.group = GroupCommit(self, self, surroundings, syncs=sync, timeout_ms=TIMEOUT_S * 1000)

    def _in_sync(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        self.waits_in_sync += 1
        self.executor.in_thread(work, done)

    def fail(self, what: str, error: Exception) -> None:
        self._fails[what] = error

    def stored(self, batch: LogBatch) -> None:
        self.told.append(f"stored {batch.start} with {len(batch.waiters)}")
        self.threads_when_stored.append(len(self.executor.threads))
        if self.on_stored is not None:
            self.on_stored()

    def hasty(self, batch: LogBatch) -> None:
        self.told.append(f"hasty {batch.start}")
        if self.on_hasty is not None:
            self.on_hasty()

    def _later(self, delay_ms: int, function: Callable[[], None]) -> Callable[[], None]:
        call = self.clock.callLater(delay_ms / 1000, function)
        return call.cancel

    def new_batch(self) -> LogBatch:
        self._made += 1
        batch = LogBatch(self._made, BytesWriter())
        if self._file is not None:
            batch.writes.append((self._file, 0, []))
        return batch

    def write(self, batch: LogBatch) -> None:
        self._act("write", batch)

    def sync(self, batch: LogBatch) -> None:
        self._act("sync", batch)

    def overdue(self, batch: LogBatch) -> None:
        self.told.append(f"overdue {batch.start}")

    def _act(self, what: str, batch: LogBatch) -> None:
        if what in self._fails:
            raise self._fails[what]
        self.told.append(f"{what} {batch.start}")
        batch.is_written = True

    def failed(self, batch: LogBatch, reason: BaseException) -> None:
        gathered = self.group.restart()
        self.told.append(f"failed {batch.start} and {len(gathered.waiters)}: {reason}")

    def add(self, *, hasty: bool = False) -> None:
        batch = self.group.gathering
        batch.waiters.append((lambda _: None, [], WaitFor.WRITE if hasty else WaitFor.DISK))
        batch.has_hasty = batch.has_hasty or hasty
        self.group.wake()


def test_all_of_one_turn_is_one_batch() -> None:
    log = Log()
    for _ in range(3):
        log.add()
    assert len(log.executor.turn) == 1
    log.executor.run()
    assert log.told == ["write 1", "sync 1", "stored 1 with 3"]
    assert log.group.is_idle


def test_what_comes_while_one_is_in_flight_goes_next_without_a_further_turn() -> None:
    log = Log()
    log.add()
    log.executor.run_turn()
    log.add()
    log.add()
    assert not log.executor.turn
    log.executor.work()()
    assert len(log.executor.threads) == 1
    log.executor.work()()
    assert log.told == ["write 1", "sync 1", "write 2", "stored 1 with 1", "sync 2", "stored 2 with 2"]


def test_the_next_batch_is_on_its_way_before_the_senders_of_the_one_before_are_told() -> None:
    log = Log()
    log.add()
    log.executor.run_turn()
    log.add()
    log.executor.work()()
    assert log.threads_when_stored == [1]
    log.executor.run()
    assert log.threads_when_stored == [1, 0]


@pytest.mark.parametrize("sync", [True, False])
def test_what_is_added_before_the_next_batch_goes_with_it(sync: bool) -> None:
    log = Log(sync=sync)
    log.add()
    log.group.before_next(log.add)
    log.add()
    log.executor.run()
    assert log.told[-1] == "stored 1 with 3"
    assert log.group.is_idle


def test_what_is_to_be_added_goes_without_anything_else_to_go_with() -> None:
    log = Log()
    log.group.before_next(log.add)
    assert len(log.executor.turn) == 1
    log.executor.run_turn()
    assert not log.executor.turn
    log.executor.run()
    assert log.told == ["write 1", "sync 1", "stored 1 with 1"]


def test_what_is_to_be_added_waits_for_the_batch_in_flight_and_is_added_once() -> None:
    log = Log()
    log.add()
    log.executor.run_turn()
    log.group.before_next(log.add)
    log.executor.run()
    assert log.told[-1] == "stored 2 with 1"
    log.add()
    log.executor.run()
    assert log.told[-1] == "stored 3 with 1"


def test_what_is_to_be_added_outlives_a_failed_batch() -> None:
    log = Log(fails=DiskFull("full"), fails_in="sync")
    log.add()
    log.executor.run_turn()
    log.group.before_next(log.add)
    log.executor.work()()
    log._fails.clear()
    log.executor.run()
    assert log.told == ["write 1", "failed 1 and 0: full", "write 3", "sync 3", "stored 3 with 1"]


def test_what_is_to_be_added_by_one_who_adds_goes_too() -> None:
    log = Log()
    log.group.before_next(lambda: log.group.before_next(log.add))
    log.executor.run()
    assert log.told == ["write 1", "sync 1", "stored 1 with 1"]


def test_what_is_to_be_added_is_written_before_the_end() -> None:
    log = Log()
    log.group.before_next(log.add)
    log.group.write_now()
    assert log.told == ["write 1", "sync 1", "stored 1 with 1"]
    assert log.group.is_idle


def test_one_who_fails_to_add_does_not_keep_the_others() -> None:
    log = Log(sync=False)

    def fail() -> None:
        raise ValueError

    log.add()
    log.group.before_next(fail)
    log.group.before_next(log.add)
    log.executor.run()
    log.add()
    log.executor.run()
    assert log.told == ["write 1", "stored 1 with 2", "write 2", "stored 2 with 1"]


def test_what_is_added_at_once_is_a_batch_of_its_own() -> None:
    log = Log(at_once=True)
    log.group.before_next(log.add)
    assert log.told == ["write 1", "sync 1", "stored 1 with 1"]


def test_batches_are_told_in_order_also_by_an_executor_that_runs_at_once() -> None:
    log = Log(at_once=True)
    adds: Iterator[Callable[[], None]] = iter([lambda: log.add(hasty=True), log.add, log.add])

    def more() -> None:
        for add in adds:
            add()
            break

    log.on_stored = more
    log.add(hasty=True)
    told = [line for line in log.told if line.startswith("stored")]
    assert told == [f"stored {number} with 1" for number in (1, 2, 3, 4)]
    assert log.group.is_idle


def test_what_a_callback_between_write_and_sync_appends_is_stored_after_its_batch() -> None:
    log = Log()
    log.on_hasty = log.add
    log.add(hasty=True)
    log.executor.run()
    assert [line for line in log.told if line.startswith("stored")] == ["stored 1 with 1", "stored 2 with 1"]


def test_async_batches_are_written_at_the_end_of_the_turn_in_this_thread() -> None:
    log = Log(sync=False)
    log.add()
    log.add()
    assert log.told == []
    log.executor.run_turn()
    assert log.told == ["write 1", "stored 1 with 2"]
    assert not log.executor.threads


def test_a_batch_that_cannot_be_written_has_failed_at_once() -> None:
    log = Log(fails=DiskFull("no room"))
    log.add()
    log.executor.run_turn()
    assert log.told == ["failed 1 and 0: no room"]
    assert log.group.is_idle


@pytest.mark.parametrize("sync", [True, False])
def test_a_batch_whose_write_meets_a_bug_has_failed_like_any_other(*, sync: bool) -> None:
    log = Log(sync=sync, fails=ValueError("a bug"))
    log.add()
    log.executor.run_turn()
    log.add()
    log.group.write_now()
    assert log.told == ["failed 1 and 0: a bug", "failed 3 and 0: a bug"]
    assert log.group.is_idle


def test_a_batch_that_has_to_make_a_file_is_written_in_the_thread() -> None:
    log = Log(makes_files=True)
    log.add(hasty=True)
    log.executor.run_turn()
    assert log.told == []
    assert log.waits_in_sync == 0
    log.executor.work()()
    assert log.told == ["write 1", "hasty 1"]
    assert log.waits_in_sync == 1, "the sync, which is waited for otherwise than the write"
    log.executor.work()()
    assert log.told == ["write 1", "hasty 1", "sync 1", "stored 1 with 1"]
    assert log.waits_in_sync == 1


@pytest.mark.parametrize(("size", "written"), [(WRITTEN_AT_ONCE_BYTES, True), (WRITTEN_AT_ONCE_BYTES + 1, False)])
def test_the_reactor_does_not_wait_for_a_large_batch(size: int, written: bool) -> None:
    log = Log()
    log.add()
    log.group.gathering.end += size
    log.executor.run_turn()
    assert log.told == (["write 1"] if written else [])
    log.executor.run()
    assert log.told == ["write 1", "sync 1", "stored 1 with 1"]


def test_what_was_gathered_while_the_thread_failed_to_write_goes_with_the_batch() -> None:
    log = Log(makes_files=True, fails=DiskFull("no room"))
    log.add(hasty=True)
    log.executor.run_turn()
    log.add()
    log.executor.run()
    assert log.told == ["failed 1 and 1: no room"]
    assert log.group.is_idle


def test_the_batch_that_landed_is_told_although_the_next_one_cannot_be_written() -> None:
    log = Log()
    log.add()
    log.executor.run_turn()
    log.add()
    log.fail("write", DiskFull("no room"))
    log.executor.work()()
    assert log.told == ["write 1", "sync 1", "failed 2 and 0: no room", "stored 1 with 1"]
    assert log.group.is_idle


def test_a_failed_sync_takes_what_was_gathered_with_it() -> None:
    log = Log(fails=WriteFailed("a bad sector"), fails_in="sync")
    log.add()
    log.executor.run_turn()
    log.add()
    log.executor.run()
    assert log.told == ["write 1", "failed 1 and 1: a bad sector"]
    assert log.group.is_idle


def test_closing_writes_at_once_what_is_gathered() -> None:
    log = Log()
    log.add()
    log.group.write_now()
    assert log.told == ["write 1", "sync 1", "stored 1 with 1"]
    log.executor.run()  # the turn that was asked for finds nothing to do
    assert log.told == ["write 1", "sync 1", "stored 1 with 1"]
    log.group.write_now()
    assert log.group.is_idle


# -- answers before the disk has it -----------------------------------------------------------------------------


def test_who_waits_for_the_write_only_is_told_before_the_sync_begins_and_the_others_after_it() -> None:
    log = Log()
    log.add(hasty=True)
    log.add()
    log.executor.run_turn()
    assert len(log.executor.threads) == 1, "the sync does not wait for the reactor"
    assert log.told == ["write 1", "hasty 1"]
    log.executor.work()()
    assert log.told == ["write 1", "hasty 1", "sync 1", "stored 1 with 2"]


def test_the_sync_is_on_its_way_before_they_are_told() -> None:
    log = Log()
    log.on_hasty = lambda: log.told.append(f"{len(log.executor.threads)} in the thread")
    log.add(hasty=True)
    log.executor.run_turn()
    assert log.told == ["write 1", "hasty 1", "1 in the thread"]


def test_nobody_is_told_early_of_a_write_that_failed_and_nothing_is_synced() -> None:
    log = Log(fails=DiskFull("no room"))
    log.add(hasty=True)
    log.executor.run()
    assert log.told == ["failed 1 and 0: no room"]


def test_a_write_that_fails_unexpectedly_is_not_followed_by_a_sync_that_succeeds() -> None:
    log = Log(fails=ValueError("a bug"))
    log.add(hasty=True)
    log.executor.run_turn()
    assert log.told == ["failed 1 and 0: a bug"]
    assert not log.executor.threads
    assert log.group.is_idle


# -- a disk that does not answer --------------------------------------------------------------------------------


def written_and_waiting() -> Log:
    """A batch that was written, and whose sync does not come back."""
    log = Log()
    log.add()
    log.executor.run_turn()
    assert log.told.pop() == "write 1"
    return log


def test_a_batch_whose_sync_does_not_come_back_is_overdue_after_the_timeout() -> None:
    log = written_and_waiting()
    log.clock.advance(TIMEOUT_S - 0.001)
    assert log.told == []
    log.clock.advance(0.001)
    assert log.told == ["overdue 1"]
    log.executor.run()
    assert log.told[-1] == "stored 1 with 1"
    log.clock.advance(TIMEOUT_S)
    assert log.told[-1] == "stored 1 with 1"
    assert log.clock.getDelayedCalls() == []


def test_a_batch_that_is_not_even_written_is_not_called_stored() -> None:
    log = Log(makes_files=True)
    log.add()
    log.executor.run_turn()
    log.clock.advance(3 * TIMEOUT_S)
    assert log.told == []


def test_many_batches_share_one_timer_and_none_is_overdue_before_its_time() -> None:
    log = Log()
    for _ in range(100):
        log.add()
        log.executor.run()
        log.clock.advance(0.04)
        assert len(log.clock.getDelayedCalls()) == 1
    log.add()
    log.executor.run_turn()
    log.clock.advance(1)  # the timer of the first batch
    assert not any(told.startswith("overdue") for told in log.told)
    log.clock.advance(TIMEOUT_S)
    assert log.told[-1] == "overdue 101"


def test_closing_takes_the_timer_back() -> None:
    log = written_and_waiting()
    log.group.stop_watching()
    assert log.clock.getDelayedCalls() == []
    log.group.stop_watching()


def test_without_a_reactor_nothing_is_ever_overdue() -> None:
    never(1, lambda: pytest.fail("time does not pass"))()


def test_without_a_reactor_the_end_of_the_turn_is_now() -> None:
    ran: list[object] = []
    run_at_once(lambda: ran.append("soon"))
    assert ran == ["soon"]
