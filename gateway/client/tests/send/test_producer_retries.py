"""Another try, on another broker or later, and what an error says then."""

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest

from gateway.client.errors import (
    AclError,
    BrokerError,
    ConnectError,
    NotSent,
    RequestTimeout,
    RocketMQError,
    RouteNotFound,
)
from gateway.client.message import Message, MessageQueue
from gateway.client.results import SendStatus
from gateway.client.tests.jumping_time import push_time
from gateway.client.tests.scripted_broker import ScriptedBroker, run, stored_at
from gateway.client.tests.send.producing import MESSAGE, SEND, in_turn, producer_at, sent
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.message.properties import parse_properties


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.GO_AWAY])
def test_a_retriable_answer_is_tried_again_with_the_same_id(code: int) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(SEND, in_turn(code, code))
            result = await producer.send(MESSAGE)
            assert result.status is SendStatus.SEND_OK
            ids = {parse_properties(header.properties or "")["UNIQ_KEY"] for header in sent(broker)}
            assert (len(sent(broker)), ids) == (3, {result.msg_id})

    run(test())


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (
            ResponseCode.NO_PERMISSION,
            "User:shop has no permission to access Topic:t from 127.0.0.1, no matched policies.",
        ),
        (ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: No acl config for shop, a.B.c(B:1)"),
    ],
)
def test_a_refusal_of_access_is_final_though_java_tries_again(code: int, remark: str) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.answer(SEND, code, remark)
            with pytest.raises(AclError) as caught:
                await producer.send(MESSAGE)
            assert (caught.value.account, len(sent(broker))) == ("shop", 1)

    run(test())


def test_another_try_goes_to_another_broker() -> None:
    async def test() -> None:
        async with (
            ScriptedBroker() as broker,
            ScriptedBroker(name="broker-b") as other,
            producer_at(broker) as producer,
        ):
            broker.route_addresses = {"broker-a": broker.address, "broker-b": other.address}
            broker.answer(SEND, ResponseCode.SYSTEM_ERROR, "broken")
            results = [await producer.send(MESSAGE) for _ in range(8)]
            assert {result.queue.broker_name for result in results} == {"broker-b"}
            assert broker.asked(SEND), "it was tried"

    run(test())


def test_tries_are_limited_and_the_last_failure_is_told() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker, retry_times_when_send_failed=1) as producer:
            broker.answer(SEND, ResponseCode.SYSTEM_BUSY, "flow control")
            with pytest.raises(BrokerError, match="flow control"):
                await producer.send(MESSAGE)
            assert len(broker.asked(SEND)) == 2

    run(test())


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, 4711])
def test_what_will_not_get_better_is_not_tried_again(code: int) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.answer(SEND, code, "no")
            with pytest.raises(BrokerError) as caught:
                await producer.send(MESSAGE)
            assert caught.value.code == code
            assert len(broker.asked(SEND)) == 1

    run(test())


def test_a_chosen_queue_is_not_tried_again_as_in_java() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.answer(SEND, ResponseCode.SYSTEM_BUSY)
            with pytest.raises(BrokerError):
                await producer.send(MESSAGE, queue=MessageQueue("t", "broker-a", 0))
            assert len(broker.asked(SEND)) == 1

    run(test())


def test_a_broker_that_restarts_is_waited_for() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            await producer.send(MESSAGE)
            await broker.stop()
            call = asyncio.ensure_future(producer.send(MESSAGE))
            await broker.start()
            assert (await call).status is SendStatus.SEND_OK

    run(test())


def test_a_broker_that_stays_away_is_an_error_that_names_it() -> None:
    async def test() -> None:
        async with ScriptedBroker() as gone:
            address = gone.address
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.route_addresses = {"broker-a": address}
            with pytest.raises(ConnectError, match="brokerIP1"):
                await producer.send(MESSAGE)

    run(test())


def test_no_answer_is_a_timeout_that_leaves_the_outcome_open() -> None:
    """Time passes when the broker has the message; a busy machine makes none of it pass before."""

    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(SEND, lambda _: push_time(10))
            with pytest.raises(RequestTimeout) as caught:
                await producer.send(MESSAGE, timeout=10)
            assert caught.value.outcome_unknown
            assert len(sent(broker)) == 1, "it is not sent again"

    run(test())


def test_an_error_after_a_try_that_may_have_worked_says_so() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            calls = 0

            def crash_then_refuse(request: RemotingCommand) -> RemotingCommand | None:
                nonlocal calls
                calls += 1
                if calls == 1:
                    broker.drop_connections()
                    return None
                return request.response(ResponseCode.MESSAGE_ILLEGAL, "no")

            broker.on(SEND, crash_then_refuse)
            with pytest.raises(BrokerError) as caught:
                await producer.send(MESSAGE)
            assert caught.value.outcome_unknown, "the first try may have been stored"

    run(test())


def test_an_unknown_topic_without_a_template_is_told() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.unknown_topics = {"t", "TBW102"}
            with pytest.raises(RouteNotFound):
                await producer.send(MESSAGE)

    run(test())


@pytest.mark.parametrize("status", [SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE])
def test_a_message_that_is_not_safe_enough_is_an_error_unless_accepted(status: SendStatus) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(SEND, lambda request: request.response(int(status), ext_fields=stored_at(0, 7)))
            with pytest.raises(NotSent) as caught:
                await producer.send(MESSAGE)
            assert caught.value.result.queue_offset == 7
            result = await producer.send(MESSAGE, accept={status})
            assert (result.status, result.durable) == (status, False)
            assert len(broker.asked(SEND)) == 2

    run(test())


def test_a_message_that_is_not_safe_enough_can_be_tried_elsewhere() -> None:
    async def test() -> None:
        changes = {"retry_another_broker_when_not_store_ok": True}
        async with ScriptedBroker() as broker, producer_at(broker, **changes) as producer:
            answers = [int(SendStatus.FLUSH_DISK_TIMEOUT), 0]
            broker.on(SEND, lambda request: request.response(answers.pop(0), ext_fields=stored_at(0, 7)))
            assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK

    run(test())


def test_an_answer_that_cannot_be_read_is_a_protocol_error() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(SEND, lambda request: request.response(0, ext_fields={"queueId": "x"}))
            with pytest.raises(RocketMQError, match="answer to a send"):
                await producer.send(MESSAGE)

    run(test())


def test_slow_brokers_are_avoided_when_asked_for() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, ScriptedBroker(name="broker-b") as other:
            broker.route_addresses = {"broker-a": broker.address, "broker-b": other.address}
            async with producer_at(broker, send_latency_fault_enable=True) as producer:
                broker.answer(SEND, ResponseCode.SYSTEM_ERROR)
                await asyncio.gather(*(producer.send(MESSAGE) for _ in range(8)))
                before = len(broker.asked(SEND))
                for _ in range(8):
                    await producer.send(MESSAGE)
                assert len(broker.asked(SEND)) == before

    run(test())


def test_a_route_that_changes_is_followed() -> None:
    async def test() -> None:
        async with (
            ScriptedBroker() as broker,
            ScriptedBroker() as moved,
            producer_at(broker, poll_name_server_interval=0.1) as producer,
        ):
            await producer.send(MESSAGE)
            broker.route_addresses = {"broker-a": moved.address}
            await moved.wait_for(RequestCode.HEART_BEAT)
            await producer.send(MESSAGE)
            assert len(moved.asked(SEND)) == 1

    run(test())


def test_a_topic_that_can_no_longer_be_written_is_told() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker, poll_name_server_interval=0.1) as producer:
            await producer.send(MESSAGE)
            asked = len(broker.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC))
            broker.queues = 0
            await broker.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked + 2)
            with pytest.raises(RouteNotFound, match="writable"):
                await producer.send(MESSAGE)

    run(test())


def test_the_known_route_serves_while_the_name_server_is_gone() -> None:
    async def test() -> None:
        async with ScriptedBroker() as name_server, ScriptedBroker() as broker:
            name_server.route_addresses = {"broker-a": broker.address}
            async with producer_at(name_server) as producer:
                await producer.send(MESSAGE)
                await name_server.stop()
                broker.drop_connections()
                broker.on(SEND, in_turn(ResponseCode.TOPIC_NOT_EXIST))
                assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK
                await name_server.start()

    run(test())


@pytest.mark.parametrize("trouble", ["silent", "empty", "confused"])
def test_the_known_route_serves_while_name_servers_are_in_trouble(trouble: str) -> None:
    async def test() -> None:
        async with ScriptedBroker() as name_server, ScriptedBroker() as broker:
            name_server.route_addresses = {"broker-a": broker.address}
            async with producer_at(name_server, request_timeout=0.3) as producer:
                await producer.send(MESSAGE)
                answers: dict[str, Callable[[RemotingCommand], RemotingCommand | None]] = {
                    "silent": lambda _: None,
                    "empty": lambda request: request.response(ResponseCode.TOPIC_NOT_EXIST, "restarted a moment ago"),
                    "confused": lambda request: request.response(0, body=b"[]"),
                }
                name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, answers[trouble])
                for _ in range(2):
                    broker.on(SEND, in_turn(ResponseCode.TOPIC_NOT_EXIST))  # asks for a new route before the next try
                    assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK
                with pytest.raises(RocketMQError):
                    await producer.send(Message("another", b"x"))

    run(test())


def test_errors_are_forgotten_with_the_messages_they_were_about() -> None:
    """A message on its way is not seen by the garbage collector: a circle with one in it would stay for ever."""

    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            await producer.send(MESSAGE)
            await broker.stop()
            failures: list[weakref.ref[ConnectError]] = []

            async def fail() -> None:
                with pytest.raises(ConnectError) as caught:
                    await producer.send(MESSAGE)
                failures.append(weakref.ref(caught.value))

            await fail()
            await asyncio.sleep(0)  # the loop still holds what it has just woken
            gc.collect()
            assert failures[0]() is None
            await broker.start()

    run(test())


def test_a_message_that_was_never_written_is_known_not_to_be_sent() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: None)
            with pytest.raises(RequestTimeout, match="was not sent") as caught:
                await producer.send(MESSAGE, timeout=0.05)
            assert not caught.value.outcome_unknown

    run(test())
