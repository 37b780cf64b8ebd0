import asyncio
import threading

import pytest

from gateway.client.blocking.loop_thread import LoopThread
from gateway.client.errors import ClientClosed, RequestTimeout


async def _answer() -> str:
    return threading.current_thread().name


def test_coroutines_run_on_a_thread_of_their_own() -> None:
    thread = LoopThread("loop of a test")
    assert not thread.is_running
    thread.start()
    thread.start()
    assert thread.is_running
    assert thread.run(_answer()) == "loop of a test"
    thread.stop()
    thread.stop()
    assert not thread.is_running


def test_errors_reach_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    thread = LoopThread("test")
    thread.start()
    with pytest.raises(ValueError, match="no"):
        thread.run(fail())
    thread.stop()


def test_a_call_that_takes_too_long_is_cancelled() -> None:
    cancelled = threading.Event()

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    thread = LoopThread("test")
    thread.start()
    with pytest.raises(RequestTimeout):
        thread.run(wait_forever(), timeout=0.01)
    assert cancelled.wait(5)
    thread.stop()


def test_nothing_runs_before_the_start_and_after_the_stop() -> None:
    thread = LoopThread("test")
    with pytest.raises(ClientClosed):
        thread.run(_answer())
    with pytest.raises(ClientClosed):
        _ = thread.loop
    thread.start()
    thread.stop()
    with pytest.raises(ClientClosed):
        thread.run(_answer())


def test_a_blocking_call_on_the_loop_itself_is_refused_instead_of_waiting_forever() -> None:
    thread = LoopThread("test")
    thread.start()

    async def call() -> None:
        thread.run(_answer())

    with pytest.raises(ClientClosed, match="its own loop"):
        thread.run(call())
    thread.stop()


def test_stopping_cancels_what_runs() -> None:
    thread = LoopThread("test")
    thread.start()
    cancelled: list[bool] = []

    async def start_what_goes_on() -> None:
        going_on = asyncio.ensure_future(asyncio.Event().wait())
        going_on.add_done_callback(lambda task: cancelled.append(task.cancelled()))

    thread.run(start_what_goes_on())
    thread.stop()
    assert cancelled == [True]


def test_a_call_that_waits_while_another_thread_stops_the_loop_is_told_that_it_is_closed() -> None:
    thread = LoopThread("test")
    thread.start()
    waits = threading.Event()
    told: list[str] = []

    async def wait_for_ever() -> None:
        waits.set()
        await asyncio.Event().wait()

    def call() -> None:
        with pytest.raises(ClientClosed) as closed:
            thread.run(wait_for_ever())
        told.append(str(closed.value))

    caller = threading.Thread(target=call)
    caller.start()
    waits.wait(10)
    thread.stop()
    caller.join(10)
    assert told == [str(ClientClosed("test"))]


def _ask_for_ever(thread: LoopThread) -> None:
    while True:
        thread.run(_answer())


def test_calls_made_while_the_loop_stops_end() -> None:
    for _ in range(30):
        thread = LoopThread("test")
        thread.start()

        def call(thread: LoopThread = thread) -> None:
            with pytest.raises(ClientClosed):
                _ask_for_ever(thread)

        callers = [threading.Thread(target=call, daemon=True) for _ in range(4)]
        for caller in callers:
            caller.start()
        thread.stop()
        for caller in callers:
            caller.join(10)
        assert not any(caller.is_alive() for caller in callers)


def test_the_loop_has_helpers_when_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a program: names are looked up and files are written all the same."""

    async def helper() -> str:
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    async def failing() -> None:
        await asyncio.to_thread(int, "no number")

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    thread = LoopThread("loop")
    thread.start()
    with monkeypatch.context() as ending:
        ending.setattr(threading.Thread, "start", refuse)
        assert thread.run(helper()) == "loop"
        with pytest.raises(ValueError, match="no number"):
            thread.run(failing())
    assert thread.run(helper()) == "loop helper-1"
    thread.stop()
