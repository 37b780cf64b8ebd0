"""What senders are answered, and when messages are seen, while slaves report, are late, or are missing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from twisted.internet.task import Clock as TaskClock

from gateway.replication.master.copies import Copies
from gateway.replication.master.stage import ReplicatedStage
from gateway.settings import Settings
from gateway.settings.replication import BrokerRole
from gateway.store.durability.surroundings import BatchObserver
from gateway.store.log.log_batch import LogBatch
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutStatus, WaitFor
from gateway.telemetry.metrics import Registry
from gateway.tests.replication.around import surroundings
from gateway.tests.store.small_store import SMALL, Executor, later_by, message, opened, read_all

OK, LATE, NOBODY = PutStatus.PUT_OK, PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.SLAVE_NOT_AVAILABLE
WAITS = [WaitFor.DISK, WaitFor.DISK_OR_TIMEOUT]
TIMEOUT_S = 3.0


class Replicated:
    """A store whose messages wait for one slave; the test is the slave."""

    def __init__(self, directory: Path, *, max_unreplicated_bytes: int = 1 << 20, gap_bytes: int = 1 << 20) -> None:
        self.executor, self.clock = Executor(), TaskClock()
        self.copies = Copies(1, gap_bytes)
        self.settings = Settings(
            broker_role=BrokerRole.SYNC_MASTER, max_unreplicated_bytes=max_unreplicated_bytes, slave_timeout_ms=3_000
        )
        self.told: list[tuple[str, PutStatus]] = []
        self.listened: list[PutStatus] = []
        self.moved = 0
        self.files: list[int] = []
        """The number of files of each batch."""
        self.registry = Registry()
        self.store: MessageStore = opened(
            directory,
            SMALL,
            soon=self.executor.soon,
            in_thread=self.executor.in_thread,
            later=later_by(self.clock),
            stage=self._stage,
        )
        self.store.listen(lambda outcomes: self.listened.extend(outcome.status for outcome in outcomes))
        self.executor.run()

    def _stage(self, after: BatchObserver) -> ReplicatedStage:
        self.stage = ReplicatedStage(
            after,
            self.copies,
            self.settings,
            surroundings(
                reactor=self.clock,
                clock_ms=lambda: -round(self.clock.seconds() * 1_000),  # a time of day that is set back all the time
                later=later_by(self.clock),
                registry=self.registry,
            ),
            moved=self._moved,
            lags=lambda reason: self.store.replicas_lag(reason),
        )
        return self.stage

    def _moved(self, batch: LogBatch) -> None:
        self.moved += 1
        content = batch.content(1 << 20)
        self.files.append(len(batch.writes))
        assert content == (self.store.log_bytes(batch.start, 1 << 20) if self.files[-1] == 1 else None)

    def send(self, body: str, wait_for: WaitFor = WaitFor.DISK_OR_TIMEOUT) -> None:
        self.store.append(message(body.encode()), lambda result: self.told.append((body, result.status)), wait_for)
        self.executor.run()

    def report(self, end: int | None = None) -> None:
        self.copies.report(1, self.store.durable_end if end is None else end)
        self.stage.reported()
        self.executor.run()

    @property
    def seen(self) -> list[str]:
        return [found.body.decode() for found in read_all(self.store)]


@pytest.fixture
def replicated(tmp_path: Path) -> Replicated:
    return Replicated(tmp_path)


@pytest.mark.parametrize("wait_for", WAITS)
def test_a_message_is_seen_and_answered_ok_once_the_slave_has_it(replicated: Replicated, wait_for: WaitFor) -> None:
    replicated.report(0)
    replicated.send("one", wait_for)
    assert (replicated.told, replicated.seen, replicated.moved) == ([], [], 1)
    replicated.report(replicated.store.durable_end - 1)
    assert (replicated.told, replicated.seen) == ([], [])
    replicated.report()
    assert (replicated.told, replicated.seen) == ([("one", OK)], ["one"])
    replicated.clock.advance(10 * TIMEOUT_S)
    assert len(replicated.told) == 1


def test_the_bytes_of_a_batch_are_those_on_disk_unless_they_are_in_two_files(replicated: Replicated) -> None:
    while 2 not in replicated.files:
        replicated.send("x" * 100)
    assert 1 in replicated.files
    assert replicated.moved < 10_000


@pytest.mark.parametrize("wait_for", WAITS)
def test_without_a_slave_senders_are_answered_at_once_and_a_later_slave_makes_the_message_seen(
    replicated: Replicated, wait_for: WaitFor
) -> None:
    replicated.send("one", wait_for)
    assert (replicated.told, replicated.seen) == ([("one", NOBODY)], [])
    replicated.report(0)
    assert (replicated.told, replicated.seen) == ([("one", NOBODY)], [])
    replicated.report()
    assert (len(replicated.told), replicated.seen, replicated.listened) == (1, ["one"], [OK])


@pytest.mark.parametrize("wait_for", WAITS)
def test_with_a_late_slave_senders_are_answered_after_the_timeout_each_at_its_own(
    replicated: Replicated, wait_for: WaitFor
) -> None:
    replicated.report(0)
    replicated.send("one", wait_for)
    replicated.clock.advance(1)
    replicated.send("two", wait_for)
    replicated.clock.advance(TIMEOUT_S - 1.001)
    assert replicated.told == []
    replicated.clock.advance(0.001)
    assert replicated.told == [("one", LATE)]
    replicated.clock.advance(1)
    assert (replicated.told, replicated.seen) == ([("one", LATE), ("two", LATE)], [])
    replicated.report()
    assert (len(replicated.told), replicated.seen, replicated.listened) == (2, ["one", "two"], [OK, OK])
    replicated.send("three", wait_for)
    replicated.report()
    assert replicated.told[2:] == [("three", OK)]


def test_an_operator_is_told_once_that_copies_are_missing_and_that_they_are_there_again(
    replicated: Replicated, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for body in ("one", "two"):
            replicated.send(body)
        replicated.report()
        for body in ("three", "four"):
            replicated.send(body)
            replicated.report()
    assert [record.getMessage() for record in caplog.records if record.name == "gateway.replication"] == [
        "senders are answered without a copy",
        "slaves have what senders wait for again",
    ]


def test_who_does_not_wait_for_the_disk_does_not_wait_for_a_slave(replicated: Replicated) -> None:
    replicated.report(0)
    replicated.send("hasty", WaitFor.WRITE)
    assert (replicated.told, replicated.seen) == ([("hasty", OK)], [])
    replicated.report()
    assert (len(replicated.told), replicated.seen) == (1, ["hasty"])


def test_messages_of_one_batch_wait_together(replicated: Replicated) -> None:
    replicated.report(0)
    outcomes: list[PutStatus] = []
    replicated.store.append_all(
        [message(b"one"), message(b"two")], lambda results: outcomes.extend(result.status for result in results)
    )
    replicated.executor.run()
    replicated.clock.advance(TIMEOUT_S)
    assert outcomes == [LATE, LATE]
    replicated.report()
    assert (replicated.listened, replicated.seen) == ([OK, OK], ["one", "two"])


def test_a_slave_far_behind_is_not_waited_for(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path, gap_bytes=10)
    replicated.report(0)
    replicated.send("one")
    replicated.send("two")
    assert replicated.told == [("two", NOBODY)], "one begins where the slave is"


def test_too_much_without_a_copy_refuses_sends_with_the_reason_until_half_of_it_is_replicated(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path, max_unreplicated_bytes=1_000)
    ends: list[int] = []
    while replicated.store.refusal is None:
        replicated.send("x" * 50)
        ends.append(replicated.store.durable_end)
    assert replicated.store.refusal == (
        f"{ends[-1]} bytes of messages wait for slaves, more than gateway.maxUnreplicatedBytes allows; "
        "see the broker's log"
    )
    replicated.send("refused")
    assert replicated.told[-1] == ("refused", PutStatus.SERVICE_NOT_AVAILABLE)
    replicated.store.look_at_space(replicated.store.deletion.look())
    assert replicated.store.refusal is not None, "a look at the disk does not end it"
    replicated.report(ends[0])
    assert replicated.store.refusal is not None
    replicated.report(ends[-1])
    assert replicated.store.refusal is None
    replicated.send("taken")
    replicated.report()
    assert replicated.told[-1] == ("taken", OK)


def test_a_failing_callback_keeps_no_other_sender_without_an_answer(replicated: Replicated) -> None:
    def fail(_result: object) -> None:
        raise ValueError("told")

    replicated.store.append(message(b"bad"), fail)
    replicated.send("good")
    assert replicated.told == [("good", NOBODY)]


def test_a_stop_waits_for_answers_then_passes_everything_on_and_says_what_lacks_a_copy(
    replicated: Replicated, tmp_path: Path
) -> None:
    replicated.report(0)
    replicated.send("one")
    steps: list[str] = []
    replicated.stage.when_answered(lambda: steps.append("answered"))
    replicated.store.when_idle(lambda: steps.append("idle"))
    assert steps == []
    replicated.clock.advance(TIMEOUT_S)
    assert (steps, replicated.told) == (["answered"], [("one", LATE)])
    replicated.stage.let_all_pass()
    assert steps == ["answered", "idle"]
    replicated.send("last")
    assert (replicated.told[1:], replicated.seen) == ([("last", LATE)], ["one", "last"])
    assert replicated.store.close()
    assert [found.body for found in read_all(opened(tmp_path, SMALL))] == [b"one", b"last"]


def test_nobody_to_answer_is_told_at_once(replicated: Replicated) -> None:
    steps: list[str] = []
    replicated.stage.when_answered(lambda: steps.append("answered"))
    assert steps == ["answered"]
