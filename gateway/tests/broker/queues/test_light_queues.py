"""Light queues: messages in several queues, pulled from each, also after a kill."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.broker.requests.sending.placing import MAX_LIGHT_QUEUES
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import PullFlag
from wire.message.light_queues import OFFSET_BYTES
from wire.message.properties import MAX_PROPERTIES_BYTES
from wire.message.record import parse_records

WAITING = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC")


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True)


def send(broker: WholeBroker, body: bytes, *queues: str, **changed: str) -> int:
    properties = {"INNER_MULTI_DISPATCH": ",".join(queues), **changed} if queues else dict(changed)
    return broker.send(broker.connect(), body=body, properties=properties).code


def bodies(broker: WholeBroker, topic: str) -> list[bytes]:
    return [message.body for message in broker.messages(topic)]


def pull(broker: WholeBroker, client: Peer, name: str, offset: int = 0) -> list[bytes]:
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, pulling(offset, topic=name, consumer_group=name))
    return [message.body for message in parse_records(answer.body)]


def test_a_message_is_in_its_queue_and_in_those_it_names(broker: WholeBroker) -> None:
    assert send(broker, b"a", "%LMQ%x", "other", "%LMQ%y") == ResponseCode.SUCCESS
    send(broker, b"b", "%LMQ%y", INNER_MULTI_QUEUE_OFFSET="77")  # forwarded by a client that received it
    send(broker, b"c")
    assert bodies(broker, "orders") == [b"a", b"b", b"c"]
    assert bodies(broker, "%LMQ%x") == [b"a"]
    assert bodies(broker, "%LMQ%y") == [b"a", b"b"]
    first, second = broker.messages("%LMQ%y")
    assert first.property_map["INNER_MULTI_QUEUE_OFFSET"] == "0,,0"
    assert (second.property_map["INNER_MULTI_QUEUE_OFFSET"], second.topic, second.queue_offset) == ("1", "orders", 1)
    assert broker.parts.topics.table().keys().isdisjoint({"%LMQ%x", "%LMQ%y", "other"})


def test_a_light_queue_is_pulled_as_topic_and_group_that_nobody_made(broker: WholeBroker) -> None:
    client = broker.connect()
    send(broker, b"a", "%LMQ%x")
    assert pull(broker, client, "%LMQ%x") == [b"a"]
    header = UpdateConsumerOffsetRequest(consumer_group="%LMQ%x", topic="%LMQ%x", queue_id=0, commit_offset=1)
    assert broker.ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, header).code == ResponseCode.SUCCESS
    asked = QueryConsumerOffsetRequest(consumer_group="%LMQ%x", topic="%LMQ%x", queue_id=0)
    assert broker.ask(client, RequestCode.QUERY_CONSUMER_OFFSET, asked).ext_fields["offset"] == "1"
    assert "%LMQ%x" not in broker.parts.groups.table()


def test_a_held_pull_of_a_light_queue_is_woken_by_its_own_messages(broker: WholeBroker) -> None:
    client = broker.connect()
    header = pulling(topic="%LMQ%x", sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND, consumer_group="%LMQ%x")
    assert broker.ask_all(client, RequestCode.PULL_MESSAGE, header) == []
    send(broker, b"a", "%LMQ%y")
    assert client.received() == []
    send(broker, b"b", "%LMQ%x")
    (answer,) = client.received()
    assert [message.body for message in parse_records(answer.body)] == [b"b"]


def test_a_kill_and_a_stop_keep_light_queues(broker: WholeBroker, tmp_path: Path) -> None:
    for body in (b"a", b"b"):
        send(broker, body, "%LMQ%x", TAGS="t")
    for again in (broker.crash_image(tmp_path / "killed"), broker.restart()):
        assert bodies(again, "%LMQ%x") == [b"a", b"b"]
        send(again, b"c", "%LMQ%x")
        assert bodies(again, "%LMQ%x") == [b"a", b"b", b"c"]
        assert pull(again, again.connect(), "%LMQ%x", 1) == [b"b", b"c"]
        assert again.parts.topics.table().get("%LMQ%x") is None


def test_lost_light_queues_are_made_again_from_the_log(broker: WholeBroker, tmp_path: Path) -> None:
    for body in (b"a", b"b"):
        send(broker, body, "%LMQ%x")
    broker.stop()
    shutil.rmtree(tmp_path / "store" / "consumequeue" / "%LMQ%x")
    again = WholeBroker(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True)
    assert bodies(again, "%LMQ%x") == [b"a", b"b"]
    assert pull(again, again.connect(), "%LMQ%x") == [b"a", b"b"]


def test_a_delayed_message_comes_to_its_light_queues_with_its_own(broker: WholeBroker) -> None:
    send(broker, b"a", "%LMQ%x", DELAY="1")
    assert bodies(broker, "%LMQ%x") == []
    broker.wait(2)
    assert bodies(broker, "orders") == bodies(broker, "%LMQ%x") == [b"a"]


def room_left(broker: WholeBroker, further: dict[str, str]) -> int:
    """Return how many bytes the properties of a waiting message that names a light queue have left."""
    assert send(broker, b"short", "%LMQ%x", k="v", **further) == ResponseCode.SUCCESS
    waiting = max(len(message.properties) for topic in WAITING for message in broker.messages(topic))
    return MAX_PROPERTIES_BYTES - waiting


@pytest.mark.parametrize("further", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}])
def test_a_waiting_message_without_room_for_its_offsets_is_refused(
    broker: WholeBroker, further: dict[str, str]
) -> None:
    left = room_left(broker, further)
    answer = broker.send(
        broker.connect(), properties={"INNER_MULTI_DISPATCH": "%LMQ%x", "k": "v" * (left + 1), **further}
    )
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "light queues" in (answer.remark or "")
    room = len("INNER_MULTI_QUEUE_OFFSET") + 2 + OFFSET_BYTES
    assert send(broker, b"long", "%LMQ%x", k="v" * (left + 1 - room), **further) == ResponseCode.SUCCESS
    assert send(broker, b"after", "%LMQ%x", **further) == ResponseCode.SUCCESS
    broker.wait(5)
    assert bodies(broker, "%LMQ%x") == [b"short", b"long", b"after"]


def test_a_half_message_without_room_for_its_offsets_is_refused(broker: WholeBroker) -> None:
    further = {"TRAN_MSG": "true", "PGROUP": "producers"}
    left = room_left(broker, further)
    assert send(broker, b"a", "%LMQ%x", k="v" * (left + 1), **further) == ResponseCode.MESSAGE_ILLEGAL
    assert send(broker, b"a", "%LMQ%x", k="v" * (left - 50), **further) == ResponseCode.SUCCESS


def test_more_light_queues_than_allowed_are_refused(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True, max_lmq_consume_queue_num=1)
    send(broker, b"a", "%LMQ%x")
    answer = broker.send(broker.connect(), properties={"INNER_MULTI_DISPATCH": "%LMQ%x,%LMQ%y"})
    assert answer.code == ResponseCode.LMQ_QUOTA_EXCEEDED
    assert "maxLmqConsumeQueueNum" in (answer.remark or "")
    assert send(broker, b"b", "%LMQ%x") == ResponseCode.SUCCESS
    assert bodies(broker, "%LMQ%x") == [b"a", b"b"]


@pytest.mark.parametrize("further", [{}, {"DELAY": "1"}, {"TRAN_MSG": "true", "PGROUP": "producers"}])
def test_a_message_names_so_many_light_queues_at_most(broker: WholeBroker, further: dict[str, str]) -> None:
    names = [f"%LMQ%{number}" for number in range(MAX_LIGHT_QUEUES + 1)]
    batch = build_batch([BatchPart(0, b"a", f"INNER_MULTI_DISPATCH\x01{','.join(names)}\x02".encode())])
    assert broker.send(broker.connect(), batch=True, body=batch).code == ResponseCode.MESSAGE_ILLEGAL
    answer = broker.send(broker.connect(), properties={"INNER_MULTI_DISPATCH": ",".join(names), **further})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert f"names {len(names)} light queues" in (answer.remark or "")
    assert send(broker, b"a", *names[1:], **further) == ResponseCode.SUCCESS


def test_there_are_none_unless_they_are_switched_on(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    send(broker, b"a", "%LMQ%x")
    assert "INNER_MULTI_QUEUE_OFFSET" not in broker.messages("orders")[0].property_map
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, pulling(topic="%LMQ%x"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
