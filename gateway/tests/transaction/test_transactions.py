"""The failures of the reference broker, each as a test; and crashes at every place of the log.

Here with op records; ``state_stores.test_same_promises`` runs them with the other state stores.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.errors import RequestRefused
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.transaction.world import COMMIT, ROLLBACK, TRANSACTIONS, UNKNOWN, World
from gateway.transaction.limits import TransactionLimits
from gateway.transaction.records.half_messages import DISCARD_REASON, refuse_reason
from gateway.transaction.states import State
from wire.codes import RequestCode, ResponseCode

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(tmp_path: Path) -> MakeWorld:
    return partial(World, tmp_path)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()


def test_a_commit_delivers_the_message_once_and_leaves_its_evidence(world: World) -> None:
    half = world.send("k1")
    answer = world.end(half, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    [final] = world.log.messages("orders")
    assert (final.queue_id, final.flag, final.body) == (2, 7, b"body of k1")
    assert final.prepared_transaction_offset == half.commit_log_offset
    assert world.settled() == [0]
    assert world.transactions.pending.count == 0


def test_a_rollback_leaves_its_evidence_and_no_message(world: World) -> None:
    half = world.send("k1")
    answer = world.end(half, ROLLBACK)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert world.finals() == []
    assert world.settled() == [0]


def test_outcomes_of_one_turn_share_one_append_with_the_evidence_of_rollbacks_last(world: World) -> None:
    halves = [world.send(f"k{number}") for number in range(5)]
    appends = world.log.appends
    for number, half in enumerate(halves):
        world.end(half, ROLLBACK if number == 2 else COMMIT, oneway=True, turn=False)
    world.turn()
    assert world.log.appends == appends + 1
    assert world.finals() == ["k0", "k1", "k3", "k4"]
    assert world.settled() == [0, 1, 2, 3, 4]
    [rolled_back] = [place for offset, place in world.evidence() if offset == 2]
    assert rolled_back > world.log.messages("orders")[-1].commit_log_offset


def test_op_records_name_the_outcomes_of_one_append_together(tmp_path: Path) -> None:
    world = World(tmp_path)
    halves = [world.send(f"k{number}") for number in range(3)]
    for half in halves:
        world.end(half, COMMIT, oneway=True, turn=False)
    world.turn()
    world.end(world.send("k3"), ROLLBACK)
    assert world.ops() == ["0,1,2,", "3,"]


def test_one_way_outcomes_are_applied_and_not_answered(world: World) -> None:
    half = world.send("k1")
    assert world.end(half, COMMIT, oneway=True) is None
    assert world.finals() == ["k1"]


# -- the reference broker's failures, by their numbers ------------------------------------------------------


def test_t1_a_second_commit_succeeds_and_stores_nothing(world: World) -> None:
    half = world.send("k1")
    for _ in range(3):
        answer = world.end(half, COMMIT)
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS
    assert world.finals() == ["k1"]
    assert world.settled() == [0]
    assert world.transactions.counts.repeats.value == 2


def test_t1_a_second_commit_after_a_restart_stores_nothing(world: World) -> None:
    half = world.send("k1")
    world.end(half, COMMIT)
    world.wait(2)
    world.stop()
    again = world.restart()
    answer = again.end(half, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert again.finals() == ["k1"]


@pytest.mark.parametrize(("first", "second", "finals"), [(ROLLBACK, COMMIT, []), (COMMIT, ROLLBACK, ["k1"])])
def test_t2_a_contradicting_outcome_is_refused_counted_and_logged(
    world: World, caplog: pytest.LogCaptureFixture, first: int, second: int, finals: list[str]
) -> None:
    half = world.send("k1")
    world.end(half, first, from_check=True)
    with caplog.at_level(logging.WARNING, "gateway"):
        answer = world.end(half, second)
    assert answer is not None
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert world.finals() == finals
    assert world.transactions.counts.conflicts.value == 1
    [record] = [record for record in caplog.records if record.message == "contradicting outcome refused"]
    facts = vars(record)["facts"]
    assert facts["first_by"].startswith("check ")
    assert facts["refused_by"].startswith("producer ")


def test_t2_the_first_outcome_wins_while_it_is_still_being_stored(world: World) -> None:
    half = world.send("k1")
    world.log.holds = True
    assert world.end(half, ROLLBACK) is None
    refused = world.end(half, COMMIT)
    assert refused is not None
    assert refused.code == ResponseCode.ILLEGAL_OPERATION
    assert world.end(half, ROLLBACK) is None
    world.log.release()
    assert [answer.code for answer in world.stranger.answers[-2:]] == [ResponseCode.SUCCESS] * 2
    assert world.finals() == []


def test_t2_half_messages_with_one_unique_key_keep_their_own_outcomes_over_a_restart(world: World) -> None:
    first, second = world.send("k1"), world.send("k1")
    world.end(first, ROLLBACK)
    world.wait(0.5)  # so that a state store knows it, and the next start need not read how it was settled
    again = world.restart()
    assert settled_as(again, first, COMMIT) == ResponseCode.ILLEGAL_OPERATION
    again.end(second, COMMIT)
    again.wait(0.5)
    after = again.restart()
    for half, outcome, other in ((first, ROLLBACK, COMMIT), (second, COMMIT, ROLLBACK)):
        assert settled_as(after, half, other) == ResponseCode.ILLEGAL_OPERATION
        assert settled_as(after, half, outcome) == ResponseCode.SUCCESS
    assert after.finals() == ["k1"]


def settled_as(world: World, half: PutResult, outcome: int) -> int:
    answer = world.end(half, outcome)
    assert answer is not None
    return answer.code


def test_t2_an_outcome_after_the_message_was_given_up_is_refused(world: World) -> None:
    world.connect("g")
    half = world.send("k1")
    world.wait(6 + 3 * 30 + 2)
    assert world.tables.outcomes.state(half.queue_offset) is State.DISCARDED
    answer = world.end(half, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert world.finals() == []


def test_t3_a_commit_while_a_check_is_in_flight_is_the_end_of_it(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1")
    world.wait(7)
    assert len(producer.checks) == 1
    world.end(half, COMMIT)
    world.end(half, COMMIT, from_check=True)
    world.wait(200)
    assert len(producer.checks) == 1
    assert world.finals() == ["k1"]
    assert world.half_count() == 1


def test_t4_checks_add_nothing_to_the_commit_log(world: World) -> None:
    producer = world.connect("g")
    world.send("k1", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "20"})
    log_end = world.log.max_commit_log_offset
    world.wait(90)
    assert len(producer.checks) == 3
    assert world.log.max_commit_log_offset == log_end


def test_t5_nothing_is_counted_without_a_producer_and_checks_begin_when_one_connects(world: World) -> None:
    half = world.send("k1")
    world.wait(1_000)
    assert world.transactions.pending.checks(half.queue_offset) == 0
    producer = world.connect("g")
    world.wait(1.5)
    assert [header.tran_state_table_offset for header, _ in producer.checks] == [half.queue_offset]
    assert world.transactions.pending.checks(half.queue_offset) == 1


def test_a_new_group_beyond_the_limit_is_refused_and_the_others_go_on(make_world: MakeWorld) -> None:
    world = make_world(limits=TransactionLimits(open_groups=4))
    halves = [world.send(f"k{number}", f"g{number}", admit=True) for number in range(3)]
    with pytest.raises(RequestRefused, match="the limit is 4") as refused:
        world.send("k3", "g3", admit=True)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    world.send("k4", "g2", admit=True)
    world.end(halves[0], COMMIT, group="g0")
    world.send("k5", "g3", admit=True)
    assert world.half_count() == 5


def test_groups_whose_half_messages_stay_hidden_keep_their_places(make_world: MakeWorld) -> None:
    world = make_world(limits=TransactionLimits(open_groups=4))
    world.log.holds = True
    halves: list[PutResult] = []
    for number in range(3):
        half = world.transactions.half_of(world.message(f"k{number}", f"g{number}"))
        world.log.append(half, halves.append)
    for _ in range(4):
        world.wait(70)
        with pytest.raises(RequestRefused, match="the limit is 4"):
            world.transactions.half_of(world.message("late", "late"))
    world.log.holds = False
    world.log.release()
    assert world.tables.turns.group_count == 3
    world.end(halves[2], COMMIT, group="g2")
    world.transactions.half_of(world.message("late", "late"))


def test_t5_nothing_is_counted_during_the_immunity_time(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "300"})
    world.wait(299)
    assert producer.checks == []
    assert world.transactions.pending.checks(half.queue_offset) == 0
    world.wait(2)
    assert len(producer.checks) == 1


def test_t5_a_check_that_no_connection_takes_is_not_counted(world: World) -> None:
    full, free = world.connect("g", "full"), world.connect("g", "free")
    full.takes = False
    half = world.send("k1")
    world.wait(7)
    assert len(free.checks) == 1
    free.takes = False
    world.wait(60)
    assert world.transactions.pending.checks(half.queue_offset) == 1


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_t6_the_clients_clock_does_not_matter(world: World, skew_ms: int) -> None:
    producer = world.connect("g")
    message = world.message("k1")
    message.born_at_ms += skew_ms
    world.log.append(world.transactions.half_of(message), lambda result: None)
    world.wait(5.9)
    assert producer.checks == []
    world.wait(0.3)
    assert len(producer.checks) == 1


def test_t7_a_half_message_that_cannot_be_checked_does_not_stop_the_others(world: World) -> None:
    producer = world.connect("g")
    bad = world.transactions.half_of(world.message("bad"))
    bad.properties = bad.properties.replace(b"REAL_QID\x012", b"REAL_QID\x01x")
    world.log.append(bad, lambda result: None)
    lost = world.send("lost")
    world.send("good")
    del world.log.records[lost.commit_log_offset]
    world.wait(7)
    assert [message.unique_key for _, message in producer.checks] == ["good"]
    assert world.tables.outcomes.state(lost.queue_offset) is State.DISCARDED


def test_t7_properties_near_their_limit_are_checked_and_given_up_like_others(world: World) -> None:
    producer = world.connect("g")
    filler = 32_767 - len(world.transactions.half_of(world.message("k1")).properties) - len("filler\x01\x02")
    half = world.send("k1", properties={"filler": "x" * filler})
    world.wait(100)
    assert len(producer.checks) == 3
    assert world.tables.outcomes.state(half.queue_offset) is State.DISCARDED
    assert len(world.log.messages(CHECK_MAX_TOPIC)) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (PutStatus.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL),
        (PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_t7_an_outcome_that_cannot_be_stored_does_not_hold_up_its_batch(
    world: World, status: PutStatus, code: ResponseCode
) -> None:
    halves = [world.send(key) for key in ("k0", "bad", "k2")]
    world.log.refuses = lambda message: status if message.body == b"body of bad" else None
    for half in halves:
        world.end(half, COMMIT, turn=False)
    world.turn()
    assert world.finals() == ["k0", "k2"]
    codes = sorted(answer.code for answer in world.stranger.answers)
    assert codes == [ResponseCode.SUCCESS, ResponseCode.SUCCESS, code]
    assert world.tables.outcomes.state(halves[1].queue_offset) is State.PENDING


def test_t8_a_silent_group_leaves_places_in_flight_to_the_others(make_world: MakeWorld) -> None:
    world = make_world(
        settings=replace(TRANSACTIONS, checks_in_flight=4), limits=TransactionLimits(check_answer_timeout_ms=2_000)
    )
    silent, lively = world.connect("silent"), world.connect("lively")
    for number in range(40):
        world.send(f"s{number}", group="silent")
    halves = [world.send(f"l{number}", group="lively") for number in range(40)]
    world.wait(6)
    for _ in range(200):
        world.wait(0.1)
        for header, _ in lively.checks:
            world.end(halves[header.tran_state_table_offset - 40], COMMIT, group="lively", from_check=True)
    assert len(lively.checks) == 40
    assert 0 < len(silent.checks) < 40


def test_t8_a_group_that_keeps_answering_unknown_is_asked_less_often_and_the_others_are_not(
    make_world: MakeWorld,
) -> None:
    world = make_world(settings=replace(TRANSACTIONS, checks_in_flight=100, transaction_check_max=50))
    unsure, sure = world.connect("unsure"), world.connect("sure")
    halves = [world.send(f"u{number}", group="unsure") for number in range(20)]
    halves += [world.send("s", group="sure")]

    answered = {"unsure": 0, "sure": 0}

    def answer() -> None:
        for producer, group in ((unsure, "unsure"), (sure, "sure")):
            for header, _ in producer.checks[answered[group] :]:
                answered[group] += 1
                world.end(halves[header.tran_state_table_offset], UNKNOWN, group=group, from_check=True, oneway=True)

    for _ in range(400):
        world.wait(1)
        answer()
    # Every 30 s it is 14 checks of each; 16 unknown answers in a row double that time, 64 make it four times.
    assert len(sure.checks) == 14
    assert 20 * 3 <= len(unsure.checks) <= 20 * 7
    assert len(world.log.messages(CHECK_MAX_TOPIC)) == 0


def test_t9_a_restart_checks_nothing_that_is_settled(world: World) -> None:
    producer = world.connect("g")
    for number in range(20):
        world.end(world.send(f"k{number}"), (COMMIT, ROLLBACK)[number % 2])
    pending = world.send("pending")
    world.wait(2)
    again = world.restart()
    again.wait(60)
    assert {header.tran_state_table_offset for header, _ in producer.checks} == {pending.queue_offset}


@pytest.mark.parametrize(
    "properties",
    [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "5"}, {"TIMER_DELIVER_MS": "1"}, {"TIMER_DELAY_MS": "9"}],
)
def test_t10_a_delay_on_a_transactional_message_is_refused_with_its_name(
    world: World, properties: dict[str, str]
) -> None:
    reason = refuse_reason(world.message("k1", properties=properties).property_map)
    assert reason is not None
    assert next(iter(properties)) in reason


def test_t11_a_given_up_message_says_why_and_can_be_resumed_once(world: World) -> None:
    producer = world.connect("g")
    world.send("k1")
    world.wait(100)
    [copy] = world.log.messages(CHECK_MAX_TOPIC)
    assert copy.property_map[DISCARD_REASON] == "no outcome after 3 checks"
    assert resume(world, copy.offset_message_id) == ResponseCode.SUCCESS
    assert resume(world, copy.offset_message_id) == ResponseCode.SYSTEM_ERROR
    world.wait(7)
    header = producer.checks[-1][0]
    assert header.tran_state_table_offset == 1
    half = world.log.messages(HALF_TOPIC)[-1]
    place = PutResult(PutStatus.PUT_OK, world.message("k1")).at(None, half.queue_offset, half.commit_log_offset)
    answer = world.end(place, COMMIT, from_check=True)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert world.finals() == ["k1"]
    assert resume(world, copy.offset_message_id) == ResponseCode.SYSTEM_ERROR


def test_t11_a_resumed_message_is_still_pending_after_a_restart(world: World) -> None:
    world.connect("g")
    world.send("k1")
    world.wait(100)
    [copy] = world.log.messages(CHECK_MAX_TOPIC)
    resume(world, copy.offset_message_id)
    again = world.restart()
    assert list(again.transactions.pending) == [1]
    assert resume(again, copy.offset_message_id) == ResponseCode.SYSTEM_ERROR


def resume(world: World, message_id: str) -> int:
    answer = world.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
    assert answer is not None
    return answer.code


def test_t12_a_lost_commit_is_made_good_by_the_check(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1")
    world.wait(7)
    [(header, message)] = producer.checks
    assert (message.topic, message.queue_id, message.body) == ("orders", 2, b"body of k1")
    assert header.commit_log_offset == half.commit_log_offset
    world.end(half, COMMIT, from_check=True, oneway=True)
    assert world.finals() == ["k1"]


def test_t13_nothing_is_scheduled_once_all_is_settled(world: World) -> None:
    world.connect("g")
    world.end(world.send("k1"), COMMIT)
    world.wait(40)
    assert world.clock.getDelayedCalls() == []


# -- failures of the disk -----------------------------------------------------------------------------------


def test_an_outcome_that_cannot_be_stored_leaves_the_message_pending(world: World) -> None:
    half = world.send("k1")
    world.log.refuses = lambda message: PutStatus.SERVICE_NOT_AVAILABLE
    answer = world.end(half, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    world.log.refuses = lambda message: None
    answer = world.end(half, ROLLBACK)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert world.finals() == []


def test_a_message_whose_outcome_could_not_be_stored_is_checked_again(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1")
    world.wait(5.9)
    world.log.refuses = lambda message: PutStatus.UNKNOWN_ERROR
    answer = world.end(half, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    world.wait(31)
    assert len(producer.checks) == 1


# -- crashes ------------------------------------------------------------------------------------------------


def commit(world: World, half: PutResult) -> None:
    world.end(half, COMMIT)


def roll_back(world: World, half: PutResult) -> None:
    world.end(half, ROLLBACK)


def give_up(world: World, half: PutResult) -> None:
    world.wait(100)


@pytest.mark.parametrize("act", [commit, roll_back, give_up])
def test_a_crash_at_any_place_of_the_log_leaves_one_outcome(
    tmp_path: Path, act: Callable[[World, PutResult], None]
) -> None:
    world = World(tmp_path)
    world.connect("g")
    neighbour = world.send("before")
    half = world.send("k1")
    act(world, half)
    world.end(neighbour, COMMIT)
    half_end = half.commit_log_offset + half.size
    for log_end in [end for end in world.log.ends() if end >= half_end]:
        (tmp_path / f"{log_end}").mkdir()
        one = World(tmp_path / f"{log_end}", log=world.log.cut(log_end))
        was_final = one.finals().count("k1")
        settled = [half.queue_offset] if half.queue_offset in one.op_offsets() else []
        again = World(one.directory, log=one.log.cut(one.log.flushed_offset))
        assert again.op_offsets() == one.op_offsets(), "the second start has nothing to add"
        for outcome in (COMMIT, ROLLBACK, COMMIT):
            again.end(half, outcome, from_check=True)
        expected = 1 if was_final or not settled else 0
        assert again.finals().count("k1") == expected, log_end
        assert again.op_offsets().count(half.queue_offset) == 1


def test_a_final_message_alone_counts_as_committed(world: World) -> None:
    half = world.send("k1")
    world.end(half, COMMIT)
    [final] = world.log.messages("orders")
    again = world.restart(final.commit_log_offset + final.total_size)
    assert again.tables.outcomes.state(half.queue_offset) is State.COMMITTED
    assert again.settled() == [0], "an op record is made good"
    answer = again.end(half, COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert again.finals() == ["k1"]


def test_check_counts_and_due_times_survive_a_crash(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1")
    world.wait(7)
    again = world.restart()
    assert again.transactions.pending.checks(half.queue_offset) == 1
    again.wait(28)
    assert len(producer.checks) == 1
    again.wait(3)
    assert len(producer.checks) == 2
    again.wait(70)
    assert len(producer.checks) == 3
    assert again.tables.outcomes.state(half.queue_offset) is State.DISCARDED


def test_an_unknown_outcome_changes_nothing_and_is_not_answered(world: World) -> None:
    half = world.send("k1")
    assert world.end(half, UNKNOWN) is None
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING


def test_stop_waits_for_outcomes_on_their_way_and_writes_the_progress(world: World) -> None:
    half = world.send("k1")
    world.log.holds = True
    world.end(half, COMMIT)
    stopped: list[None] = []
    world.transactions.stop().addCallback(stopped.append)
    assert stopped == []
    world.log.release()
    assert stopped == [None]
    op_records = len(world.ops())
    assert world.offsets.table == {HALF_TOPIC: 1, OP_HALF_TOPIC: op_records}
