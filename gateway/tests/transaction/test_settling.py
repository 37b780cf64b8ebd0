"""The way in which outcomes are put together into appends, and the outcomes that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.metadata.names import OP_HALF_TOPIC
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.transaction.world import COMMIT, ROLLBACK, TRANSACTIONS, World
from gateway.transaction.limits import TransactionLimits
from gateway.transaction.records.op_messages import CHECKS
from gateway.transaction.replies import Reply
from gateway.transaction.settling import MAX_WITHOUT_COPY
from gateway.transaction.states import Event, State
from gateway.transaction.tables import transaction_tables
from wire.codes import ResponseCode


def test_an_op_record_stays_within_its_size(tmp_path: Path) -> None:
    world = World(tmp_path, settings=replace(TRANSACTIONS, transaction_op_msg_max_size=10))
    halves = [world.send(f"k{number}") for number in range(12)]
    for half in halves:
        world.end(half, ROLLBACK, oneway=True, turn=False)
    world.turn()
    assert world.ops() == ["0,1,2,3,4,", "5,6,7,8,9,", "10,11,"]


def test_point_21_an_op_record_says_how_often_its_half_messages_were_checked(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.connect("g")
    halves = [world.send(f"k{number}") for number in range(2)]
    world.wait(7)
    halves.append(world.send("k2"))
    for half in halves:
        world.end(half, ROLLBACK, oneway=True, turn=False)
    world.turn()
    (op,) = world.log.messages(OP_HALF_TOPIC)
    assert op.property_map[CHECKS] == "1,1,0"


def test_large_final_messages_do_not_share_an_append(tmp_path: Path) -> None:
    world = World(tmp_path, limits=TransactionLimits(settle_batch_bytes=20))
    halves = [world.send(f"k{number}") for number in range(3)]
    for half in halves:
        world.end(half, COMMIT, oneway=True, turn=False)
    world.turn()
    assert world.ops() == ["0,1,", "2,"]
    assert world.finals() == ["k0", "k1", "k2"]


def test_no_more_final_messages_are_gathered_than_share_an_append(tmp_path: Path) -> None:
    world = World(tmp_path, limits=TransactionLimits(settle_batch_bytes=20))
    halves = [world.send(f"k{number}") for number in range(5)]
    for half in halves:
        world.end(half, COMMIT, turn=False)
    assert world.finals() == ["k0", "k1", "k2", "k3"], "the log counts them as soon as there are enough"
    world.turn()
    assert world.finals() == [f"k{number}" for number in range(5)]
    assert [answer.code for answer in world.stranger.answers] == [ResponseCode.SUCCESS] * 5


def test_an_equal_outcome_while_the_first_is_stored_shares_its_result(tmp_path: Path) -> None:
    world = World(tmp_path)
    half = world.send("k1")
    world.log.refuses = lambda message: None
    world.end(half, COMMIT, turn=False)
    world.end(half, COMMIT, turn=False)
    world.log.refuses = lambda message: PutStatus.UNKNOWN_ERROR
    world.turn()
    assert [answer.code for answer in world.stranger.answers] == [ResponseCode.SYSTEM_ERROR] * 2
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (PutStatus.SLAVE_NOT_AVAILABLE, ResponseCode.SLAVE_NOT_AVAILABLE),
        (PutStatus.FLUSH_SLAVE_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_an_outcome_without_a_copy_is_not_answered_with_success_before_slaves_have_it(
    tmp_path: Path, status: PutStatus, code: ResponseCode
) -> None:
    world = World(tmp_path)
    half = world.send("k1")
    world.log.holds = True
    world.end(half, COMMIT)
    world.log.answer_without_copy(status)
    world.end(half, COMMIT)
    assert [answer.code for answer in world.stranger.answers] == [code, code]
    assert "too few slaves have it" in (world.stranger.answers[0].remark or "")
    world.log.release()
    world.end(half, COMMIT)
    assert world.stranger.answers[-1].code == ResponseCode.SUCCESS


def test_a_limited_number_of_outcomes_without_a_copy_is_remembered(tmp_path: Path) -> None:
    world = World(tmp_path)
    halves = [world.send(f"k{number}") for number in range(MAX_WITHOUT_COPY + 1)]
    world.log.holds = True
    for half in halves:
        world.end(half, COMMIT)
    world.log.answer_without_copy(PutStatus.SLAVE_NOT_AVAILABLE)
    for half in (halves[0], halves[1], halves[-1]):
        world.end(half, COMMIT)
    codes = [answer.code for answer in world.stranger.answers[-3:]]
    assert codes == [ResponseCode.SUCCESS, *[ResponseCode.SLAVE_NOT_AVAILABLE] * 2]


def test_a_half_message_without_real_place_cannot_be_committed(tmp_path: Path) -> None:
    world = World(tmp_path)
    half = world.transactions.half_of(world.message("k1"))
    half.properties = half.properties.replace(b"REAL_TOPIC", b"LOST_TOPIC")
    results: list[Reply] = []
    stored: list[PutResult] = []
    world.log.append(half, stored.append)
    message = world.log.message_at(stored[0].commit_log_offset)
    assert message is not None
    world.transactions.settling.ask(message, Event.COMMIT, ("tool", "x"), results.append)
    assert results[0].code == ResponseCode.SYSTEM_ERROR
    world.transactions.settling.ask(message, Event.ROLLBACK, ("tool", "x"), results.append)
    world.turn()
    assert results[1].code == ResponseCode.SUCCESS


def test_who_asked_first_is_remembered_for_a_while_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_tables, "MAX_REMEMBERED_SOURCES", 2)
    world = World(tmp_path)
    halves = [world.send(f"k{number}") for number in range(3)]
    for half in halves:
        world.end(half, COMMIT)
    remarks = []
    for half in halves:
        answer = world.end(half, ROLLBACK)
        assert answer is not None
        remarks.append(answer.remark or "")
    assert "by somebody before the broker's last start, or too long ago to be remembered" in remarks[0]
    assert "by producer 127.0.0.2:1" in remarks[2]


def test_what_the_broker_gave_up_is_told_with_its_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path)
    world.connect("g")
    half = world.send("k1")
    world.wait(6 + 3 * 30 + 2)
    answer = world.end(half, COMMIT)
    assert answer is not None
    assert "is DISCARDED, by broker (no outcome after 3 checks); commit is refused" in (answer.remark or "")
    [facts] = [vars(record)["facts"] for record in caplog.records if record.message == "contradicting outcome refused"]
    assert facts["first_by"] == "broker (no outcome after 3 checks)"
    assert facts["refused_by"] == "producer 127.0.0.2:1"


def test_only_outcomes_that_an_operator_decided_count_as_theirs(tmp_path: Path) -> None:
    world = World(tmp_path)
    transactions = world.transactions
    replies: list[Reply] = []
    halves = [world.log.message_at(world.send(f"k{number}").commit_log_offset) for number in range(2)]
    for event in (Event.COMMIT, Event.COMMIT, Event.ROLLBACK):
        assert halves[0] is not None
        transactions.interventions.settle(halves[0], event, ("operator", "alice"), replies.append)
        world.turn()
    world.log.refuses = lambda message: PutStatus.UNKNOWN_ERROR
    assert halves[1] is not None
    transactions.interventions.settle(halves[1], Event.ROLLBACK, ("operator", "alice"), replies.append)
    world.turn()
    assert [reply.code for reply in replies] == [0, 0, ResponseCode.ILLEGAL_OPERATION, ResponseCode.SYSTEM_ERROR]
    assert transactions.counts.manual.value == 1


def test_op_records_missing_after_a_crash_go_with_the_next_append_that_succeeds(tmp_path: Path) -> None:
    world = World(tmp_path)
    half = world.send("k1")
    world.end(half, COMMIT)
    op = world.log.messages(OP_HALF_TOPIC)[-1]
    for call in world.clock.getDelayedCalls():
        call.cancel()
    log = world.log.cut(op.commit_log_offset)
    log.refuses = lambda message: PutStatus.SERVICE_NOT_AVAILABLE
    again = World(tmp_path, log=log, clock=world.clock)
    assert again.ops() == []
    assert not again.transactions.settling.all_recorded
    log.refuses = lambda message: None
    again.end(again.send("k2"), COMMIT)
    assert again.op_offsets() == [1, 0]
    assert again.transactions.settling.all_recorded
