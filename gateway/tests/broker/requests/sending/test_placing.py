"""The place of each send, as tables: topic, queue, lite topic, priority, dead letters, and places to wait before."""

from __future__ import annotations

import pytest

from gateway.broker.requests.sending.placing import (
    StoredIn,
    place_of,
    put_by_priority,
    put_into_lite_topic,
    put_to_dead_letters,
    queue_of,
    refuse_order,
    refuse_system_topic,
)
from gateway.errors import RequestRefused
from gateway.metadata.names import NOT_ALLOWED_SEND_TOPICS
from wire.bodies.topics import TopicConfig
from wire.codes import ResponseCode
from wire.message.flags import Permission
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage

HOST = bytes(8)
HALF = {"TRAN_MSG": "true", "PGROUP": "producers"}
ILLEGAL, FORBIDDEN, WRONG = ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_PERMISSION, ResponseCode.INVALID_PARAMETER
FAILED = ResponseCode.SYSTEM_ERROR
RANDOM = 1_000
"""Stands for a queue that the broker picks."""


def message(
    properties: dict[str, str] | None = None, *, topic: str = "orders", queue_id: int = 3, times: int = 0
) -> OutgoingMessage:
    own = dict(properties or {})
    return OutgoingMessage(topic, queue_id, 0, 0, 99, HOST, HOST, times, 0, b"body", build_properties(own), own)


def is_whole(placed: OutgoingMessage) -> bool:
    """Return whether the two forms of a message's properties are equal."""
    return parse_properties(placed.properties) == placed.property_map


@pytest.mark.parametrize(
    ("asked", "readable", "writable", "found"),
    [
        (0, 4, 4, 0),
        (3, 4, 4, 3),
        (4, 4, 4, WRONG),
        (99, 4, 4, WRONG),
        (-1, 4, 4, RANDOM + 4),
        (-7, 4, 4, RANDOM + 4),
        # more queues are written than read, as before some are taken away: what nobody reads is not written
        (1, 2, 8, 1),
        (5, 2, 8, FAILED),
        (8, 2, 8, WRONG),
        (-1, 2, 8, RANDOM + 2),
        # more queues are read than written: who names one may write to it
        (5, 8, 2, 5),
        (8, 8, 2, WRONG),
        (-1, 8, 2, RANDOM + 2),
        # no queue on one side
        (0, 0, 4, FAILED),
        (-1, 0, 4, FAILED),
        (0, 4, 0, 0),
        (-1, 4, 0, FAILED),
        (0, 0, 0, WRONG),
        (-1, 0, 0, FAILED),
    ],
)
def test_the_queue_of_a_message_is_one_that_consumers_read(
    asked: int, readable: int, writable: int, found: int | ResponseCode
) -> None:
    topic = TopicConfig("orders", readable, writable)
    sent = message(queue_id=asked)
    if isinstance(found, ResponseCode):
        with pytest.raises(RequestRefused, match="orders") as refused:
            queue_of(sent, topic, lambda below: RANDOM + below)
        assert refused.value.code == found
    else:
        assert queue_of(sent, topic, lambda below: RANDOM + below) == found


@pytest.mark.parametrize("name", sorted(NOT_ALLOWED_SEND_TOPICS))
def test_topics_of_the_broker_take_nothing_from_clients(name: str) -> None:
    with pytest.raises(RequestRefused, match=f"{name}.*system topic") as refused:
        refuse_system_topic(name)
    assert refused.value.code == FORBIDDEN


@pytest.mark.parametrize("name", ["orders", "TBW102", "BenchmarkTest", "%RETRY%group", "%DLQ%group"])
def test_other_topics_are_sent_to(name: str) -> None:
    refuse_system_topic(name)


@pytest.mark.parametrize(
    ("order", "permission", "is_taken"),
    [
        (False, Permission.READ_WRITE, True),
        (False, Permission.READ, True),  # clients stop by themselves: the route says so
        (False, 0, True),
        (True, Permission.READ_WRITE, True),
        (True, Permission.WRITE, True),
        (True, Permission.READ, False),
        (True, 0, False),
    ],
)
def test_an_ordered_topic_needs_a_broker_that_may_write(order: bool, permission: int, is_taken: bool) -> None:
    topic = TopicConfig("orders", order=order)
    if is_taken:
        refuse_order(topic, "orders", permission)
    else:
        with pytest.raises(RequestRefused, match="ordered topic") as refused:
            refuse_order(topic, "orders", permission)
        assert refused.value.code == FORBIDDEN


@pytest.mark.parametrize(
    ("properties", "times", "place"),
    [
        ({}, 0, StoredIn.ITS_TOPIC),
        ({"TAGS": "a", "WAIT": "false"}, 0, StoredIn.ITS_TOPIC),
        # half messages
        (HALF, 0, StoredIn.HALF_TOPIC),
        ({**HALF, "TRAN_MSG": "TRUE"}, 0, StoredIn.HALF_TOPIC),
        ({**HALF, "TRAN_MSG": "false"}, 0, StoredIn.ITS_TOPIC),
        ({**HALF, "TRAN_MSG": "yes"}, 0, StoredIn.ITS_TOPIC),
        ({**HALF, "DELAY": "0"}, 0, StoredIn.HALF_TOPIC),
        ({**HALF, "DELAY": "-1"}, 0, StoredIn.HALF_TOPIC),
        ({**HALF, "DELAY": "3"}, 0, ILLEGAL),
        ({**HALF, "DELAY": "3"}, 1, StoredIn.SCHEDULE_TOPIC),  # a consumer sends it back
        ({**HALF, "DELAY": "x"}, 0, FAILED),
        ({**HALF, "TIMER_DELAY_SEC": "3"}, 0, ILLEGAL),
        ({"TRAN_MSG": "true"}, 0, ILLEGAL),
        ({"TRAN_MSG": "true", "PGROUP": "\n"}, 0, ILLEGAL),
        # delay levels
        ({"DELAY": "3"}, 0, StoredIn.SCHEDULE_TOPIC),
        ({"DELAY": "99"}, 0, StoredIn.SCHEDULE_TOPIC),  # the last level is meant
        ({"DELAY": "+2"}, 0, StoredIn.SCHEDULE_TOPIC),
        ({"DELAY": "0"}, 0, StoredIn.ITS_TOPIC),
        ({"DELAY": "-1"}, 0, StoredIn.ITS_TOPIC),
        ({"DELAY": ""}, 0, StoredIn.ITS_TOPIC),
        ({"DELAY": "soon"}, 0, FAILED),
        ({"DELAY": "99999999999"}, 0, FAILED),
        # times
        ({"TIMER_DELAY_SEC": "3"}, 0, StoredIn.TIMER_TOPIC),
        ({"TIMER_DELAY_MS": "3"}, 0, StoredIn.TIMER_TOPIC),
        ({"TIMER_DELIVER_MS": "3"}, 0, StoredIn.TIMER_TOPIC),
        ({"TIMER_DELIVER_MS": "3", "TIMER_OUT_MS": "2"}, 0, StoredIn.ITS_TOPIC),  # it has waited already
        ({"TIMER_DELAY_SEC": "3", "DELAY": "1"}, 0, StoredIn.SCHEDULE_TOPIC),
        ({"TIMER_DELAY_SEC": "3", "DELAY": "0"}, 0, StoredIn.TIMER_TOPIC),
        ({"TIMER_DELAY_SEC": "3", "DELAY": "-1"}, 0, StoredIn.TIMER_TOPIC),
    ],
)
def test_properties_say_where_a_message_waits(
    properties: dict[str, str], times: int, place: StoredIn | ResponseCode
) -> None:
    sent = message(properties, times=times)
    if isinstance(place, StoredIn):
        assert place_of(sent, takes_halves=True) is place
    else:
        with pytest.raises(RequestRefused) as refused:
            place_of(sent, takes_halves=True)
        assert refused.value.code == place
    assert (sent.topic, sent.queue_id, sent.property_map) == ("orders", 3, properties)


@pytest.mark.parametrize("properties", [HALF, {"TRAN_MSG": "true"}, {**HALF, "DELAY": "3"}])
def test_a_broker_without_transactions_refuses_half_messages_whatever_else_is_wrong(properties: dict[str, str]) -> None:
    with pytest.raises(RequestRefused, match="rejectTransactionMessage") as refused:
        place_of(message(properties), takes_halves=False)
    assert refused.value.code == FORBIDDEN


def test_a_broker_without_transactions_takes_everything_else() -> None:
    assert place_of(message({"DELAY": "3"}), takes_halves=False) is StoredIn.SCHEDULE_TOPIC
    assert place_of(message({**HALF, "DELAY": "3"}, times=1), takes_halves=False) is StoredIn.SCHEDULE_TOPIC
    assert place_of(message(), takes_halves=False) is StoredIn.ITS_TOPIC


@pytest.mark.parametrize(
    ("properties", "readable", "writable", "queue_id", "is_kept"),
    [
        ({"_SYS_MSG_PRIORITY_": "0"}, 4, 4, 0, True),
        ({"_SYS_MSG_PRIORITY_": "2"}, 4, 4, 2, True),
        ({"_SYS_MSG_PRIORITY_": "9"}, 4, 4, 3, True),
        ({"_SYS_MSG_PRIORITY_": "9"}, 8, 2, 1, True),
        ({"_SYS_MSG_PRIORITY_": "9"}, 2, 8, 1, True),
        ({"_SYS_MSG_PRIORITY_": "9"}, 4, 0, 3, True),  # there is no queue for it: where it was sent to
        ({"_SYS_MSG_PRIORITY_": "-1"}, 4, 4, 3, True),
        ({"_SYS_MSG_PRIORITY_": "high"}, 4, 4, 3, True),
        ({"_SYS_MSG_PRIORITY_": "1", "DELAY": "1"}, 4, 4, 3, False),
        ({"_SYS_MSG_PRIORITY_": "1", "__SHARDINGKEY": "k"}, 4, 4, 3, False),
        ({"_SYS_MSG_PRIORITY_": "1", **HALF}, 4, 4, 3, False),
    ],
)
def test_a_priority_is_a_queue(
    properties: dict[str, str], readable: int, writable: int, queue_id: int, is_kept: bool
) -> None:
    sent = message(properties)
    put_by_priority(sent, TopicConfig("orders", readable, writable))
    assert sent.queue_id == queue_id
    assert ("_SYS_MSG_PRIORITY_" in sent.property_map) == is_kept
    assert is_whole(sent)


@pytest.mark.parametrize(
    ("name", "fills", "queue"),
    [
        ("cart", True, "%LMQ%$orders$cart"),
        ("", True, None),
        ("", False, None),
        ("cart", False, ILLEGAL),
        ("a/b", True, ILLEGAL),
        ("x" * 256, True, ILLEGAL),
    ],
)
def test_a_lite_topic_is_a_light_queue(name: str, fills: bool, queue: str | ResponseCode | None) -> None:
    sent = message({"__LITE_TOPIC": name, "TAGS": "a"})
    if isinstance(queue, ResponseCode):
        with pytest.raises(RequestRefused) as refused:
            put_into_lite_topic(sent, fills_light_queues=fills)
        assert refused.value.code == queue
        return
    put_into_lite_topic(sent, fills_light_queues=fills)
    assert sent.property_map.get("INNER_MULTI_DISPATCH") == queue
    assert (sent.topic, sent.queue_id) == ("orders", 3)
    assert queue is None or is_whole(sent)


@pytest.mark.parametrize("properties", [{}, {"DELAY": "3", "TAGS": "a"}, {"RETRY_TOPIC": "orders"}])
def test_dead_letters_lie_in_one_queue_and_do_not_wait(properties: dict[str, str]) -> None:
    sent = message(properties, topic="%RETRY%group", times=17)
    put_to_dead_letters(sent, "group")
    assert (sent.topic, sent.queue_id) == ("%DLQ%group", 0)
    assert sent.property_map == {**properties, "DELAY": "-1"}
    assert is_whole(sent)
    assert place_of(sent, takes_halves=True) is StoredIn.ITS_TOPIC
