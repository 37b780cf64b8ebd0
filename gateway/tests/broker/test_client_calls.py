"""What the broker asks its clients."""

from __future__ import annotations

import pytest

from gateway.broker import client_calls
from gateway.broker.client_calls import (
    FORWARD_MIN_VERSION,
    FORWARD_TIMEOUT_S,
    STATUS_TIMEOUT_S,
    check_client_version,
)
from gateway.errors import RequestRefused
from gateway.tests.remoting.conversation import Conversation, Peer, outcome
from wire.bodies.consumers import GetConsumerStatusBody
from wire.bodies.fastjson import parse_json
from wire.bodies.message_queue import MessageQueue
from wire.codes import LanguageCode, RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.admin import ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest
from wire.headers.declare import parse_header
from wire.headers.offsets import GetConsumerStatusRequest, ResetOffsetRequest
from wire.headers.send import ReplyMessageRequest
from wire.headers.transaction import CheckTransactionStateRequest

QUEUE = MessageQueue("orders", "broker-a", 3)
RUNNING_INFO = GetConsumerRunningInfoRequest(consumer_group="g", client_id="c", jstack_enable=True)


class Client:
    """A client and what the broker has asked it."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self.peer: Peer = self.conversation.connect()
        self.channel = self.peer.channel

    def asked(self) -> RemotingCommand:
        self.conversation.server.flush()
        (command,) = self.peer.received()
        return command


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_check_is_a_oneway_request_with_the_record(client: Client) -> None:
    header = CheckTransactionStateRequest(
        tran_state_table_offset=7, commit_log_offset=4_096, transaction_id="id", offset_msg_id="A0"
    )
    assert client_calls.check_transaction_state(client.channel, header, b"record")
    asked = client.asked()
    assert (asked.code, asked.is_oneway, asked.body) == (39, True, b"record")
    assert parse_header(CheckTransactionStateRequest, asked.ext_fields) == header


def test_a_check_for_a_client_that_left_is_not_sent(client: Client) -> None:
    client.peer.leave()
    header = CheckTransactionStateRequest(tran_state_table_offset=7, commit_log_offset=4_096)
    assert not client_calls.check_transaction_state(client.channel, header, b"record")


@pytest.mark.parametrize(
    ("language", "is_list"), [(LanguageCode.JAVA, False), (LanguageCode.GO, False), (LanguageCode.CPP, True)]
)
def test_new_offsets_come_in_the_form_the_client_can_read(client: Client, language: int, is_list: bool) -> None:
    header = ResetOffsetRequest(group="g", topic="orders", timestamp=5, is_force=True)
    assert client_calls.reset_consumer_offset(client.channel, header, {QUEUE: 42}, language)
    asked = client.asked()
    assert (asked.code, asked.is_oneway) == (220, True)
    table = parse_json(asked.body)["offsetTable"]
    if is_list:
        assert table == [{"brokerName": "broker-a", "offset": 42, "queueId": 3, "topic": "orders"}]
    else:
        assert asked.body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"orders"}:42}}'


def test_the_offsets_of_a_client_are_read_from_its_answer(client: Client) -> None:
    seen = outcome(client_calls.consumer_status(client.channel, "orders", "g"))
    asked = client.asked()
    assert asked.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    assert parse_header(GetConsumerStatusRequest, asked.ext_fields).topic == "orders"
    client.peer.send(asked.response(0, body=GetConsumerStatusBody(message_queue_table={QUEUE: 42}).build()))
    assert seen == [{QUEUE: 42}]


def test_an_error_of_the_client_is_told(client: Client) -> None:
    seen = outcome(client_calls.consumer_status(client.channel, "orders", "g"))
    client.peer.send(client.asked().response(ResponseCode.SYSTEM_ERROR, "no such group"))
    assert seen[0].code == ResponseCode.SYSTEM_ERROR
    assert seen[0].remark == "the client 192.0.2.7:50001 answered SYSTEM_ERROR: no such group"


def test_a_client_that_does_not_tell_its_offsets_times_out(client: Client) -> None:
    seen = outcome(client_calls.consumer_status(client.channel, "orders", "g"))
    client.conversation.reactor.advance(STATUS_TIMEOUT_S)
    assert seen[0].code == ResponseCode.CONSUME_MSG_TIMEOUT


def test_what_a_client_is_doing_is_passed_on_as_it_is(client: Client) -> None:
    seen = outcome(client_calls.consumer_running_info(client.channel, RUNNING_INFO))
    asked = client.asked()
    assert parse_header(GetConsumerRunningInfoRequest, asked.ext_fields) == RUNNING_INFO
    client.peer.send(asked.response(ResponseCode.SYSTEM_ERROR, "as it is", body=b"info"))
    (answer,) = seen
    assert (answer.code, answer.remark, answer.body) == (ResponseCode.SYSTEM_ERROR, "as it is", b"info")


def test_a_message_is_consumed_by_one_client(client: Client) -> None:
    header = ConsumeMessageDirectlyResultRequest(consumer_group="g", client_id="c")
    seen = outcome(client_calls.consume_message_directly(client.channel, header, b"record"))
    asked = client.asked()
    assert (asked.code, asked.body) == (RequestCode.CONSUME_MESSAGE_DIRECTLY, b"record")
    client.peer.send(asked.response(0, body=b"result"))
    assert seen[0].body == b"result"


def test_a_reply_is_pushed_to_the_client_that_asked(client: Client) -> None:
    header = ReplyMessageRequest(
        producer_group="g",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        born_host="192.0.2.1:1",
        store_host="192.0.2.2:2",
        store_timestamp=2,
    )
    seen = outcome(client_calls.push_reply(client.channel, header, b"reply"))
    asked = client.asked()
    assert (asked.code, asked.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"reply")
    client.peer.send(asked.response(0))
    assert seen[0].code == ResponseCode.SUCCESS


def test_a_client_that_is_busy_or_gone_is_told_apart(client: Client) -> None:
    seen = outcome(client_calls.consumer_running_info(client.channel, RUNNING_INFO))
    client.conversation.reactor.advance(FORWARD_TIMEOUT_S)
    assert seen[0].code == ResponseCode.CONSUME_MSG_TIMEOUT
    client.peer.leave()
    seen = outcome(client_calls.consumer_running_info(client.channel, RUNNING_INFO))
    assert seen[0].code == ResponseCode.SYSTEM_ERROR
    assert "was not asked" in seen[0].remark


def test_a_client_that_is_too_old_is_not_asked() -> None:
    check_client_version(FORWARD_MIN_VERSION, FORWARD_MIN_VERSION, "c")
    with pytest.raises(RequestRefused, match="version 61, which does not know this request"):
        check_client_version(FORWARD_MIN_VERSION - 1, FORWARD_MIN_VERSION, "c")
