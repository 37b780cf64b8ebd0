"""A producer from its start to its close: what is refused, what is waited for, what warns."""

import asyncio
import gc
import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.client import process
from gateway.client.errors import (
    ClientClosed,
    ConfigurationError,
    MessageRefused,
    UsedAfterFork,
    UsedOnOtherLoop,
)
from gateway.client.message import Message
from gateway.client.send.producer import Producer
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from gateway.client.tests.send.producing import MESSAGE, SEND, producer_at
from wire.codes import RequestCode


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


def test_a_producer_of_another_loop_says_so_and_does_nothing() -> None:
    loop = asyncio.new_event_loop()

    async def began() -> tuple[ScriptedBroker, Producer]:
        broker = await ScriptedBroker().__aenter__()
        producer = producer_at(broker)
        await producer.start()
        await producer.send(MESSAGE)
        return broker, producer

    broker, producer = loop.run_until_complete(began())
    sends = len(broker.asked(SEND))
    for work in (
        producer.send,
        producer.send_async,
        producer.send_oneway,
        lambda message: producer.send_batch([message]),
        lambda _: producer.close(),
    ):

        async def elsewhere(work: Callable[[Message], Awaitable[object]] = work) -> None:
            await work(MESSAGE)

        with pytest.raises(UsedOnOtherLoop, match="another event loop"):
            asyncio.run(elsewhere())
    assert len(broker.asked(SEND)) == sends
    loop.run_until_complete(producer.send(MESSAGE))
    loop.run_until_complete(producer.close())
    loop.run_until_complete(broker.__aexit__(None, None, None))
    loop.close()


@pytest.mark.parametrize("wrong", ["text", None, {"topic": "t"}])
def test_what_is_no_message_is_refused_by_its_type(wrong: Any) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            for work in (producer.send, producer.send_async, producer.send_oneway, producer.request):
                with pytest.raises(MessageRefused, match=type(wrong).__name__):
                    await work(wrong)
            with pytest.raises(MessageRefused, match=type(wrong).__name__):
                await producer.send_batch([MESSAGE, wrong])
            with pytest.raises(MessageRefused, match=type(wrong).__name__):
                await producer.reply(wrong, b"x")

    run(test())
