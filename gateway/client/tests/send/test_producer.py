"""The requests that a producer sends, and their destination."""

import asyncio

import pytest

from gateway.client.errors import (
    BrokerError,
    ConfigurationError,
    MessageRefused,
    MessageTooLarge,
    PartlySent,
)
from gateway.client.message import Message, MessageQueue
from gateway.client.results import SendStatus
from gateway.client.tests.consuming_broker import until
from gateway.client.tests.scripted_broker import ScriptedBroker, run, stored_at
from gateway.client.tests.send.producing import MESSAGE, SEND, producer_at, sent
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.send import SendMessageResponse, ShortSendMessageRequest
from wire.message.batch import parse_batch
from wire.message.properties import parse_properties
from wire.signature import signature


def test_a_message_is_sent_as_java_sends_it() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            message = Message("t", b"hello", tags="T", keys=["k"], flag=3)
            result = await producer.send(message)
            (header,) = sent(broker)
            assert (header.producer_group, header.topic, header.default_topic) == ("g", "t", "TBW102")
            assert (header.queue_id, header.sys_flag, header.flag) == (result.queue.queue_id, 0, 3)
            assert (header.reconsume_times, header.batch, header.broker_name) == (0, False, "broker-a")
            assert parse_properties(header.properties or "") == {
                "KEYS": "k",
                "TAGS": "T",
                "WAIT": "true",
                "UNIQ_KEY": result.msg_id,
            }
            assert broker.asked(SEND)[0].body == b"hello"
            assert result.status is SendStatus.SEND_OK
            assert result.queue == MessageQueue("t", "broker-a", header.queue_id)
            assert result.durable is None

    run(test())


def test_messages_take_turns_on_the_queues() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            queues = [(await producer.send(MESSAGE)).queue.queue_id for _ in range(8)]
            assert sorted(queues) == [0, 0, 1, 1, 2, 2, 3, 3]
            assert broker.connections == 1, "name server and broker have one address here"

    run(test())


def test_a_message_without_properties_is_sent_with_what_it_has() -> None:
    async def test() -> None:
        async with ScriptedBroker(queues=1) as broker, producer_at(broker) as producer:
            await producer.send(MESSAGE)
            results = [await producer.send(Message("t", b"x", flag=flag)) for flag in (0, 3)]
            headers = sent(broker)[1:]
            assert [(header.flag, header.sys_flag, header.reconsume_times) for header in headers] == [
                (0, 0, 0),
                (3, 0, 0),
            ]
            for header, result in zip(headers, results, strict=True):
                assert parse_properties(header.properties or "") == {"WAIT": "true", "UNIQ_KEY": result.msg_id}
            assert [result.queue_offset for result in results] == [1, 2]

    run(test())


def test_a_broker_that_came_back_is_used_again() -> None:
    async def test() -> None:
        async with ScriptedBroker(queues=1) as first, ScriptedBroker(name="broker-b", queues=1) as second:
            first.route_addresses = {"broker-a": first.address, "broker-b": second.address}
            async with producer_at(first) as producer:
                for _ in range(2):
                    await producer.send(MESSAGE)
                second.drop_connections()
                remoting = producer._running_instance().remoting
                await until(lambda: remoting.open_connection(second.address) is None)
                for _ in range(4):
                    await producer.send(MESSAGE)
                assert len(second.asked(SEND)) == 3

    run(test())


def test_a_queue_a_selector_and_a_key_choose() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            queues = await producer.publish_queues("t")
            assert (await producer.send(MESSAGE, queue=queues[2])).queue == queues[2]
            assert (await producer.send(MESSAGE, selector=lambda some, _: some[1])).queue == queues[1]
            keyed = Message("t", b"x", sharding_key="a")
            assert {(await producer.send(keyed)).queue.queue_id for _ in range(3)} == {97 % 4}
            with pytest.raises(ConfigurationError, match="queue"):
                await producer.send(MESSAGE, queue=MessageQueue("t", "broker-a", 17))

    run(test())


def test_async_sends_need_no_task_and_keep_their_order() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            queue = (await producer.publish_queues("t"))[0]
            await producer.send(MESSAGE, queue=queue)
            tasks = len(asyncio.all_tasks())
            futures = [await producer.send_async(Message("t", b"%d" % n), queue=queue) for n in range(100)]
            assert len(asyncio.all_tasks()) == tasks
            assert [(await future).queue_offset for future in futures] == list(range(1, 101))
            assert [request.body for request in broker.asked(SEND)][1:] == [b"%d" % n for n in range(100)]

    run(test())


def test_more_than_may_be_in_flight_waits() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def slow(request: RemotingCommand) -> RemotingCommand:
            await release.wait()
            return request.response(0, ext_fields=stored_at(0, 0))

        async with ScriptedBroker() as broker, producer_at(broker, max_in_flight=3) as producer:
            broker.on(SEND, slow)
            calls = [asyncio.ensure_future(producer.send(MESSAGE)) for _ in range(10)]
            await broker.wait_for(SEND, 3)
            assert producer.sender.in_flight == 3
            calls[5].cancel()
            release.set()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 1
            assert producer.sender.in_flight == 0

    run(test())


def test_bytes_in_flight_have_a_limit_too() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker, max_in_flight_bytes=10) as producer:
            broker.on(SEND, lambda _: None)
            first = await producer.send_async(Message("t", b"x" * 10))
            second = asyncio.ensure_future(producer.send_async(MESSAGE))
            await broker.wait_for(SEND)
            assert not second.done()
            second.cancel()
            first.cancel()

    run(test())


def test_a_oneway_message_wants_no_answer() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            await producer.send_oneway(MESSAGE)
            (request,) = await broker.wait_for(SEND)
            assert request.is_oneway
            with pytest.raises(MessageTooLarge):
                await producer.send_oneway(Message("t", b"x" * 5_000_000))

    run(test())


def test_a_batch_is_one_request_with_a_result_for_each_message() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            messages = [Message("t", b"%d" % number, tags=f"T{number}") for number in range(3)]
            broker.on(
                RequestCode.SEND_BATCH_MESSAGE,
                lambda request: request.response(
                    0, ext_fields=build_header(SendMessageResponse(msg_id="A,B,C", queue_id=2, queue_offset=40))
                ),
            )
            results = await producer.send_batch(messages)
            (request,) = broker.asked(RequestCode.SEND_BATCH_MESSAGE)
            parts = parse_batch(request.body)
            assert [part.body for part in parts] == [b"0", b"1", b"2"]
            assert [parse_properties(part.properties)["UNIQ_KEY"] for part in parts] == [one.msg_id for one in results]
            assert [(one.offset_msg_id, one.queue_offset) for one in results] == [("A", 40), ("B", 41), ("C", 42)]
            header = parse_header(ShortSendMessageRequest, request.ext_fields)
            assert (header.batch, parse_properties(header.properties or "")) == (True, {"WAIT": "true"})

    run(test())


def test_a_batch_of_several_requests_tells_what_is_stored_when_one_fails() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker, max_message_size=1000) as producer:
            answers = [0, ResponseCode.MESSAGE_ILLEGAL]
            broker.on(
                RequestCode.SEND_BATCH_MESSAGE,
                lambda request: request.response(answers.pop(0), "no", ext_fields=stored_at(0, 0)),
            )
            with pytest.raises(PartlySent) as caught:
                await producer.send_batch([Message("t", b"x" * 200) for _ in range(8)])
            assert 0 < len(caught.value.results) < 8
            broker.answer(RequestCode.SEND_BATCH_MESSAGE, ResponseCode.MESSAGE_ILLEGAL)
            with pytest.raises(BrokerError):
                await producer.send_batch([MESSAGE])
            with pytest.raises(MessageRefused, match="one topic"):
                await producer.send_batch([MESSAGE, Message("u", b"x")])

    run(test())


@pytest.mark.parametrize("size", [5_000, 100_000])
def test_long_bodies_travel_compressed(size: int) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            await producer.send(Message("t", b"x" * size))
            assert sent(broker)[0].sys_flag == 0x301
            assert len(broker.asked(SEND)[0].body) < 1_000

    run(test())


def test_a_namespace_is_put_around_topic_and_group() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker, namespace="ns") as producer:
            result = await producer.send(MESSAGE)
            (header,) = sent(broker)
            assert (header.topic, header.producer_group) == ("ns%t", "ns%g")
            assert parse_properties(header.properties or "")["INSTANCE_ID"] == "ns"
            assert result.queue.topic == "t"
            assert (await producer.publish_queues("t"))[0].topic == "t"

    run(test())


def test_every_request_is_signed_when_there_are_keys() -> None:
    async def test() -> None:
        keys = {"access_key": "who", "secret_key": "secret"}
        async with ScriptedBroker() as broker, producer_at(broker, **keys) as producer:
            await producer.send(Message("t", b"hello", tags="T"))
            for request in broker.requests:
                fields = request.ext_fields
                assert fields["Signature"] == signature(b"secret", fields, request.body), request

    run(test())


def test_traces_are_sent_beside_the_messages() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            async with producer_at(broker, enable_trace=True) as producer:
                result = await producer.send(MESSAGE)
                broker.answer(SEND, ResponseCode.MESSAGE_ILLEGAL)
                with pytest.raises(BrokerError):
                    await producer.send(MESSAGE)
                broker.on(SEND, lambda request: request.response(0, ext_fields=stored_at(0, 0)))
            (header,) = [header for header in sent(broker) if header.topic == "RMQ_SYS_TRACE_TOPIC"]
            assert header.producer_group == "_INNER_TRACE_PRODUCER-g-PRODUCE-1"
            (request,) = [one for one in broker.asked(SEND) if one.ext_fields["b"] == "RMQ_SYS_TRACE_TOPIC"]
            good, bad = request.body.decode().rstrip("\x02").split("\x02")
            assert good.split("\x01")[5] == result.msg_id
            assert (good.split("\x01")[-1], bad.split("\x01")[-1]) == ("true", "false")

    run(test())


def test_traces_stop_when_the_broker_says_so() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            fields = {**stored_at(0, 0), "TRACE_ON": "false"}
            broker.on(SEND, lambda request: request.response(0, ext_fields=fields))
            async with producer_at(broker, enable_trace=True) as producer:
                await producer.send(MESSAGE)
            assert len(broker.asked(SEND)) == 1

    run(test())
