"""The failures of the reference broker (T1 to T13) once more, with every state store; and crashes at every place.

The tests are those of ``test_transactions``; only the world is another one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gateway.settings.transaction import TransactionStateStore
from gateway.store.put_result import PutResult
from gateway.tests.transaction.state_stores.stores import OTHERS, follow, world_of
from gateway.tests.transaction.test_transactions import (  # noqa: F401 (pytest runs them here again)
    MakeWorld,
    commit,
    give_up,
    roll_back,
    test_a_commit_delivers_the_message_once_and_leaves_its_evidence,
    test_a_final_message_alone_counts_as_committed,
    test_a_message_whose_outcome_could_not_be_stored_is_checked_again,
    test_a_rollback_leaves_its_evidence_and_no_message,
    test_an_outcome_that_cannot_be_stored_leaves_the_message_pending,
    test_an_unknown_outcome_changes_nothing_and_is_not_answered,
    test_check_counts_and_due_times_survive_a_crash,
    test_one_way_outcomes_are_applied_and_not_answered,
    test_outcomes_of_one_turn_share_one_append_with_the_evidence_of_rollbacks_last,
    test_stop_waits_for_outcomes_on_their_way_and_writes_the_progress,
    test_t1_a_second_commit_after_a_restart_stores_nothing,
    test_t1_a_second_commit_succeeds_and_stores_nothing,
    test_t2_a_contradicting_outcome_is_refused_counted_and_logged,
    test_t2_an_outcome_after_the_message_was_given_up_is_refused,
    test_t2_half_messages_with_one_unique_key_keep_their_own_outcomes_over_a_restart,
    test_t2_the_first_outcome_wins_while_it_is_still_being_stored,
    test_t3_a_commit_while_a_check_is_in_flight_is_the_end_of_it,
    test_t4_checks_add_nothing_to_the_commit_log,
    test_t5_a_check_that_no_connection_takes_is_not_counted,
    test_t5_nothing_is_counted_during_the_immunity_time,
    test_t5_nothing_is_counted_without_a_producer_and_checks_begin_when_one_connects,
    test_t6_the_clients_clock_does_not_matter,
    test_t7_a_half_message_that_cannot_be_checked_does_not_stop_the_others,
    test_t7_an_outcome_that_cannot_be_stored_does_not_hold_up_its_batch,
    test_t7_properties_near_their_limit_are_checked_and_given_up_like_others,
    test_t8_a_group_that_keeps_answering_unknown_is_asked_less_often_and_the_others_are_not,
    test_t8_a_silent_group_leaves_places_in_flight_to_the_others,
    test_t9_a_restart_checks_nothing_that_is_settled,
    test_t10_a_delay_on_a_transactional_message_is_refused_with_its_name,
    test_t11_a_given_up_message_says_why_and_can_be_resumed_once,
    test_t11_a_resumed_message_is_still_pending_after_a_restart,
    test_t12_a_lost_commit_is_made_good_by_the_check,
    test_t13_nothing_is_scheduled_once_all_is_settled,
)
from gateway.tests.transaction.world import COMMIT, ROLLBACK, World
from gateway.transaction.states import State

stores = pytest.mark.parametrize("wanted", OTHERS)


@pytest.fixture(params=OTHERS)
def make_world(tmp_path: Path, request: pytest.FixtureRequest) -> MakeWorld:
    return partial(world_of, tmp_path, request.param)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()


def test_outcomes_leave_no_op_record(world: World) -> None:
    for outcome in (COMMIT, ROLLBACK):
        world.end(world.send(f"k{outcome}"), outcome)
    assert world.finals() == ["k8"]
    assert world.ops() == []
    assert world.transactions.pending.count == 0


@stores
@pytest.mark.parametrize("followed", [False, True], ids=["behind", "followed"])
@pytest.mark.parametrize("act", [commit, roll_back, give_up])
def test_a_crash_at_any_place_of_the_log_leaves_one_outcome(
    tmp_path: Path, wanted: TransactionStateStore, act: Callable[[World, PutResult], None], followed: bool
) -> None:
    origin = tmp_path / "origin"
    world = world_of(origin, wanted)
    world.connect("g")
    neighbour = world.send("before")
    half = world.send("k1")
    if followed:
        follow(world)
    act(world, half)
    world.end(neighbour, COMMIT)
    half_end = half.commit_log_offset + half.size
    for log_end in [end for end in world.log.ends() if end >= half_end]:
        shutil.copytree(origin, tmp_path / f"{log_end}")
        one = world_of(tmp_path / f"{log_end}", wanted, log=world.log.cut(log_end))
        was_final = one.finals().count("k1")
        state = one.transactions.tables.outcomes.state(half.queue_offset)
        follow(one)
        again = world_of(one.directory, wanted, log=one.log.cut(one.log.flushed_offset))
        assert (again.tables.outcomes.state(half.queue_offset) is State.PENDING) == (state is State.PENDING), log_end
        for outcome in (COMMIT, ROLLBACK, COMMIT):
            again.end(half, outcome, from_check=True)
        expected = 1 if was_final or state is State.PENDING else 0
        assert again.finals().count("k1") == expected, log_end
        last = world_of(again.directory, wanted, log=again.log.cut(again.log.flushed_offset))
        assert last.transactions.tables.outcomes.state(half.queue_offset) is not State.PENDING
        assert last.finals().count("k1") == expected, log_end


@stores
def test_a_store_that_was_cut_off_is_made_again_from_the_log(tmp_path: Path, wanted: TransactionStateStore) -> None:
    world = world_of(tmp_path, wanted)
    halves = [world.send(f"k{number}") for number in range(20)]
    for half in halves[::3]:
        world.end(half, COMMIT)
    for half in halves[1::3]:
        world.end(half, ROLLBACK)
    world.stop()
    for path in (tmp_path / "transaction").rglob("*"):
        if path.is_file() and path.name != "state-store":
            path.unlink()
    again = world.restart()
    assert list(again.transactions.pending) == [half.queue_offset for half in halves[2::3]]
    follow(again)
    assert list(again.restart().transactions.pending) == [half.queue_offset for half in halves[2::3]]


@stores
def test_many_lives_with_changes_in_all_of_them(tmp_path: Path, wanted: TransactionStateStore) -> None:
    """Files fill up and go, rows come and go, and what is pending is always the same as in memory."""
    world, waiting = world_of(tmp_path, wanted), []
    for life in range(12):
        waiting += [world.send(f"k{life}.{number}") for number in range(7)]
        if life % 3 == 0:
            follow(world)
        for _ in range(5):
            world.end(waiting.pop(life % 4), ROLLBACK if life % 2 else COMMIT)
        if life % 4 == 1:
            world.stop()
        before = list(world.transactions.pending)
        world = world.restart()
        assert list(world.transactions.pending) == before
        follow(world)
    assert len(world.finals()) == len(set(world.finals())) == 30


@stores
def test_half_messages_that_a_store_was_not_told_of_are_a_metric(tmp_path: Path, wanted: TransactionStateStore) -> None:
    world = world_of(tmp_path, wanted)

    def waiting() -> float:
        samples = world.transactions.counts._registry.samples()
        return {sample.name: sample.value for sample in samples}["rocketmq_gateway_transaction_changes_waiting"]

    for number in range(3):
        world.send(f"k{number}")
    assert waiting() == 3
    follow(world)
    assert waiting() == 0
