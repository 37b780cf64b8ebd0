"""One batch in flight, the next one gathers; failures dispose of both."""

from __future__ import annotations

import pytest

from gateway.store.errors import DiskFull
from gateway.store.group_commit import GroupCommit, at_once, in_this_thread
from gateway.store.log_batch import LogBatch
from gateway.tests.store.small_store import Executor


class Log:
    """What a group commit tells."""

    def __init__(self, *, sync: bool = True, fails: Exception | None = None) -> None:
        self.executor = Executor()
        self.told: list[str] = []
        self._made = 0
        self._fails = fails
        self.group = GroupCommit(
            sync=sync,
            new_batch=self._new_batch,
            write=self._write,
            stored=lambda batch: self.told.append(f"stored {batch.start} with {len(batch.waiters)}"),
            failed=self._failed,
            soon=self.executor.soon,
            in_thread=self.executor.in_thread,
        )

    def _new_batch(self) -> LogBatch:
        self._made += 1
        return LogBatch(self._made)

    def _write(self, batch: LogBatch) -> None:
        if self._fails is not None:
            raise self._fails
        self.told.append(f"write {batch.start}")

    def _failed(self, batch: LogBatch, reason: BaseException) -> None:
        gathered = self.group.restart()
        self.told.append(f"failed {batch.start} and {len(gathered.waiters)}: {reason}")

    def add(self) -> None:
        self.group.gathering.waiters.append((lambda _: None, []))
        self.group.wake()


def test_all_of_one_turn_is_one_batch() -> None:
    log = Log()
    for _ in range(3):
        log.add()
    assert len(log.executor.turn) == 1
    log.executor.run()
    assert log.told == ["write 1", "stored 1 with 3"]
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
    assert log.told == ["write 1", "stored 1 with 1", "write 2", "stored 2 with 2"]


def test_async_batches_are_written_at_the_end_of_the_turn_in_this_thread() -> None:
    log = Log(sync=False)
    log.add()
    log.add()
    assert log.told == []
    log.executor.run_turn()
    assert log.told == ["write 1", "stored 1 with 2"]
    assert not log.executor.threads


def test_a_failed_batch_takes_what_was_gathered_with_it() -> None:
    log = Log(fails=DiskFull("no room"))
    log.add()
    log.executor.run_turn()
    log.add()
    log.executor.run()
    assert log.told == ["failed 1 and 1: no room"]
    assert log.group.is_idle


def test_closing_writes_at_once_what_is_gathered() -> None:
    log = Log()
    log.add()
    log.group.write_now()
    assert log.told == ["write 1", "stored 1 with 1"]
    log.executor.run()  # the turn that was asked for finds nothing to do
    assert log.told == ["write 1", "stored 1 with 1"]
    log.group.write_now()
    assert log.group.is_idle


def test_executors_of_programs_without_reactor_run_at_once() -> None:
    ran: list[object] = []
    at_once(lambda: ran.append("soon"))
    in_this_thread(lambda: 7, ran.append)
    error = OSError("broken")

    def fails() -> None:
        raise error

    in_this_thread(fails, ran.append)
    assert ran == ["soon", 7, error]


def test_a_bug_in_the_blocking_work_is_not_taken_for_a_failing_disk() -> None:
    def bug() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        in_this_thread(bug, lambda _: None)
