from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.client.tests.scripted_broker import run
from gateway.client.transact.check_calls import CheckCalls, CheckTooSlow
from gateway.client.transaction_state import TransactionState


def test_a_plain_function_runs_in_a_thread_of_its_own_and_an_async_one_on_the_loop() -> None:
    seen: list[str] = []

    def plain() -> TransactionState:
        seen.append(threading.current_thread().name)
        return TransactionState.COMMIT

    async def asynchronous() -> TransactionState:
        seen.append(threading.current_thread().name)
        return TransactionState.ROLLBACK

    async def scenario() -> None:
        calls = CheckCalls(1, 5, "checks")
        assert await calls.run(plain, "A.check") == (TransactionState.COMMIT, None)
        assert await calls.run(asynchronous, "A.check") == (TransactionState.ROLLBACK, None)
        calls.close()

    run(scenario())
    assert seen == ["checks-1", threading.current_thread().name]


def test_what_a_check_raises_counts_as_unknown_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> TransactionState:
        raise OSError("the database is gone")

    async def scenario() -> None:
        calls = CheckCalls(1, 5, "checks")
        state, error = await calls.run(broken, "Orders.check")
        assert state is TransactionState.UNKNOWN
        assert isinstance(error, OSError)
        calls.close()

    run(scenario())
    assert "Orders.check raised" in caplog.text
    assert "the database is gone" in caplog.text


def test_a_check_without_a_return_is_unknown() -> None:
    async def scenario() -> None:
        calls = CheckCalls(1, 5, "checks")
        state, error = await calls.run(lambda: None, "Orders.check")  # type: ignore[arg-type, return-value]
        assert state is TransactionState.UNKNOWN
        assert isinstance(error, TypeError)
        calls.close()

    run(scenario())


def test_a_check_that_never_returns_is_unknown_after_its_time_and_keeps_its_place() -> None:
    gate = threading.Event()

    def stuck() -> TransactionState:
        gate.wait(10)
        return TransactionState.COMMIT

    async def scenario() -> None:
        calls = CheckCalls(1, 0.05, "checks")
        state, error = await calls.run(stuck, "Orders.check")
        assert state is TransactionState.UNKNOWN
        assert isinstance(error, CheckTooSlow)
        assert "check_timeout (0.05 s)" in str(error)
        waiting = asyncio.ensure_future(calls.run(lambda: TransactionState.COMMIT, "Orders.check"))
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()
        assert await waiting == (TransactionState.COMMIT, None)
        calls.close()

    run(scenario())


def test_an_async_check_that_is_too_slow_is_cancelled() -> None:
    cancelled = []

    async def slow() -> TransactionState:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return TransactionState.COMMIT

    async def scenario() -> None:
        calls = CheckCalls(1, 0.5, "checks")
        assert (await calls.run(slow, "Orders.check"))[0] is TransactionState.UNKNOWN
        assert await calls.run(lambda: TransactionState.COMMIT, "Orders.check") == (TransactionState.COMMIT, None)
        calls.close()

    run(scenario())
    assert cancelled == [True]


def test_no_more_checks_run_at_once_than_allowed() -> None:
    running: list[int] = [0, 0]  # now, at most

    async def check() -> TransactionState:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0)
        running[0] -= 1
        return TransactionState.COMMIT

    async def scenario() -> None:
        calls = CheckCalls(3, 5, "checks")
        await asyncio.gather(*(calls.run(check, "A.check") for _ in range(20)))
        calls.close()

    run(scenario())
    assert running[1] == 3


def test_a_check_that_would_end_the_loop_or_the_task_is_unknown_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def leave() -> TransactionState:
        raise SystemExit(3)

    async def leave_later() -> TransactionState:
        raise SystemExit(4)

    async def wait_for_what_is_cancelled() -> TransactionState:
        answer: asyncio.Future[TransactionState] = asyncio.get_running_loop().create_future()
        answer.cancel()
        return await answer

    async def scenario() -> None:
        calls = CheckCalls(1, 5, "checks")
        for check in (leave, leave_later, wait_for_what_is_cancelled):
            assert (await calls.run(check, f"Orders.{check.__name__}"))[0] is TransactionState.UNKNOWN
        task = asyncio.ensure_future(calls.run(asyncio.Event().wait, "Orders.check"))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        calls.close()

    run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        f"Orders.{name} raised; the transaction stays unknown"
        for name in ("leave", "leave_later", "wait_for_what_is_cancelled")
    ]
