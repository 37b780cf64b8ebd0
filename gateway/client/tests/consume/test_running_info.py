"""Tests of what a consumer tells tools."""

from __future__ import annotations

from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.pulled import PulledMessage
from gateway.client.consume.running_info import QueueStates, build_direct_result, build_running_info, thread_stacks
from gateway.client.consume.subscriptions import tags_of
from gateway.client.message import MessageQueue
from gateway.client.retry_later import CONSUMED, ListenerOutcome, RetryLater
from wire.bodies.fastjson import parse_json

QUEUE = MessageQueue("t", "a", 1)


def test_the_state_of_every_queue_is_told_in_javas_form() -> None:
    state = ProcessQueue(QUEUE, 5, now=10.0)
    state.add([PulledMessage(b"", 0, 0, 5, QUEUE, "")], [100], 1)
    state.locked_at = 9.0
    body = build_running_info(
        properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        subscriptions=[tags_of("t", "a || b", version_ms=3)],
        queues=QueueStates([state], {QUEUE: 5}),
        epoch_ms=1_000_000,
        now=12.0,
        stacks="where",
    )
    info = parse_json(body)
    assert b'{"brokerName":"a","queueId":1,"topic":"t"}:{' in body
    (row,) = info["mqTable"].values()
    assert (row["commitOffset"], row["cachedMsgCount"], row["locked"]) == (5, 1, True)
    assert (row["lastPullTimestamp"], row["lastLockTimestamp"]) == (998_000, 997_000)
    assert info["subscriptionSet"][0]["tagsSet"] == ["a", "b"]
    assert info["jstack"] == "where"


def test_queues_that_are_popped_have_a_table_of_their_own() -> None:
    state = PopQueue(QUEUE, now=10.0)
    state.waiting = 3
    body = build_running_info(
        properties={},
        subscriptions=[],
        queues=QueueStates([], {}, [state]),
        epoch_ms=1_000_000,
        now=12.0,
        stacks=None,
    )
    (row,) = parse_json(body)["mqPopTable"].values()
    assert row == {"waitAckCount": 3, "droped": False, "lastPopTimestamp": 998_000}


def test_what_a_listener_did_is_told() -> None:
    assert parse_json(build_direct_result(CONSUMED, is_orderly=True, spent_ms=4)) == {
        "autoCommit": True,
        "consumeResult": "CR_SUCCESS",
        "order": True,
        "spentTimeMills": 4,
    }
    failed = [PulledMessage(b"", 0, 0, 5, QUEUE, "")]
    later = parse_json(build_direct_result(ListenerOutcome(failed, 0, RetryLater()), is_orderly=False, spent_ms=0))
    assert later["consumeResult"] == "CR_LATER"
    raised = parse_json(build_direct_result(ListenerOutcome(failed, 0, ValueError("no")), is_orderly=False, spent_ms=0))
    assert raised["consumeResult"] == "CR_THROW_EXCEPTION"
    assert "ValueError: no" in raised["remark"]


def test_every_thread_is_shown_where_it_is() -> None:
    assert "test_every_thread_is_shown_where_it_is" in thread_stacks()
