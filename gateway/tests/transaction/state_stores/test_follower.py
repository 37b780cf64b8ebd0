"""The updates of a state store: after the log, in order, and again until the state store has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from gateway.in_thread import in_this_thread
from gateway.metadata.topics import NO_TOPICS
from gateway.settings import Settings
from gateway.telemetry.metrics import Registry
from gateway.tests.transaction.world import HOST, Offsets, ProducerTable, without_turns
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.needs import TransactionNeeds
from gateway.transaction.state_stores.changes import Changes, Known, Prepared, Settled, StatesLost, StatesUnavailable
from gateway.transaction.state_stores.follower import POSITION_STEP_BYTES, StateFollower
from gateway.transaction.states import State
from gateway.transaction.tables.transaction_tables import TransactionTables


class Log:
    """A log that knows how far it is written and on disk."""

    def __init__(self) -> None:
        self.max_commit_log_offset = self.flushed_offset = 0


class States:
    """Remembers what it was told."""

    keeps_settled = False

    def __init__(self) -> None:
        self.told: list[Changes] = []
        self.failure: Exception | None = None
        self.closed = False

    def load(self, first: int, end: int, log_end: int) -> Known:
        return Known()

    def found(self, prepared: Prepared) -> None:
        """Not asked."""

    def begin(self, first: int, position: int) -> None:
        """Not asked."""

    def apply(self, changes: Changes) -> None:
        if self.failure is not None:
            raise self.failure
        self.told.append(changes)

    def close(self) -> None:
        self.closed = True


class Follower:
    """One with everything around it; ``work`` lets its thread do what it was given."""

    def __init__(self, limit: int = 3) -> None:
        self.log, self.clock, self.states = Log(), Clock(), States()
        self.waiting: list[tuple[Callable[[], object], Callable[[Any], None]]] = []
        self.tables = TransactionTables(Settings(), TransactionCounts(Registry()))
        log: Any = self.log
        in_thread = self.work_later
        needs = TransactionNeeds(
            reactor=self.clock,
            clock_ms=lambda: round(self.clock.seconds() * 1_000),
            in_thread=in_thread,
            read=without_turns(in_thread),
            soon=lambda function: function(),
            producers=ProducerTable(),
            offsets=Offsets(),
            host=HOST,
            topics=NO_TOPICS,
        )
        self.follower = StateFollower(self.tables, log, needs, limit)
        self.follower.begin(self.states, [], [])
        self.follower.start()
        self.advance()

    def work_later(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def half(self, offset: int) -> None:
        half = Prepared(offset, 100 * offset, 100, 0, "g")
        self.tables.pending.add(offset, (half.place, half.size), 0, 0, self.tables.turns.join("g"))
        self.follower.prepared(half)
        self.visible(100 * offset + 100)

    def visible(self, log_end: int, *, flushed: bool = True) -> None:
        self.log.max_commit_log_offset = log_end
        if flushed:
            self.log.flushed_offset = log_end
        self.follower.visible(log_end)

    def work(self) -> None:
        for work, done in [self.waiting.pop(0) for _ in self.waiting[:]]:
            in_this_thread(work, done)

    def advance(self, seconds: float = 1.0) -> None:
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)
            self.work()

    @property
    def told(self) -> list[list[int]]:
        return [[half.offset for half in changes.prepared] for changes in self.states.told]


@pytest.fixture
def following() -> Follower:
    return Follower()


def test_changes_of_a_moment_are_told_together_with_how_far_they_go(following: Follower) -> None:
    following.half(0)
    following.half(1)
    following.follower.settled(Settled(0, 0, State.COMMITTED, 200, 50))
    following.visible(250)
    following.tables.pending.remove(0)
    following.advance()
    [changes] = following.states.told
    assert ([half.offset for half in changes.prepared], [half.offset for half in changes.settled]) == ([0, 1], [0])
    assert (changes.position, changes.first, changes.half_end, changes.is_whole) == (250, 1, 2, False)


def test_nothing_is_told_before_its_records_are_on_disk(following: Follower) -> None:
    following.half(0)
    following.log.flushed_offset = 99
    following.advance()
    assert following.told == []
    following.half(1)
    following.log.flushed_offset = 100
    following.advance(0.2)
    assert following.told == [[0]], "what came later waits for its own records"
    following.log.flushed_offset = 200
    following.advance()
    assert following.told == [[0], [1]]


def test_an_outcome_is_not_told_before_what_settles_it_is_on_disk(following: Follower) -> None:
    following.half(0)
    following.advance()
    following.follower.settled(Settled(0, 0, State.ROLLED_BACK, 100, 50))
    following.visible(150, flushed=False)
    following.advance()
    assert len(following.states.told) == 1
    following.visible(150)
    following.advance()
    assert [half.offset for half in following.states.told[1].settled] == [0]


def test_one_batch_follows_the_other(following: Follower) -> None:
    following.half(0)
    following.clock.advance(0.2)
    following.half(1)
    following.clock.advance(0.2)
    assert len(following.waiting) == 1
    following.advance()
    assert following.told == [[0], [1]]


def test_nothing_is_scheduled_while_nothing_happens(following: Follower) -> None:
    following.half(0)
    following.advance()
    following.visible(10_000)
    assert following.clock.getDelayedCalls() == []


def test_the_position_moves_on_with_the_log_although_there_are_no_transactions(following: Follower) -> None:
    following.visible(POSITION_STEP_BYTES - 1)
    following.advance()
    assert following.states.told == []
    following.visible(POSITION_STEP_BYTES)
    following.advance()
    assert [changes.position for changes in following.states.told] == [POSITION_STEP_BYTES]


def test_a_store_that_fails_is_told_the_same_again_and_half_messages_are_refused_beyond_the_limit(
    following: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    following.states.failure = StatesUnavailable("no database")
    for offset in range(3):
        following.half(offset)
        following.advance(1.5)
        assert following.follower.refusal is None
    following.half(3)
    assert following.follower.refusal == (
        "4 half messages wait for the transaction state store (gateway.transactionChangesLimit=3), "
        "which has failed for 4 s: no database"
    )
    following.states.failure = None
    following.advance(2)
    assert following.told == [[0], [1, 2, 3]]
    assert following.follower.refusal is None
    assert [record.message for record in caplog.records].count(
        "transaction state store failed; tried again every second"
    ) == 1


def test_a_slow_store_does_not_refuse(following: Follower) -> None:
    for offset in range(10):
        following.half(offset)
        following.clock.advance(1)
    assert following.follower.waiting == 10
    assert following.follower.refusal is None


def test_a_store_that_lost_what_it_was_told_is_told_all_that_is_pending(following: Follower) -> None:
    following.half(0)
    following.half(1)
    following.advance()
    following.tables.pending.remove(0)
    following.states.failure = StatesLost("empty")
    following.half(2)
    following.advance(0.1)
    following.states.failure = None
    following.half(3)
    following.advance(2)
    whole = following.states.told[1]
    assert whole.is_whole
    assert ([half.offset for half in whole.prepared], whole.first) == ([1, 2], 1)
    assert following.told[2:] == [[3]]


def test_a_store_that_says_it_lost_everything_again_and_again_is_asked_once_a_second(following: Follower) -> None:
    following.states.failure = StatesLost("empty")
    following.half(0)
    following.advance(3)
    assert following.follower._reason == "empty"
    following.states.failure = None
    following.advance(2)
    assert following.states.told[-1].is_whole


@pytest.mark.parametrize("flushed", [True, False])
def test_the_end_tells_what_is_left_if_it_is_on_disk_and_closes(following: Follower, flushed: bool) -> None:
    following.half(0)
    following.visible(150, flushed=flushed)
    stopped: list[bool] = []
    following.follower.stop(lambda: stopped.append(following.states.closed))
    following.work()
    following.work()
    assert following.told == ([[0]] if flushed else [])
    assert stopped == [True]
    assert following.clock.getDelayedCalls() == []


def test_the_end_waits_for_a_batch_on_its_way_and_does_not_for_a_store_that_fails(following: Follower) -> None:
    following.half(0)
    following.clock.advance(0.2)
    following.half(1)
    following.states.failure = StatesUnavailable("no database")
    stopped: list[bool] = []
    following.follower.stop(lambda: stopped.append(following.states.closed))
    assert stopped == []
    following.work()
    following.work()
    assert stopped == [True]
    assert following.told == []


def test_what_a_start_found_is_told_first() -> None:
    following = Follower()
    half = Prepared(7, 700, 100, 0, "g")
    following.follower.begin(following.states, [half], [Settled(7, 700, State.COMMITTED, 800, 90)])
    following.log.flushed_offset = 900
    following.follower.start()
    following.advance()
    [changes] = following.states.told
    assert (changes.prepared, [settled.offset for settled in changes.settled]) == ([half], [7])


def test_a_store_that_is_begun_anew_is_told_all_that_is_pending_as_soon_as_it_is_reached() -> None:
    following = Follower()
    following.states.failure = StatesUnavailable("no database")
    following.tables.pending.add(4, (400, 100), 0, 0, following.tables.turns.join("g"))
    following.log.max_commit_log_offset = following.log.flushed_offset = 500
    following.follower.begin_anew(following.states)
    following.follower.start()
    following.advance(2)
    assert following.told == []
    following.states.failure = None
    following.advance(2)
    [whole] = following.states.told
    assert ([half.offset for half in whole.prepared], whole.position, whole.is_whole) == ([4], 500, True)


@pytest.mark.parametrize("keeps_settled", [True, False])
def test_what_was_settled_meanwhile_does_not_count_unless_the_store_wants_it(
    following: Follower, keeps_settled: bool
) -> None:
    following.states.keeps_settled = keeps_settled
    following.states.failure = StatesUnavailable("no database")
    following.half(0)
    following.advance(1)
    for offset in range(1, 50):
        following.half(offset)
        if offset % 20:
            following.follower.settled(Settled(offset, 100 * offset, State.COMMITTED, 100 * offset, 100))
        refused = following.follower.refusal is not None
        assert refused == (keeps_settled and offset >= 3)
    following.states.failure = None
    following.advance(3)
    told = [half for changes in following.states.told for half in changes.prepared]
    assert len(told) == (50 if keeps_settled else 3)
