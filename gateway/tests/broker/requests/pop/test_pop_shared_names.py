"""The older retry topic of pops of ``group`` from ``orders`` is also the retry topic of a group ``group_orders``."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.broker.popping import RETRY_TOPIC, ack, bodies, filled, pop
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.headers.pop import PeekMessageRequest
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.headers.topics import DeleteTopicRequest

OTHER = "group_orders"


def given_back(broker: WholeBroker, client: Peer) -> None:
    """Let the other group give back a message of another topic."""
    broker.send(client, "secret", b"of the other group")
    broker.parts.groups.find(OTHER)
    place = broker.messages("secret")[-1].commit_log_offset
    back = ConsumerSendMsgBackRequest(offset=place, group=OTHER, delay_level=1, origin_topic="secret")
    assert broker.ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back).code == ResponseCode.SUCCESS
    broker.wait(2)


@pytest.mark.parametrize("newer", [False, True])
def test_a_pop_takes_nothing_that_another_group_gave_back(tmp_path: Path, newer: bool) -> None:
    broker = WholeBroker(tmp_path / "store", enable_retry_topic_v2=newer, retrieve_message_from_pop_retry_topic_v1=True)
    client = filled(broker, "mine")
    given_back(broker, client)
    assert bodies(pop(broker, client)) == [b"mine"]
    assert pop(broker, client) == []
    peeking = PeekMessageRequest(consumer_group="group", topic="orders", queue_id=-1, max_msg_nums=32)
    assert broker.ask(client, RequestCode.PEEK_MESSAGE, peeking).code == ResponseCode.PULL_NOT_FOUND
    broker.stop()


def test_messages_come_again_to_who_popped_them_and_not_to_the_other_group(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine")
    given_back(broker, client)
    for times in range(3):
        (message,) = pop(broker, client, invisible_time=1_000)
        assert (message.record.body, message.record.reconsume_times) == (b"mine", times)
        broker.wait(3)
    assert [message.body for message in broker.messages(RETRY_TOPIC)] == [b"of the other group"]
    (message,) = pop(broker, client)
    assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.stop()


def test_what_was_popped_before_the_other_group_came_is_not_lost(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine")
    assert bodies(pop(broker, client, invisible_time=1_000)) == [b"mine"]
    broker.wait(3)
    assert [message.body for message in broker.messages(RETRY_TOPIC)] == [b"mine"]
    given_back(broker, client)
    assert bodies(pop(broker, client)) == [b"mine"]
    assert pop(broker, client) == []
    broker.stop()


def test_a_topic_is_deleted_without_what_another_group_gave_back(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine")
    given_back(broker, client)
    pop(broker, client, invisible_time=1_000)
    broker.wait(3)
    deleting = DeleteTopicRequest(topic="orders")
    assert broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, deleting).code == ResponseCode.SUCCESS
    assert broker.parts.topics.get("%RETRY%group+orders") is None
    assert [message.body for message in broker.messages(RETRY_TOPIC)] == [b"of the other group"]
    broker.stop()
