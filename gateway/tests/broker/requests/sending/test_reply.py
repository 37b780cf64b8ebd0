"""Request-reply: the reply reaches the client that waits for it, and the replier is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.sending.reply import MAX_WAITING_PUSHES, PUSHES_AT_ONCE
from gateway.tests.broker.send_requests import short
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, sending
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.send import ReplyMessageRequest
from wire.message.message_id import parse_offset_message_id
from wire.message.properties import parse_properties

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "waits"}

ADDED = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""What the broker adds to every reply."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WholeBroker]:
    """A whole broker."""
    broker = WholeBroker(tmp_path / "store")
    yield broker
    broker.stop()


def waiting_client(broker: WholeBroker) -> Peer:
    """A producer that has sent its heartbeat, as request() makes sure."""
    peer = broker.connect()
    data = HeartbeatData("waits", producers=("requesters",))
    broker.ask_all(peer, RequestCode.HEART_BEAT, body=data.build())
    return peer


def reply(broker: WholeBroker, peer: Peer, body: bytes = b"yes", **changed: Any) -> list[RemotingCommand]:
    values: dict[str, Any] = {"topic": REPLY_TOPIC, "properties": REPLY, "queue_id": -1, **changed}
    return broker.ask_all(peer, RequestCode.SEND_REPLY_MESSAGE, sending(**values), body)


def _short(*args: Any, **changed: Any) -> Any:
    """A header with short names."""
    return short(sending(*args, **changed))


def test_a_reply_is_pushed_to_the_client_that_waits_then_stored_then_acknowledged(broker: WholeBroker) -> None:
    waits, replier = waiting_client(broker), broker.connect()
    assert reply(broker, replier, sys_flag=1, flag=7) == []
    (push,) = waits.received()
    assert (push.code, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"yes")
    header = parse_header(ReplyMessageRequest, push.ext_fields)
    assert (header.topic, header.sys_flag, header.flag, header.store_timestamp) == (REPLY_TOPIC, 1, 7, START_MS)
    assert (header.born_host, header.store_host) == (replier.channel.remote_text, "10.0.0.1:10911")
    assert parse_properties(header.properties or "") == {**REPLY, **ADDED, "PUSH_REPLY_TIME": str(START_MS)}
    waits.send(push.response(ResponseCode.SUCCESS))
    broker.turn()
    (answer,) = replier.received()
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    fields = answer.ext_fields
    assert (fields["queueId"], fields["queueOffset"], fields["TRACE_ON"]) == ("0", "0", "true")
    (stored,) = broker.messages(REPLY_TOPIC)
    assert parse_offset_message_id(fields["msgId"])[1] == stored.commit_log_offset
    assert stored.property_map == {**REPLY, **ADDED}


def test_the_form_with_short_names_is_taken_too(broker: WholeBroker) -> None:
    waits, replier = waiting_client(broker), broker.connect()
    long = sending(REPLY_TOPIC, properties=REPLY)
    names = ["producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag"]
    names += ["born_timestamp", "flag", "properties"]
    fields = {letter: str(getattr(long, name)) for letter, name in zip("abcdefghi", names, strict=True)}
    assert broker.ask_all(replier, RequestCode.SEND_REPLY_MESSAGE_V2, body=b"yes", fields=fields) == []
    (push,) = waits.received()
    assert push.body == b"yes"
    waits.leave()
    broker.turn()


@pytest.mark.parametrize(
    ("code", "form"), [(RequestCode.SEND_REPLY_MESSAGE, sending), (RequestCode.SEND_REPLY_MESSAGE_V2, _short)]
)
def test_a_reply_to_a_topic_that_does_not_exist_makes_it(
    broker: WholeBroker, code: RequestCode, form: Callable[..., Any]
) -> None:
    header = form("replies", properties=REPLY, default_topic_queue_nums=3)
    (answer,) = broker.ask_all(broker.connect(), code, header, b"yes")
    assert "channel of <waits> not found" in (answer.remark or "")
    topic = broker.parts.topics.get("replies")
    assert topic is not None
    assert topic.read_queue_nums == 3


def test_a_reply_with_two_faults_is_refused_for_the_one_that_a_send_is_refused_for(broker: WholeBroker) -> None:
    body = b"x" * (broker.parts.settings.max_message_size + 1)
    for queue_id, code in ((99, ResponseCode.INVALID_PARAMETER), (0, ResponseCode.MESSAGE_ILLEGAL)):
        (answer,) = reply(broker, broker.connect(), body, queue_id=queue_id)
        assert answer.code == code == broker.send(broker.connect(), "orders", body=body, queue_id=queue_id).code


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({"MSG_TYPE": "reply"}, "reply message properties[REPLY_TO_CLIENT] is null"),
        ({**REPLY, "REPLY_TO_CLIENT": "gone"}, "push reply message fail, channel of <gone> not found."),
    ],
)
def test_a_reply_that_nobody_waits_for_is_an_error_and_stored_all_the_same(
    broker: WholeBroker, properties: dict[str, str], remark: str
) -> None:
    (answer,) = reply(broker, broker.connect(), properties=properties)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert len(broker.messages(REPLY_TOPIC)) == 1


def test_replies_need_not_be_stored(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", store_reply_message_enable=False)
    waits, replier = waiting_client(broker), broker.connect()
    reply(broker, replier)
    (push,) = waits.received()
    waits.send(push.response(ResponseCode.SUCCESS))
    broker.turn()
    (answer,) = replier.received()
    assert {name: answer.ext_fields[name] for name in ("msgId", "queueId", "queueOffset")} == {
        "msgId": "0",
        "queueId": "0",
        "queueOffset": "0",
    }
    assert broker.messages(REPLY_TOPIC) == []
    broker.stop()


def test_a_client_that_refuses_or_stays_silent_or_leaves_is_an_error(broker: WholeBroker) -> None:
    waits, replier = waiting_client(broker), broker.connect()
    reply(broker, replier)
    (push,) = waits.received()
    waits.send(push.response(ResponseCode.SYSTEM_ERROR, "unknown correlation"))
    broker.turn()
    (refused,) = replier.received()
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "unknown correlation" in (refused.remark or "")
    reply(broker, replier)
    broker.wait(10.25)
    (silent,) = replier.received()
    assert silent.code == ResponseCode.SYSTEM_ERROR
    assert "10 s" in (silent.remark or "")
    reply(broker, replier)
    waits.leave()
    broker.turn()
    (gone,) = replier.received()
    assert gone.code == ResponseCode.SYSTEM_ERROR


def test_replies_to_one_client_wait_for_their_turn_and_are_limited(broker: WholeBroker) -> None:
    waits, replier = waiting_client(broker), broker.connect()
    for _ in range(PUSHES_AT_ONCE + MAX_WAITING_PUSHES):
        replier.ask_all(RequestCode.SEND_REPLY_MESSAGE, sending(REPLY_TOPIC, properties=REPLY), b"r")
    (refused,) = reply(broker, replier)
    assert "already wait" in (refused.remark or "")
    pushed = waits.received()
    assert len(pushed) == PUSHES_AT_ONCE
    waits.send(*(push.response(ResponseCode.SUCCESS) for push in pushed))
    broker.turn()
    assert len(waits.received()) == PUSHES_AT_ONCE
    assert len(replier.received()) == PUSHES_AT_ONCE
    waits.leave()
    broker.turn()
    failed = replier.received()
    assert len(failed) == MAX_WAITING_PUSHES
    assert {answer.code for answer in failed} == {ResponseCode.SYSTEM_ERROR}


def test_a_client_that_comes_back_gets_its_replies_there(broker: WholeBroker) -> None:
    replier, first = broker.connect(), waiting_client(broker)
    reply(broker, replier)
    first.leave()
    broker.turn()
    second = waiting_client(broker)
    reply(broker, replier)
    (push,) = second.received()
    assert push.body == b"yes"
    second.leave()
    (gone,) = reply(broker, replier)[-1:]
    assert "not found" in (gone.remark or "")


def test_a_reply_goes_to_nobody_who_has_another_id_now(broker: WholeBroker) -> None:
    waits, replier = waiting_client(broker), broker.connect()
    reply(broker, replier)
    assert len(waits.received()) == 1
    other = HeartbeatData("another", producers=("requesters",))
    broker.ask_all(waits, RequestCode.HEART_BEAT, body=other.build())
    (answer,) = reply(broker, replier)
    assert "channel of <waits> not found" in (answer.remark or "")
    assert waits.received() == []


def test_a_reply_is_checked_as_every_send_is(broker: WholeBroker) -> None:
    replier = broker.connect()
    (unknown,) = reply(broker, replier, topic="unknown", default_topic="none")
    assert (unknown.code, unknown.ext_fields["MSG_REGION"]) == (ResponseCode.TOPIC_NOT_EXIST, "DefaultRegion")
    (queue,) = reply(broker, replier, queue_id=99)
    assert queue.code == ResponseCode.INVALID_PARAMETER
    (large,) = reply(broker, replier, b"x" * (4 * 1024 * 1024 + 1))
    assert large.code == ResponseCode.MESSAGE_ILLEGAL
    (bad,) = broker.ask_all(replier, RequestCode.SEND_REPLY_MESSAGE, body=b"x", fields={"topic": "t"})
    assert bad.code == ResponseCode.SYSTEM_ERROR


def test_the_bytes_of_replies_that_wait_for_one_client_are_limited(broker: WholeBroker) -> None:
    waiting_client(broker)
    replier = broker.connect()
    refused = 0
    for _ in range(20):
        refused += bool(reply(broker, replier, b"x" * 4_000_000))
    assert refused == 12, "32 MiB wait"
    (answer,) = reply(broker, replier, b"x" * 4_000_000)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "bytes of replies for <waits>: 32" in str(answer.remark)
    broker.wait(11)
    replier.received()
    assert reply(broker, replier) == []


def test_a_reply_follows_changed_settings_as_a_send_does(broker: WholeBroker) -> None:
    replier = broker.connect()
    broker.parts.topics.put(TopicConfig(REPLY_TOPIC, 1, 1, order=True))
    (refused,) = reply(broker, replier)
    assert refused.code == ResponseCode.SYSTEM_ERROR, "nobody waits for it"
    assert broker.ask(broker.connect(), RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4").code == 0
    (refused,) = reply(broker, replier)
    assert (refused.code, len(broker.messages(REPLY_TOPIC))) == (ResponseCode.NO_PERMISSION, 1)
