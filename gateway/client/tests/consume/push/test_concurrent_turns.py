"""Tests of concurrent consumption: threads, tasks, listeners that fail or never return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.pulled import PulledMessage
from gateway.client.consume.push import concurrent_turns
from gateway.client.consume.push.concurrent_turns import TIMED_OUT_LEVEL, ConcurrentTurns, TurnTerms
from gateway.client.consume.push.listeners import ListenerCall
from gateway.client.message import MessageQueue, ReceivedMessage
from gateway.client.tests.consuming_broker import until
from gateway.client.tests.scripted_broker import run

QUEUE = MessageQueue("t", "a", 0)


class Sent:
    """Takes what is sent back."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.back: list[tuple[int, int]] = []

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        self.back.append((message.queue_offset, delay_level))
        return self.works


class Scene:
    """Turns with a queue of messages."""

    def __init__(self, listener: Callable[[Any], Any], *, timeout: float = 60.0, workers: int = 4, shared: bool = True):
        self.sent = Sent()
        self.settled: list[int] = []
        self.instance = ClientInstance(ClientSettings(namesrv="a:1"))
        self.queue = ProcessQueue(QUEUE, 0, now=0.0)
        self.turns: ConcurrentTurns[ProcessQueue] = ConcurrentTurns(
            self.instance,
            ListenerCall(None, listener),
            TurnTerms("consumer g", workers, timeout),
            send_back=self.sent.send_back if shared else None,
            settled=lambda queue: self.settled.append(queue.committable),
        )

    def give(self, count: int, portion: int = 1) -> None:
        messages: list[ReceivedMessage] = [PulledMessage(b"", 0, 0, n, QUEUE, "") for n in range(count)]
        self.queue.next_offset = count
        self.turns.submit(self.queue, self.queue.add(messages, [1] * count, portion))

    async def end(self) -> None:
        self.turns.close()
        await self.instance.close()


def test_no_more_threads_run_than_workers_are_set() -> None:
    async def scenario() -> None:
        running = threading.Semaphore(2)

        def listen(_: Any) -> None:
            assert running.acquire(blocking=False), "more than two at once"
            threading.Event().wait(0.001)
            running.release()

        scene = Scene(listen, workers=2)
        scene.give(20)
        await until(lambda: scene.queue.cached_messages == 0)
        assert scene.settled[-1] == 20
        assert scene.sent.back == []
        await scene.end()

    run(scenario())


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_messages_that_others_may_have_by_now_are_not_given(kind: str) -> None:
    async def scenario() -> None:
        got: list[int] = []

        async def listen(messages: Sequence[ReceivedMessage]) -> None:
            got.extend(message.queue_offset for message in messages)

        scene = Scene(listen if kind == "tasks" else lambda messages: got.append(messages[0].queue_offset))
        messages: list[ReceivedMessage] = [PulledMessage(b"", 0, 0, n, QUEUE, "") for n in range(3)]
        turns = scene.queue.add(messages, [1] * 3, 1)
        turns[1].lapses_at = 0.0
        scene.turns.submit(scene.queue, turns)
        await until(lambda: scene.queue.cached_messages == 0)
        assert sorted(got) == [0, 2]
        await scene.end()

    run(scenario())


def test_what_could_not_be_sent_back_is_given_again_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrent_turns, "RETRY_HERE_S", 0.01)

    async def scenario() -> None:
        attempts: list[int] = []

        def listen(messages: list[ReceivedMessage]) -> None:
            attempts.append(len(messages))
            if len(attempts) < 3:
                raise ValueError("no")

        scene = Scene(listen)
        scene.sent.works = False
        scene.give(2, portion=2)
        await until(lambda: scene.queue.cached_messages == 0)
        assert attempts == [2, 2, 2]
        await scene.end()

    run(scenario())


def test_with_broadcasting_what_fails_is_dropped() -> None:
    async def scenario() -> None:
        async def listen(_: Any) -> None:
            raise ValueError("no")

        scene = Scene(listen, shared=False)
        scene.give(2)
        await until(lambda: scene.queue.cached_messages == 0)
        assert scene.sent.back == []
        await scene.end()

    run(scenario())


@pytest.mark.parametrize("is_async", [False, True])
def test_messages_whose_listener_never_returns_are_sent_back_and_its_place_is_free_again(is_async: bool) -> None:
    async def scenario() -> None:
        release = threading.Event()
        got: list[int] = []

        def block(messages: list[ReceivedMessage]) -> None:
            got.append(messages[0].queue_offset)
            if messages[0].queue_offset == 0:
                release.wait(10)

        async def hang(messages: list[ReceivedMessage]) -> None:
            got.append(messages[0].queue_offset)
            if messages[0].queue_offset == 0:
                await asyncio.Event().wait()

        scene = Scene(hang if is_async else block, timeout=0.1, workers=1)
        watching = asyncio.create_task(scene.turns.watch())
        scene.give(1)
        await until(lambda: scene.sent.back == [(0, TIMED_OUT_LEVEL)])
        await until(lambda: scene.queue.cached_messages == 0)
        messages: list[ReceivedMessage] = [PulledMessage(b"", 0, 0, 1, QUEUE, "")]
        scene.turns.submit(scene.queue, scene.queue.add(messages, [1], 1))
        await until(lambda: got == [0, 1])
        release.set()
        watching.cancel()
        await scene.end()

    run(scenario())


def test_a_queue_that_was_given_up_is_not_consumed_further() -> None:
    async def scenario() -> None:
        scene = Scene(lambda _: pytest.fail("it was given up"))
        scene.queue.dropped = True
        scene.give(3)
        assert await scene.turns.drain(1.0)
        assert scene.queue.cached_messages == 3
        await scene.end()

    run(scenario())


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_failure_is_logged_also_when_the_queue_was_given_up_meanwhile(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        def listen(_: Any) -> None:
            scene.queue.dropped = True
            raise ValueError("no such customer")

        async def listen_later(messages: Any) -> None:
            listen(messages)

        scene = Scene(listen_later if kind == "tasks" else listen)
        scene.give(1)
        await until(lambda: "no such customer" in caplog.text)
        await scene.end()

    run(scenario())


def test_a_failure_after_the_loop_has_ended_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    begun, release = threading.Event(), threading.Event()

    async def scenario() -> None:
        def listen(_: Any) -> None:
            begun.set()
            release.wait(10)
            raise ValueError("no such customer")

        scene = Scene(listen)
        scene.give(1)
        await asyncio.to_thread(begun.wait, 10)
        await scene.end()

    run(scenario())
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "consumer g-1")
    release.set()
    thread.join(10)
    assert "no such customer" in caplog.text
