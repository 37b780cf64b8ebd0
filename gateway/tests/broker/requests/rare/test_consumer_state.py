"""Facts that only running consumers know: the broker asks the consumers."""

from __future__ import annotations

import pytest

from gateway.broker.requests.rare import consumer_state
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.membership.subscriptions import subscription
from wire.bodies.consumers import GetConsumerStatusBody
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.message_queue import MessageQueue
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest
from wire.headers.declare import parse_header
from wire.headers.offsets import GetConsumerStatusRequest
from wire.message.message_id import pack_host
from wire.message.record import parse_records

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_the_running_info_comes_from_the_client(broker: WholeBroker) -> None:
    client, tool = broker.connect(), broker.connect()
    broker.subscribe(client)
    client.received()
    question = GetConsumerRunningInfoRequest(consumer_group="group", client_id="client-1", jstack_enable=True)
    assert broker.ask_all(tool, RequestCode.GET_CONSUMER_RUNNING_INFO, question) == []
    (asked,) = client.received()
    assert asked.ext_fields["jstackEnable"] == "true"
    client.send(asked.response(ResponseCode.SUCCESS, body=b'{"jstack":"main"}'))
    broker.turn()
    (answer,) = tool.received()
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b'{"jstack":"main"}')


def test_a_client_that_is_not_online_is_an_error(broker: WholeBroker) -> None:
    question = GetConsumerRunningInfoRequest(consumer_group="group", client_id="client-1")
    answer = broker.ask(broker.connect(), RequestCode.GET_CONSUMER_RUNNING_INFO, question)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "The Consumer <group> <client-1> not online")


def directly(message_id: str | None) -> ConsumeMessageDirectlyResultRequest:
    return ConsumeMessageDirectlyResultRequest(
        consumer_group="group", client_id="client-1", msg_id=message_id, broker_name="broker-a", topic="orders"
    )


def test_a_message_is_given_to_one_consumer_with_its_record(broker: WholeBroker) -> None:
    client, tool = broker.connect(), broker.connect()
    broker.subscribe(client)
    client.received()
    (first, _) = broker.messages("orders")
    assert broker.ask_all(tool, RequestCode.CONSUME_MESSAGE_DIRECTLY, directly(first.offset_message_id)) == []
    (asked,) = client.received()
    header = parse_header(ConsumeMessageDirectlyResultRequest, asked.ext_fields)
    assert (header.topic_sys_flag, header.group_sys_flag, header.msg_id) == (0, 0, first.offset_message_id)
    assert [message.body for message in parse_records(asked.body)] == [b"0"]
    client.send(asked.response(ResponseCode.SUCCESS, body=b'{"consumeResult":"CR_SUCCESS"}'))
    broker.turn()
    (answer,) = tool.received()
    assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'


def test_a_message_that_is_not_there_reaches_no_consumer(broker: WholeBroker) -> None:
    client, tool = broker.connect(), broker.connect()
    broker.subscribe(client)
    client.received()
    nowhere = (pack_host("10.0.0.1", 10911) + (10**6).to_bytes(8, "big")).hex().upper()
    for message_id in (nowhere, "no id"):
        answer = broker.ask(tool, RequestCode.CONSUME_MESSAGE_DIRECTLY, directly(message_id))
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert client.received() == []


def status(client: str | None = None) -> GetConsumerStatusRequest:
    return GetConsumerStatusRequest(topic="orders", group="group", client_addr=client)


def test_the_offsets_in_the_memory_of_the_clients_are_gathered(broker: WholeBroker) -> None:
    client, tool = broker.connect(), broker.connect()
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    assert broker.ask(tool, code, status()).code == ResponseCode.SYSTEM_ERROR
    broker.subscribe(client)
    client.received()
    assert GetConsumerStatusBody.parse(broker.ask(tool, code, status("other")).body).consumer_table == {}
    assert broker.ask_all(tool, code, status("client-1")) == []
    (asked,) = client.received()
    assert asked.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    client.send(asked.response(ResponseCode.SUCCESS, body=GetConsumerStatusBody({QUEUE: 7}).build()))
    broker.turn()
    (answer,) = tool.received()
    assert GetConsumerStatusBody.parse(answer.body).consumer_table == {"client-1": {QUEUE: 7}}


def test_a_client_that_does_not_answer_is_left_out(broker: WholeBroker) -> None:
    client, tool = broker.connect(), broker.connect()
    broker.subscribe(client)
    assert broker.ask_all(tool, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status()) == []
    broker.wait(5.25)
    (answer,) = tool.received()
    assert GetConsumerStatusBody.parse(answer.body).consumer_table == {}


def test_answers_that_wait_for_the_last_client_take_no_more_memory_than_a_limit(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, code = broker.connect(), RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    clients = {name: broker.connect() for name in "abc"}
    for name, client in clients.items():
        wanted = ConsumerData("group", subscriptions=(subscription("orders"),))
        broker.ask_all(client, RequestCode.HEART_BEAT, body=HeartbeatData(name, consumers=(wanted,)).build())
    body = GetConsumerStatusBody({QUEUE: 7}).build()
    monkeypatch.setattr(consumer_state, "MAX_TOLD_BYTES", 2 * len(body))
    for _ in range(2):
        for client in clients.values():
            client.received()
        assert broker.ask_all(tool, code, status()) == []
        for client in clients.values():
            (asked,) = client.received()
            client.send(asked.response(ResponseCode.SUCCESS, body=body))
        broker.turn()
        (answer,) = tool.received()
        assert GetConsumerStatusBody.parse(answer.body).consumer_table == {"a": {QUEUE: 7}, "b": {QUEUE: 7}}
