import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Iterator

import pytest

from gateway.client import Message, Producer, ProducerSettings, process
from gateway.client.blocking.direct_sends import MOST_CONNECTIONS
from gateway.client.blocking.loop_thread import LoopThread
from gateway.client.errors import (
    BrokerError,
    ClientClosed,
    ConfigurationError,
    MessageTooLarge,
    RequestTimeout,
    UsedAfterFork,
)
from gateway.client.message import MessageQueue
from gateway.client.tests.scripted_broker import ScriptedBroker, stored_at
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand

SEND = RequestCode.SEND_MESSAGE_V2
MESSAGE = Message("t", b"hello")


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A scripted broker on a thread of its own."""
    thread = LoopThread("scripted broker")
    thread.start()
    broker = ScriptedBroker()
    thread.run(broker.start())
    yield broker
    thread.run(broker.stop())
    thread.stop()


def test_a_message_is_sent(broker: ScriptedBroker) -> None:
    with Producer("g", namesrv=broker.address) as producer:
        result = producer.send(MESSAGE)
        assert result.queue_offset == 0
        assert producer.group == "g"
        assert producer.settings.name_servers == (broker.address,)
        assert "#" in producer.client_id
    assert broker.asked(SEND)[0].body == b"hello"
    assert broker.codes()[-1] == RequestCode.UNREGISTER_CLIENT


def test_errors_reach_the_caller(broker: ScriptedBroker) -> None:
    broker.answer(SEND, ResponseCode.MESSAGE_ILLEGAL, "no")
    with Producer("g", namesrv=broker.address) as producer:
        with pytest.raises(BrokerError, match="no"):
            producer.send(MESSAGE)
        with pytest.raises(MessageTooLarge):
            producer.send(Message("t", b"x" * 5_000_000))
        with pytest.raises(ConfigurationError):
            producer.send(MESSAGE, queue=MessageQueue("t", "nowhere", 0))
        with pytest.raises(ConfigurationError):
            producer.send(MESSAGE, timeout=-1)


def test_a_broker_that_does_not_answer_is_a_timeout(broker: ScriptedBroker) -> None:
    broker.on(SEND, lambda _: None)
    with Producer("g", namesrv=broker.address) as producer, pytest.raises(RequestTimeout):
        producer.send(MESSAGE, timeout=0.05)


def test_futures_of_async_sends_are_for_threads(broker: ScriptedBroker) -> None:
    with Producer("g", namesrv=broker.address) as producer:
        futures = [producer.send_async(Message("t", b"%d" % number)) for number in range(500)]
        assert len({future.result(10).msg_id for future in futures}) == 500
        assert not futures[0].cancel()


def test_many_threads_share_a_few_connections(broker: ScriptedBroker) -> None:
    with Producer("g", namesrv=broker.address) as producer:
        threads = [threading.Thread(target=lambda: [producer.send(MESSAGE) for _ in range(20)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(broker.asked(SEND)) == 160
    assert broker.connections <= 1 + MOST_CONNECTIONS


def test_a_thread_waits_when_too_much_is_in_flight(broker: ScriptedBroker) -> None:
    release = asyncio.Event()

    async def slow(request: RemotingCommand) -> RemotingCommand:
        await release.wait()
        return request.response(0, ext_fields=stored_at(0, 0))

    broker.on(SEND, slow)
    settings = ProducerSettings(namesrv=broker.address, max_in_flight=2)
    with Producer("g", settings) as producer:
        first = [producer.send_async(MESSAGE) for _ in range(2)]
        third: list[object] = []
        thread = threading.Thread(target=lambda: third.append(producer.send_async(MESSAGE)))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        broker_loop = broker._server.get_loop() if broker._server is not None else None
        assert broker_loop is not None
        broker_loop.call_soon_threadsafe(release.set)
        for future in first:
            future.result(10)
        thread.join(10)
        assert third


def test_the_other_ways_to_send_work_too(broker: ScriptedBroker) -> None:
    with Producer("g", namesrv=broker.address) as producer:
        queue = producer.publish_queues("t")[1]
        assert producer.send(MESSAGE, queue=queue).queue == queue
        assert producer.send(MESSAGE, selector=lambda queues, _: queues[3]).queue.queue_id == 3
        assert len(producer.send_batch([MESSAGE] * 3)) == 3
        producer.send_oneway(MESSAGE)
        with pytest.raises(RequestTimeout):
            producer.request(MESSAGE, timeout=0.05)
        with pytest.raises(ConfigurationError):
            producer.recall("t", "nonsense")


def test_nothing_works_before_the_start_and_after_the_end(broker: ScriptedBroker) -> None:
    producer = Producer("g", namesrv=broker.address)
    for _ in range(2):
        with pytest.raises(ClientClosed):
            producer.send(MESSAGE)
        with pytest.raises(ClientClosed):
            producer.send_oneway(MESSAGE)
        producer.close()
        producer.close()
    with pytest.raises(ClientClosed):
        producer.start()


def test_starting_twice_is_starting_once(broker: ScriptedBroker) -> None:
    with Producer("g", namesrv=broker.address) as producer:
        client_id = producer.client_id
        producer.start()
        assert producer.client_id == client_id


def test_a_start_that_fails_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    before = threading.active_count()
    with pytest.raises(ConfigurationError):
        Producer("g").start()
    assert threading.active_count() == before


def test_a_callback_may_not_block_the_thread_it_runs_on(broker: ScriptedBroker) -> None:
    errors: list[BaseException] = []
    done, has_callback = threading.Event(), threading.Event()

    async def answer(request: RemotingCommand) -> RemotingCommand:
        await asyncio.to_thread(has_callback.wait, 10)  # a result that is there already calls back at once, from here
        return request.response(ResponseCode.SUCCESS, ext_fields=stored_at(0, 0))

    broker.on(SEND, answer)
    with Producer("g", namesrv=broker.address) as producer:

        def send_again(_: object) -> None:
            try:
                producer.send(MESSAGE)
            except ClientClosed as error:
                errors.append(error)
            done.set()

        producer.send_async(MESSAGE).add_done_callback(send_again)
        has_callback.set()
        assert done.wait(10)
    assert "its own loop" in str(errors[0])


def test_a_child_process_is_told(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    with Producer("g", namesrv=broker.address) as producer:
        with monkeypatch.context() as child:
            child.setattr(process, "number", os.getpid() + 1)
            for call in (lambda: producer.send(MESSAGE), producer.close, lambda: producer.publish_queues("t")):
                with pytest.raises(UsedAfterFork):
                    call()
        producer.send(MESSAGE)


def test_a_producer_that_is_forgotten_warns_and_ends_its_thread(broker: ScriptedBroker) -> None:
    producer = Producer("g", namesrv=broker.address)
    producer.start()
    producer.send(MESSAGE)
    producer.send(MESSAGE)  # over a connection of its own
    thread = producer._thread._thread
    assert thread is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del producer
        gc.collect()
        thread.join(10)
        gc.collect()
    assert [str(warning.message) for warning in caught] == [
        "producer g was not closed: use it in a with block, or call close()"
    ], "and its sockets are closed"
    assert not thread.is_alive()


def test_messages_in_flight_are_waited_for_at_close(broker: ScriptedBroker) -> None:
    with Producer("g", namesrv=broker.address) as producer:
        futures = [producer.send_async(MESSAGE) for _ in range(100)]
    assert all(future.done() and future.exception() is None for future in futures)


def test_a_loop_that_is_gone_is_told_instead_of_waited_for(broker: ScriptedBroker) -> None:
    producer = Producer("g", namesrv=broker.address)
    producer.start()
    producer._core.abandon()
    producer._thread.stop()
    for _ in range(2):
        with pytest.raises(ClientClosed):
            producer.send(MESSAGE)
    producer.close()
