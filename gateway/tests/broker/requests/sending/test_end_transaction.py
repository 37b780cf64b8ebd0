"""END_TRANSACTION: which outcomes fit their half message, and what the others are answered."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.transaction.world import COMMIT, HOST, ROLLBACK, UNKNOWN, World
from gateway.transaction.states import State
from wire.codes import RequestCode, ResponseCode
from wire.message.message_id import build_offset_message_id
from wire.message.record import OutgoingMessage


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"commit_log_offset": 999_999}, "Find prepared transaction message failed"),
        ({"commit_log_offset": -1}, "Find prepared transaction message failed"),
        ({"commit_log_offset": 3}, "Find prepared transaction message failed"),
        ({"producer_group": "other"}, "The producer group wrong"),
        ({"tran_state_table_offset": 5}, "The transaction state table offset wrong"),
    ],
)
def test_an_outcome_that_names_something_else_is_refused(world: World, changes: dict[str, Any], remark: str) -> None:
    half = world.send("k1")
    answer = world.end(half, COMMIT, **changes)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert remark in (answer.remark or "")
    assert world.finals() == []
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING


def test_a_refused_one_way_outcome_is_logged_once_for_many(world: World, caplog: pytest.LogCaptureFixture) -> None:
    half = world.send("k1")
    with caplog.at_level(logging.WARNING, "gateway"):
        for _ in range(100):
            world.end(half, COMMIT, group="other", oneway=True)
    assert [record.message for record in caplog.records] == ["outcome refused"]


def test_an_ordinary_message_cannot_be_committed(world: World) -> None:
    results: list[PutResult] = []
    plain = world.message("plain")
    plain.sys_flag = 0
    world.log.append(plain, results.append)
    answer = world.end(results[0], COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(world.log.messages("orders")) == 1


def test_an_unknown_outcome_is_not_answered(world: World, caplog: pytest.LogCaptureFixture) -> None:
    half = world.send("k1")
    with caplog.at_level(logging.WARNING, "gateway"):
        assert world.end(half, UNKNOWN) is None
        assert world.end(half, UNKNOWN, from_check=True) is None
    assert caplog.records == []
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING


@pytest.mark.parametrize("from_check", [False, True])
@pytest.mark.parametrize("outcome", [4, 77, -1])
def test_what_is_no_outcome_is_refused_and_logged(
    world: World, caplog: pytest.LogCaptureFixture, outcome: int, from_check: bool
) -> None:
    half = world.send("k1")
    with caplog.at_level(logging.WARNING, "gateway"):
        answer = world.end(half, outcome, from_check=from_check)
        assert world.end(half, outcome, from_check=from_check, oneway=True) is None
    assert answer is not None
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert f"commitOrRollback {outcome} is no outcome" in (answer.remark or "")
    assert [record.message for record in caplog.records] == ["outcome refused"]
    assert world.finals() == []
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING


@pytest.mark.parametrize(
    ("seconds", "from_check", "code"),
    [
        (9, False, ResponseCode.SUCCESS),
        (11, False, ResponseCode.ILLEGAL_OPERATION),
        (11, True, ResponseCode.SUCCESS),
    ],
)
def test_after_the_immunity_time_only_the_answer_to_a_check_counts(
    world: World, seconds: int, from_check: bool, code: ResponseCode
) -> None:
    half = world.send("k1", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "10"})
    world.wait(seconds)
    answer = world.end(half, COMMIT, from_check=from_check)
    assert answer is not None
    assert answer.code == code
    assert len(world.finals()) == (code == ResponseCode.SUCCESS)


def test_without_an_immunity_time_a_late_outcome_counts(world: World) -> None:
    half = world.send("k1")
    world.wait(60)
    answer = world.end(half, ROLLBACK)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("field", ["producerGroup", "tranStateTableOffset", "commitOrRollback", "msgId"])
def test_a_missing_field_is_refused(world: World, field: str) -> None:
    fields = {
        "producerGroup": "g",
        "tranStateTableOffset": "0",
        "commitLogOffset": "0",
        "commitOrRollback": "8",
        "msgId": "x",
    }
    del fields[field]
    answer = world.request(RequestCode.END_TRANSACTION, fields)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in (answer.remark or "")


@pytest.mark.parametrize("message_id", ["", "zz", "0" * 31, build_offset_message_id(HOST, 10**9)])
def test_nothing_is_resumed_that_is_not_there(world: World, message_id: str) -> None:
    answer = world.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_only_given_up_messages_are_resumed(world: World) -> None:
    results: list[PutResult] = []
    world.log.append(world.message("plain"), results.append)
    settled = world.send("k1")
    world.end(settled, COMMIT)
    for stored in (results[0], settled):
        message_id = build_offset_message_id(HOST, stored.commit_log_offset)
        answer = world.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
        assert answer is not None
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert world.half_count() == 1


def test_a_given_up_message_without_its_place_or_room_is_refused(world: World) -> None:
    world.connect("g")
    world.send("k1")
    world.wait(100)
    [copy] = world.log.messages("TRANS_CHECK_MAX_TIME_TOPIC")
    world.log.refuses = lambda message: PutStatus.SERVICE_NOT_AVAILABLE
    answer = world.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": copy.offset_message_id})
    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    world.log.refuses = lambda message: None
    bare = OutgoingMessage(copy.topic, 0, 0, 0, 0, HOST, HOST, 0, 0, b"x")
    results: list[PutResult] = []
    world.log.append(bare, results.append)
    message_id = build_offset_message_id(HOST, results[0].commit_log_offset)
    answer = world.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
