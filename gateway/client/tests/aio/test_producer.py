import asyncio
import gc
import os
import warnings
from collections.abc import Callable

import pytest

from gateway.client import process
from gateway.client.aio.producer import Producer
from gateway.client.errors import (
    BrokerError,
    ClientClosed,
    ConfigurationError,
    ConnectError,
    MessageRefused,
    MessageTooLarge,
    NotSent,
    PartlySent,
    RequestTimeout,
    RocketMQError,
    RouteNotFound,
    UsedAfterFork,
)
from gateway.client.message import Message, MessageQueue
from gateway.client.results import SendStatus
from gateway.client.settings import ProducerSettings
from gateway.client.signing import signature
from gateway.client.tests.scripted_broker import ScriptedBroker, run, stored_at
from gateway.client.tests.test_message import received
from gateway.client.tests.test_recall_handle import handle
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.send import RecallMessageResponse, SendMessageRequest, SendMessageResponse, ShortSendMessageRequest
from wire.message.batch import parse_batch
from wire.message.properties import parse_properties

SEND = RequestCode.SEND_MESSAGE_V2
MESSAGE = Message("t", b"hello")


def settings(broker: ScriptedBroker, **changes: object) -> ProducerSettings:
    quick: dict[str, object] = {"reconnect_backoff_min": 0.01, "reconnect_backoff_max": 0.02, **changes}
    return ProducerSettings(namesrv=broker.address, **quick)  # type: ignore[arg-type]


def producer_at(broker: ScriptedBroker, **changes: object) -> Producer:
    return Producer("g", settings(broker, **changes))


def sent(broker: ScriptedBroker, code: int = SEND) -> list[SendMessageRequest]:
    return [parse_header(ShortSendMessageRequest, request.ext_fields) for request in broker.asked(code)]


def in_turn(*codes: int) -> Callable[[RemotingCommand], RemotingCommand]:
    """Answers with these codes one after the other, and then stores."""
    left = list(codes)

    def answer(request: RemotingCommand) -> RemotingCommand:
        if left:
            return request.response(left.pop(0), "scripted")
        return request.response(0, ext_fields=stored_at(int(request.ext_fields["e"]), 0))

    return answer


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
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(SEND, lambda _: None)
            with pytest.raises(RequestTimeout) as caught:
                await producer.send(MESSAGE, timeout=0.05)
            assert caught.value.outcome_unknown

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


def test_a_message_that_was_never_written_is_known_not_to_be_sent() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: None)
            with pytest.raises(RequestTimeout, match="was not sent") as caught:
                await producer.send(MESSAGE, timeout=0.05)
            assert not caught.value.outcome_unknown

    run(test())


def test_closing_gives_up_what_is_not_even_written() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            producer = producer_at(broker)
            await producer.start()
            broker.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: None)
            future = await producer.send_async(MESSAGE)
            await broker.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
            await producer.close(timeout=0.01)
            with pytest.raises(ClientClosed):
                await future

    run(test())


def test_a_request_waits_for_its_reply() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            call = asyncio.ensure_future(producer.request(MESSAGE, timeout=5))
            (request,) = await broker.wait_for(SEND)
            assert RequestCode.HEART_BEAT in broker.codes(), "the broker must know who asked"
            asked = parse_properties(request.ext_fields["i"])
            assert (asked["REPLY_TO_CLIENT"], asked["TTL"]) == (producer.client_id, "5000")
            for correlation_id in ("somebody else's", asked["CORRELATION_ID"]):
                fields = {
                    "producerGroup": "r",
                    "topic": "c_REPLY_TOPIC",
                    "defaultTopic": "TBW102",
                    "defaultTopicQueueNums": "4",
                    "queueId": "0",
                    "sysFlag": "0",
                    "bornTimestamp": "1",
                    "flag": "0",
                    "properties": f"CORRELATION_ID\x01{correlation_id}\x02",
                    "bornHost": "1.2.3.4:5",
                    "storeHost": "1.2.3.4:6",
                }
                push = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext_fields=fields, body=b"pong")
                assert (await broker.push(push)).code == ResponseCode.SUCCESS
            assert (await call).body == b"pong"

    run(test())


def test_a_request_without_a_reply_times_out() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            with pytest.raises(RequestTimeout, match="one running that replies"):
                await producer.request(MESSAGE, timeout=0.1)

    run(test())


def test_a_reply_goes_to_the_broker_of_the_request() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            code = RequestCode.SEND_REPLY_MESSAGE_V2
            broker.on(code, lambda request: request.response(0, ext_fields=stored_at(0, 0)))
            request = received(CLUSTER="c", CORRELATION_ID="C", REPLY_TO_CLIENT="1.2.3.4@x", TTL="3000")
            await producer.reply(request, b"pong")
            (header,) = sent(broker, code)
            assert header.topic == "c_REPLY_TOPIC"
            properties = parse_properties(header.properties or "")
            assert (properties["MSG_TYPE"], properties["CORRELATION_ID"]) == ("reply", "C")
            broker.route_addresses = {"broker-z": broker.address}
            async with producer_at(broker) as other:
                with pytest.raises(BrokerError, match="broker-a"):
                    await other.reply(request, b"pong")

    run(test())


def test_a_timer_message_is_recalled_at_its_broker() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            answer = build_header(RecallMessageResponse(msg_id="ID"))
            broker.on(RequestCode.RECALL_MESSAGE, lambda request: request.response(0, ext_fields=answer))
            token = handle("v1 t broker-a 1 ID")
            assert await producer.recall("t", token) == "ID"
            fields = broker.asked(RequestCode.RECALL_MESSAGE)[0].ext_fields
            assert fields == {"producerGroup": "g", "topic": "t", "recallHandle": token}

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


def test_nothing_works_before_the_start_and_after_the_end() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            producer = producer_at(broker)
            for _ in range(2):
                with pytest.raises(ClientClosed, match="start"):
                    await producer.send(MESSAGE)
                with pytest.raises(ClientClosed):
                    _ = producer.client_id
                await producer.close()
                await producer.close()
            with pytest.raises(ClientClosed):
                await producer.start()

    run(test())


def test_closing_waits_for_answers_and_then_says_goodbye() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            async with producer_at(broker) as producer:
                await producer.start()
                futures = [await producer.send_async(MESSAGE) for _ in range(50)]
            assert all(future.done() and future.exception() is None for future in futures)
            assert broker.codes()[-1] == RequestCode.UNREGISTER_CLIENT

    run(test())


def test_closing_does_not_wait_forever() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            producer = producer_at(broker)
            await producer.start()
            broker.on(SEND, lambda _: None)
            future = await producer.send_async(MESSAGE)
            request = asyncio.ensure_future(producer.request(MESSAGE, timeout=60))
            await broker.wait_for(SEND, 2)
            await producer.close(timeout=0.05)
            with pytest.raises(ClientClosed) as caught:
                await future
            assert caught.value.outcome_unknown
            with pytest.raises(ClientClosed):
                await request

    run(test())


def test_a_producer_needs_a_name_server_and_a_good_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)

    async def start() -> None:
        await Producer("g").start()

    with pytest.raises(ConfigurationError, match="NAMESRV_ADDR"):
        run(start())
    with pytest.raises(MessageRefused, match="group"):
        Producer("no spaces", namesrv="a:9876")
    monkeypatch.setenv("NAMESRV_ADDR", "a:9876")
    assert Producer("g").settings.name_servers == ("a:9876",)
    assert Producer("g", namesrv="b:9876").settings.name_servers == ("b:9876",)


def test_a_timeout_must_be_positive() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            with pytest.raises(ConfigurationError, match="over 0"):
                await producer.send(MESSAGE, timeout=0)

    run(test())


def test_a_child_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            with monkeypatch.context() as child:
                child.setattr(process, "number", os.getpid() + 1)
                with pytest.raises(UsedAfterFork, match="post_fork"):
                    await producer.send(MESSAGE)
                with pytest.raises(UsedAfterFork):
                    await producer.close()

    run(test())


def test_a_producer_that_is_forgotten_warns() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            producer = producer_at(broker)
            await producer.start()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                producer.__del__()
            assert [warning.category for warning in caught] == [ResourceWarning]
            await producer.close()
            producer.__del__()
            gc.collect()

    run(test())
