import asyncio

import pytest

from gateway.client.errors import BrokerError, ProtocolError, RequestTimeout, RocketMQError
from gateway.client.message import Message, MessageQueue
from gateway.client.results import SendResult, SendStatus
from gateway.client.send.sending import Sending, SendOptions, SendTarget
from gateway.client.tests.scripted_broker import run, stored_at
from wire.command import RemotingCommand
from wire.headers.send import SendMessageResponse

TARGET = SendTarget(MessageQueue("ns%t", "b", 3), MessageQueue("t", "b", 3), "b:10911")


class Told:
    """A sender that only listens."""

    def __init__(self) -> None:
        self.results: list[SendResult] = []
        self.errors: list[RocketMQError] = []

    def stored(self, sending: Sending, result: SendResult, header: SendMessageResponse) -> None:
        self.results.append(result)

    def failed_once(self, sending: Sending, error: RocketMQError) -> None:
        self.errors.append(error)


async def answered(command: RemotingCommand) -> Told:
    told = Told()
    future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    options = SendOptions(timeout=3.0, retries=0)
    sending = Sending(told, Message("t", b"x"), options, future, "ID", b'""', b"x", 0, 0, 0.0, 3.0, 310, 3.0)
    sending.target = TARGET
    sending.answered(command)
    return told


@pytest.mark.parametrize("status", SendStatus)
def test_a_stored_message_has_a_result(status: SendStatus) -> None:
    told = run(answered(RemotingCommand(int(status), ext_fields=stored_at(3, 42))))
    (result,) = told.results
    assert (result.status, result.msg_id, result.queue_offset) == (status, "ID", 42)
    assert result.queue == MessageQueue("t", "b", 3)


def test_the_broker_has_the_last_word_on_the_queue() -> None:
    told = run(answered(RemotingCommand(0, ext_fields=stored_at(7, 42))))
    assert told.results[0].queue == MessageQueue("t", "b", 7)


def test_any_other_code_is_a_failure() -> None:
    told = run(answered(RemotingCommand(2, remark="busy")))
    (error,) = told.errors
    assert isinstance(error, BrokerError)
    assert (error.code, error.remark, error.address) == (2, "busy", "b:10911")


@pytest.mark.parametrize("fields", [{}, {"msgId": "A", "queueId": "x", "queueOffset": "0"}, {"msgId": "A"}])
def test_an_answer_without_a_place_is_a_failure(fields: dict[str, str]) -> None:
    told = run(answered(RemotingCommand(0, ext_fields=fields)))
    assert isinstance(told.errors[0], ProtocolError)


def test_no_answer_is_a_failure() -> None:
    async def test() -> Told:
        told = Told()
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        options = SendOptions(timeout=3.0, retries=0)
        sending = Sending(told, Message("t", b"x"), options, future, "ID", b'""', b"x", 0, 0, 0.0, 3.0, 310, 3.0)
        sending.failed(RequestTimeout("SEND", "b:1", 3.0))
        return told

    assert isinstance(run(test()).errors[0], RequestTimeout)
