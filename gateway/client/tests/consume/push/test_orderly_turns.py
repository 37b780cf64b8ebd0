"""Tests of orderly consumption: one turn after the other, repeats, giving up, leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.pulled import pulled_messages
from gateway.client.consume.push.listeners import ListenerCall
from gateway.client.consume.push.orderly_turns import OrderlyTerms, OrderlyTurns
from gateway.client.message import MessageQueue, ReceivedMessage
from gateway.client.retry_later import RetryLater
from gateway.client.tests.consume.push.test_concurrent_turns import QUEUE
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run


class SendAgain:
    """Takes messages that failed for the last time."""

    def __init__(self) -> None:
        self.works = True
        self.sent: list[int] = []

    async def send_again(self, message: ReceivedMessage) -> bool:
        self.sent.append(message.queue_offset)
        return self.works


class Locks:
    """Grants the lock when it is told to."""

    def __init__(self) -> None:
        self.grants = False
        self.asked = 0

    async def renew(self, state: ProcessQueue) -> bool:
        self.asked += 1
        state.locked_at = asyncio.get_running_loop().time() if self.grants else None
        return self.grants


class Scene:
    """Turns with queues of messages."""

    def __init__(
        self,
        listener: Callable[[Any], Any],
        *,
        most_attempts: int | None = None,
        locks: Locks | None = None,
        timeout: float = 900.0,
    ) -> None:
        self.again = SendAgain()
        self.settled: list[int] = []
        self.instance = ClientInstance(ClientSettings(namesrv="a:1"))
        self.turns = OrderlyTurns(
            self.instance,
            ListenerCall(None, listener),
            OrderlyTerms("consumer g", 4, timeout, most_attempts=most_attempts, suspend=0.01),
            locks=locks,  # type: ignore[arg-type]
            send_back=self.again,  # type: ignore[arg-type]
            settled=lambda queue: self.settled.append(queue.committable),
        )

    def open(self, count: int, portion: int = 1, queue: MessageQueue = QUEUE) -> ProcessQueue:
        broker = ConsumingBroker()
        broker.put("t", *[b"%d" % n for n in range(count)])
        messages, sizes, _ = pulled_messages(b"".join(broker.records["t", 0]), queue, asked=32)
        state = ProcessQueue(queue, count, now=0.0)
        self.turns.open(state)
        self.turns.submit(state, state.add(messages, sizes, portion))
        return state

    async def end(self) -> None:
        self.turns.close()
        await self.instance.close()


def offsets(messages: Sequence[ReceivedMessage]) -> list[int]:
    return [message.queue_offset for message in messages]


def test_a_failure_repeats_from_the_first_failed_message_on() -> None:
    async def scenario() -> None:
        got: list[list[int]] = []

        def listen(messages: Sequence[ReceivedMessage]) -> None:
            got.append(offsets(messages))
            if len(got) == 1:
                raise RetryLater(messages=messages[1:2])
            if len(got) == 2:
                raise ValueError("all of them")

        scene = Scene(listen)
        state = scene.open(5, portion=3)
        await until(lambda: state.cached_messages == 0)
        assert got == [[0, 1, 2], [1, 2], [1, 2], [3, 4]]
        assert scene.settled == [1, 1, 3, 5]
        await scene.end()

    run(scenario())


def test_after_the_last_attempt_a_message_goes_away_or_stays() -> None:
    async def scenario() -> None:
        got: list[list[int]] = []

        async def listen(messages: Sequence[ReceivedMessage]) -> None:
            got.append(offsets(messages))
            scene.again.works = len(got) >= 3
            if 0 in got[-1]:
                raise RetryLater(messages=[message for message in messages if message.queue_offset == 0])

        scene = Scene(listen, most_attempts=1)
        state = scene.open(2, portion=2)
        await until(lambda: state.cached_messages == 0)
        assert scene.again.sent == [0, 0], "tried again when it could not be sent"
        assert got == [[0, 1], [0, 1], [0, 1], [1]]
        await scene.end()

    run(scenario())


def test_a_queue_is_consumed_only_while_its_lock_is_held() -> None:
    async def scenario() -> None:
        locks, got = Locks(), []

        def listen(messages: Sequence[ReceivedMessage]) -> None:
            got.extend(offsets(messages))

        scene = Scene(listen, locks=locks)
        state = scene.open(2)
        await until(lambda: locks.asked == 1)
        assert got == []
        assert await scene.turns.leave(state, 1.0)
        locks.grants = True
        state = scene.open(2)
        await until(lambda: state.cached_messages == 0)
        assert got == [0, 1]
        await scene.end()

    run(scenario())


def test_leaving_waits_for_the_turn_that_runs_and_begins_no_other() -> None:
    async def scenario() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def listen(_: Any) -> None:
            begun.set()
            await go_on.wait()

        scene = Scene(listen)
        state = scene.open(2)
        await begun.wait()
        assert not await scene.turns.leave(state, 0.01), "it still runs"
        begun.clear()
        state = scene.open(2, queue=MessageQueue("t", "a", 1))
        await begun.wait()
        leaving = asyncio.create_task(scene.turns.drain(5.0))
        await asyncio.sleep(0)
        go_on.set()
        assert await leaving
        assert state.committable == 1
        await scene.end()

    run(scenario())


def test_queues_are_independent_of_each_other() -> None:
    async def scenario() -> None:
        never = asyncio.Event()

        async def listen(messages: Sequence[ReceivedMessage]) -> None:
            if messages[0].queue.queue_id == 0:
                await never.wait()

        scene = Scene(listen)
        scene.open(2)
        other = scene.open(2, queue=MessageQueue("t", "a", 1))
        await until(lambda: other.cached_messages == 0)
        scene.turns.stop()
        await scene.end()

    run(scenario())


def test_a_listener_that_does_not_return_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        enough = asyncio.Event()

        async def hang(messages: Sequence[ReceivedMessage]) -> None:
            await enough.wait()

        scene = Scene(hang, timeout=0.02)
        watching = asyncio.create_task(scene.turns.watch())
        state = scene.open(2)
        await until(lambda: "has not returned from" in caplog.text)
        await asyncio.sleep(0.02)  # several looks later
        assert caplog.text.count("has not returned from") == 1
        enough.set()
        await until(lambda: state.cached_messages == 0)
        watching.cancel()
        await scene.end()

    run(scenario())
