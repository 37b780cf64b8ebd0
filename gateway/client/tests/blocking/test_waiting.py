"""Threads that wait, and the signals that reach them meanwhile: the handler may raise at any moment."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from concurrent.futures import wait as wait_for_all

import pytest

from gateway.client.blocking.hand_over import SendRoom
from gateway.client.blocking.loop_thread import LoopThread
from gateway.client.blocking.waiting import Condition, Gate, ThreadFuture, pause, start
from gateway.client.tests.blocking.interrupts import LONGEST_S, Interrupted, any_moment, elsewhere, interrupted


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread("interrupted")
    thread.start()
    yield thread
    thread.stop()


@any_moment
def test_a_call_is_cancelled_by_a_signal_at_any_moment(loop_thread: LoopThread) -> None:
    calls = [asyncio.Event().wait()]
    for raised in interrupted(lambda: loop_thread.run(calls[-1], timeout=0.0)):
        assert isinstance(raised, Interrupted)
        elsewhere(lambda: loop_thread.run(asyncio.sleep(0)))
        elsewhere(lambda: loop_thread.run(asyncio.sleep(0)))
        # One that was never begun was interrupted before ``run`` had it.
        assert inspect.getcoroutinestate(calls[-1]) in (inspect.CORO_CLOSED, inspect.CORO_CREATED)
        calls[-1].close()
        calls.append(asyncio.Event().wait())


@any_moment
def test_a_thread_ends_whenever_a_signal_interrupts_its_start_or_its_stop() -> None:
    started: list[LoopThread] = []

    def start_and_stop() -> None:
        started.append(LoopThread("interrupted early"))
        try:
            started[-1].start()
        finally:
            started[-1].stop()

    for raised in interrupted(start_and_stop):
        assert isinstance(raised, Interrupted)
        if started:
            elsewhere(started[-1].stop)
            assert not started[-1].is_running


@any_moment
def test_a_future_is_usable_after_a_signal_at_any_moment_of_a_wait() -> None:
    future: ThreadFuture[int] = ThreadFuture()
    for raised in interrupted(lambda: future.result(0.0)):
        assert isinstance(raised, Interrupted)
        elsewhere(lambda: future.done())
    waiting = threading.Thread(target=future.result)
    waiting.start()
    elsewhere(lambda: future.set_result(7))
    waiting.join(LONGEST_S)
    assert not waiting.is_alive()


@any_moment
def test_room_for_messages_is_usable_after_a_signal_at_any_moment_of_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.client.blocking.hand_over._ROOM_TIMEOUT", 0.001)
    room = SendRoom(1, 100)
    room.take("one", 1)
    for raised in interrupted(lambda: room.take("two", 1)):
        assert isinstance(raised, Interrupted)
        elsewhere(lambda: room.give("one"))
        elsewhere(lambda: room.take("one", 1))


def test_an_interrupted_thread_passes_on_what_it_was_woken_for(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = Condition()
    another = Gate()

    def notified_and_interrupted(_gate: Gate, _timeout: float | None) -> bool:
        condition._gates.append(another)
        with condition:
            condition.notify()
        raise Interrupted

    with monkeypatch.context() as patched, condition:
        patched.setattr(Gate, "wait", notified_and_interrupted)
        with pytest.raises(Interrupted):
            condition.wait()
    assert another.wait(0.0)


def test_what_is_set_in_another_thread_is_given() -> None:
    future: ThreadFuture[int] = ThreadFuture()
    setting = threading.Timer(0.01, lambda: future.set_result(7))
    setting.start()
    assert future.result(LONGEST_S) == 7
    assert future.result() == 7
    setting.join()
    failed: ThreadFuture[int] = ThreadFuture()
    failed.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        failed.result(LONGEST_S)
    cancelled: ThreadFuture[int] = ThreadFuture()
    cancelled.cancel()
    with pytest.raises(CancelledError):
        cancelled.result(LONGEST_S)
    late: ThreadFuture[int] = ThreadFuture()
    with pytest.raises(TimeoutError):
        late.result(0.001)


def test_several_futures_can_be_waited_for_at_once() -> None:
    futures: list[ThreadFuture[int]] = [ThreadFuture() for _ in range(3)]
    setting = threading.Timer(0.01, lambda: list(map(ThreadFuture.set_result, futures, (1, 2, 3))))
    setting.start()
    assert wait_for_all(futures, LONGEST_S).not_done == set()
    setting.join()


def test_a_condition_that_is_held_twice_is_let_go_while_its_thread_waits() -> None:
    condition = Condition()

    def notify() -> None:
        with condition:
            condition.notify()

    with condition, condition:
        notifying = threading.Thread(target=notify)
        notifying.start()
        assert condition.wait(LONGEST_S)
        notifying.join(LONGEST_S)
        assert not notifying.is_alive() or condition._is_owned()


def test_a_thread_that_cannot_be_started_is_an_error() -> None:
    thread = threading.Thread(target=lambda: None)
    start(thread)
    thread.join()
    with pytest.raises(RuntimeError, match="only be started once"):
        start(thread)


def test_a_pause_takes_its_time() -> None:
    pause(0.0)
    pause(0.001)
