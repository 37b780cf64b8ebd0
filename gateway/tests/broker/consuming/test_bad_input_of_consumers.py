"""Impossible requests of clients: each is answered with its code, and no message is lost or doubled by it.

Expressions, delays, recalls, receipts, locks, resets and replies, one after the other. What each part refuses besides
is in the tests of that part; here a whole broker is asked, and what it holds is looked at afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.popping import ACK, CHANGE, bodies, filled, pop, popping
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling, sending
from gateway.tests.membership.subscriptions import subscription
from wire.bodies.consumers import CheckClientRequest
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, MessageQueue
from wire.bodies.subscriptions import SubscriptionData
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.groups import UnregisterClientRequest
from wire.headers.offsets import ResetOffsetRequest
from wire.headers.pop import NotificationRequest
from wire.headers.send import ConsumerSendMsgBackRequest, RecallMessageRequest
from wire.message.recall_handle import RecallHandle
from wire.message.record import parse_records

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", recall_message_enable=True)


def texts(broker: WholeBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for message in broker.messages(topic)]


# -- expressions ----------------------------------------------------------------------------------------------------

NO_EXPRESSIONS = {
    "syntax": "a > ",
    "character": "a # 5",
    "unknown function": "(upper(a) = 'A')",
    "arithmetic": "(a + 1) = 2",
    "like": "(a LIKE 'x%')",
    "64 KB and more": "a = '" + "x" * 65_536 + "'",
    "deep": "(" * 30_000 + "a" + ")" * 30_000,
}


@pytest.mark.parametrize("expression", NO_EXPRESSIONS.values(), ids=NO_EXPRESSIONS.keys())
def test_no_expression_is_refused_by_everything_that_takes_one(broker: WholeBroker, expression: str) -> None:
    client = filled(broker, "a")
    body = CheckClientRequest("c", "group", None, SubscriptionData("orders", expression, expression_type="SQL92"))
    notified = NotificationRequest(consumer_group="group", topic="orders", exp_type="SQL92", exp=expression)
    asked: list[tuple[int, Any, bytes]] = [
        (RequestCode.CHECK_CLIENT_CONFIG, None, body.build()),
        (RequestCode.PULL_MESSAGE, pulling(subscription=expression, expression_type="SQL92"), b""),
        (RequestCode.LITE_PULL_MESSAGE, pulling(subscription=expression, expression_type="SQL92"), b""),
        (RequestCode.POP_MESSAGE, popping(exp_type="SQL92", exp=expression), b""),
        (RequestCode.NOTIFICATION, notified, b""),
    ]
    for code, header, content in asked:
        answer = broker.ask(client, code, header, content)
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED, code
        assert answer.remark
        assert len(answer.remark) < 1_000
    assert bodies(pop(broker, client)) == [b"a"], "nothing was popped, or passed over, before"


@pytest.mark.parametrize("expression", ["upper(a) = 'A'", "a + 1 = 2", "a LIKE 'x%'"])
def test_what_follows_a_whole_expression_is_not_looked_at_as_in_java(broker: WholeBroker, expression: str) -> None:
    """Not an error there, so none here: members of one group may be served by either. What is left matches nothing."""
    client = broker.connect()
    broker.send(client, body=b"a", properties={"a": "A", "upper": "A"})
    header = pulling(subscription=expression, expression_type="SQL92")
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, header)
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert texts(broker) == [b"a"]


# -- delays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "code", "stored"),
    [
        ({"TIMER_DELAY_SEC": "259201"}, ResponseCode.MESSAGE_ILLEGAL, False),
        ({"TIMER_DELAY_MS": "259200001"}, ResponseCode.MESSAGE_ILLEGAL, False),
        ({"TIMER_DELIVER_MS": str(START_MS + 259_300_000)}, ResponseCode.MESSAGE_ILLEGAL, False),
        ({"TIMER_DELIVER_MS": "9" * 19}, ResponseCode.MESSAGE_ILLEGAL, False),
        ({"TIMER_DELIVER_MS": "tomorrow"}, ResponseCode.MESSAGE_ILLEGAL, False),
        ({"TIMER_DELAY_SEC": "-1"}, ResponseCode.SUCCESS, True),
        ({"TIMER_DELIVER_MS": str(START_MS - 1)}, ResponseCode.SUCCESS, True),
        ({"DELAY": "-3"}, ResponseCode.SUCCESS, True),
        ({"DELAY": "0"}, ResponseCode.SUCCESS, True),
    ],
)
def test_a_time_that_cannot_be_is_refused_and_one_that_is_over_is_now(
    broker: WholeBroker, properties: dict[str, str], code: int, stored: bool
) -> None:
    assert broker.send(broker.connect(), body=b"a", properties=properties).code == code
    assert texts(broker) == ([b"a"] if stored else [])
    broker.wait(2)
    assert texts(broker) == ([b"a"] if stored else [])


def test_a_level_above_the_last_is_the_last_and_a_negative_one_of_a_consumer_gives_up(broker: WholeBroker) -> None:
    client = broker.connect()
    broker.send(client, body=b"late", properties={"DELAY": "2147483647"})
    sent = broker.send(client, "others", b"failed")
    broker.subscribe(client)
    offset = int(sent.ext_fields["msgId"][-16:], 16)
    back = ConsumerSendMsgBackRequest(offset=offset, group="group", delay_level=-2_147_483_648)
    assert broker.ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back, version=513).code == ResponseCode.SUCCESS
    assert texts(broker, "%DLQ%group") == [b"failed"]
    broker.wait(29)
    assert texts(broker) == []
    broker.wait(2)
    assert texts(broker) == [b"late"]


# -- recalls --------------------------------------------------------------------------------------------------------


def recall(broker: WholeBroker, handle: str, topic: str = "orders") -> int:
    header = RecallMessageRequest(producer_group="producers", topic=topic, recall_handle=handle)
    return broker.ask(broker.connect(), RequestCode.RECALL_MESSAGE, header).code


def test_what_was_delivered_or_belongs_elsewhere_cannot_be_recalled(broker: WholeBroker) -> None:
    client = broker.connect()
    sent = [
        broker.send(client, topic, topic.encode(), properties={"TIMER_DELAY_SEC": delay, "UNIQ_KEY": topic})
        for topic, delay in (("orders", "2"), ("others", "6"))
    ]
    fired, foreign = (answer.ext_fields["recallHandle"] for answer in sent)
    broker.wait(4)
    assert texts(broker) == [b"orders"]
    assert recall(broker, fired) == ResponseCode.ILLEGAL_OPERATION
    assert recall(broker, foreign) == ResponseCode.ILLEGAL_OPERATION, "it is of another topic"
    later = str(START_MS + 6_000)
    for forged in (
        "",
        "=====",
        RecallHandle("others", "another", later, "others").build(),
        RecallHandle("others", "broker-a", "-1", "others").build(),
        RecallHandle("others", "broker-a", later, "others\x01x\x02").build(),
    ):
        assert recall(broker, forged, "others") == ResponseCode.ILLEGAL_OPERATION
    # A key that no message has: as upstream, nobody looks, and no message goes.
    assert recall(broker, RecallHandle("others", "broker-a", later, "nobody").build(), "others") == ResponseCode.SUCCESS
    broker.wait(4)
    assert (texts(broker), texts(broker, "others")) == ([b"orders"], [b"others"])


# -- receipts -------------------------------------------------------------------------------------------------------


def test_receipts_of_nobody_of_others_and_of_before_settle_nothing(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    for group in ("group", "rivals"):
        broker.subscribe(client, group)
    first, second = pop(broker, client)
    (theirs, _) = pop(broker, client, consumer_group="rivals", invisible_time=60_000)
    unknown = first.receipt.split(" ")
    unknown[1] = str(int(unknown[1]) - 1)  # popped a millisecond earlier: there was no such pop
    cases: list[tuple[dict[str, Any], ResponseCode]] = [
        ({"extra_info": " ".join(unknown)}, ResponseCode.NO_MESSAGE),
        ({"consumer_group": "strangers"}, ResponseCode.NO_MESSAGE),
        ({"extra_info": "x y z"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"extra_info": second.receipt}, ResponseCode.MESSAGE_ILLEGAL),
    ]
    for changed, code in cases:
        assert broker.ask(client, ACK, first.acking(**changed)).code == code
        assert broker.ask(client, CHANGE, first.changing(1_000, **changed)).code == code
    assert broker.ask(client, ACK, second.acking()).code == ResponseCode.SUCCESS
    broker.wait(11)
    assert broker.ask(client, ACK, first.acking()).code == ResponseCode.NO_MESSAGE, "its time was over"
    assert bodies(pop(broker, client)) == [b"a"]
    assert broker.ask(client, ACK, theirs.acking(consumer_group="rivals")).code == ResponseCode.SUCCESS


# -- locks ----------------------------------------------------------------------------------------------------------

QUEUES = (MessageQueue("orders", "broker-a", 0),)


def locked(broker: WholeBroker, client_id: str) -> tuple[MessageQueue, ...]:
    body = LockBatchRequest("group", client_id, QUEUES).build()
    answer = broker.ask(broker.connect(), RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.code == ResponseCode.SUCCESS
    return tuple(LockBatchResponse.parse(answer.body).queues)


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_the_lock_of_a_member_that_left_holds_until_it_runs_out(broker: WholeBroker, says_goodbye: bool) -> None:
    """It believes in its lock for half a minute, and may have a message in hand."""
    broker.parts.topics.put(TopicConfig("orders", 1, 1))
    member = broker.connect()
    wanted = subscription("orders")
    data = HeartbeatData("gone", consumers=(ConsumerData("group", subscriptions=(wanted,)),))
    broker.ask_all(member, RequestCode.HEART_BEAT, body=data.build())
    assert locked(broker, "gone") == QUEUES
    if says_goodbye:
        goodbye = UnregisterClientRequest(client_id="gone", consumer_group="group")
        (answer,) = broker.ask_all(member, RequestCode.UNREGISTER_CLIENT, goodbye)
        assert answer.code == ResponseCode.SUCCESS
    else:
        member.leave()
    assert locked(broker, "stays") == ()
    broker.wait(60)
    assert locked(broker, "stays") == ()
    broker.wait(0.25)
    assert locked(broker, "stays") == QUEUES
    assert locked(broker, "gone") == (), "who left comes too late, too"


# -- resets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "code", "offset"),
    [
        ({"queue_id": 0, "offset": 99}, ResponseCode.SYSTEM_ERROR, 1),
        ({"queue_id": 0, "offset": -2}, ResponseCode.SYSTEM_ERROR, 1),
        ({"queue_id": 99, "offset": 0}, ResponseCode.INVALID_PARAMETER, 1),
        ({"queue_id": 0, "timestamp": START_MS + 10**10}, ResponseCode.SUCCESS, 2),
        ({"queue_id": 0, "timestamp": 2**63 - 1}, ResponseCode.SUCCESS, 2),
    ],
)
def test_a_reset_to_the_future_is_refused_or_goes_to_the_end(
    broker: WholeBroker, wanted: dict[str, Any], code: int, offset: int
) -> None:
    client = filled(broker, "a", "b")
    broker.subscribe(client)
    broker.parts.offsets.commit("group", "orders", 0, 1)
    header = ResetOffsetRequest(**{"group": "group", "topic": "orders", "timestamp": 0, **wanted})
    assert broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header).code == code
    assert broker.parts.offsets.query("group", "orders", 0) == offset
    broker.send(client, body=b"c")
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, pulling(offset))
    assert [message.body for message in parse_records(answer.body)] == [b"a", b"b", b"c"][offset:]


# -- replies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", ["never asked", "", None])
def test_a_reply_to_an_unknown_correlation_is_for_its_client_to_judge_and_to_none_is_an_error(
    broker: WholeBroker, correlation: str | None
) -> None:
    """The broker knows clients and no correlations, as upstream: who waits passes over what it did not ask."""
    waits, replier = broker.connect(), broker.connect()
    broker.ask(waits, RequestCode.HEART_BEAT, body=HeartbeatData("waits", producers=("p",)).build())
    properties = {"MSG_TYPE": "reply", "REPLY_TO_CLIENT": "waits"}
    if correlation is not None:
        properties["CORRELATION_ID"] = correlation
    header = sending(REPLY_TOPIC, properties=properties)
    assert broker.ask_all(replier, RequestCode.SEND_REPLY_MESSAGE, header, b"yes") == []
    (push,) = waits.received()
    assert (push.code, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"yes")
    waits.send(push.response(ResponseCode.SUCCESS))
    broker.turn()
    assert [answer.code for answer in replier.received()] == [ResponseCode.SUCCESS]
    header = sending(REPLY_TOPIC, properties={**properties, "REPLY_TO_CLIENT": "unknown"})
    answer = broker.ask(replier, RequestCode.SEND_REPLY_MESSAGE, header, b"no")
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "push reply message fail, channel of <unknown> not found.",
    )
    assert texts(broker, REPLY_TOPIC) == [b"yes", b"no"]
