"""Tests of calling the application's listener."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, IntEnum

import pytest

from gateway.client.consume.pulled import PulledMessage
from gateway.client.consume.push.listeners import ListenerCall
from gateway.client.errors import ConfigurationError
from gateway.client.message import MessageQueue, ReceivedMessage
from gateway.client.retry_later import CONSUMED, RetryLater

MESSAGES: list[ReceivedMessage] = [
    PulledMessage(b"", 0, 0, offset, MessageQueue("t", "a", 0), "") for offset in range(3)
]


def test_returning_is_acknowledging() -> None:
    got: list[object] = []
    assert ListenerCall(got.append, None).call(MESSAGES[:1]) is CONSUMED
    assert ListenerCall(None, got.append).call(MESSAGES) is CONSUMED
    assert got == [MESSAGES[0], MESSAGES]


def test_a_listener_may_use_up_its_list() -> None:
    held = list(MESSAGES)
    assert ListenerCall(None, list.clear).call(held) is CONSUMED
    assert held == MESSAGES


def test_any_exception_means_again_later_for_all_messages() -> None:
    def fail(_: Sequence[ReceivedMessage]) -> None:
        raise ValueError("no")

    outcome = ListenerCall(None, fail).call(MESSAGES)
    assert outcome.failed == MESSAGES
    assert outcome.delay_level == 0
    assert isinstance(outcome.error, ValueError)


def test_retry_later_chooses_the_level_and_the_messages() -> None:
    def ask(messages: Sequence[ReceivedMessage]) -> None:
        raise RetryLater(4, messages=messages[1:2])

    outcome = ListenerCall(None, ask).call(MESSAGES)
    assert (list(outcome.failed), outcome.delay_level) == (MESSAGES[1:2], 4)
    assert "1 messages" in str(outcome.error)
    assert "all messages" in str(RetryLater())


class ConsumeStatus(IntEnum):  # of rocketmq-client-python
    CONSUME_SUCCESS = 0
    RECONSUME_LATER = 1


class OrderlyStatus(Enum):
    SUSPEND_CURRENT_QUEUE_A_MOMENT = 7


@pytest.mark.parametrize(
    "returned",
    [
        RetryLater(),
        ValueError("no"),
        ConsumeStatus.RECONSUME_LATER,
        OrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT,
        "RECONSUME_LATER",
    ],
)
def test_a_returned_wish_for_another_try_counts_as_one(returned: object, caplog: pytest.LogCaptureFixture) -> None:
    async def listen(_: ReceivedMessage) -> object:
        return returned

    assert ListenerCall(lambda _: returned, None).call(MESSAGES[:1]).failed == MESSAGES[:1]
    assert asyncio.run(ListenerCall(listen, None).call_async(MESSAGES[:1])).failed == MESSAGES[:1]
    assert not caplog.records


def test_other_values_are_told_of_once_unless_they_say_that_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    well: list[object] = [None, ConsumeStatus.CONSUME_SUCCESS, "CONSUME_SUCCESS"]
    call = ListenerCall(lambda _: well.pop(), None)
    while well:
        assert call.call(MESSAGES[:1]) is CONSUMED
    assert not caplog.records
    call = ListenerCall(lambda _: [1], None)
    assert call.call(MESSAGES[:1]) is call.call(MESSAGES[1:2]) is CONSUMED
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "returned [1]" in caplog.text
    assert "RetryLater" in caplog.text


def test_a_function_that_returns_a_coroutine_has_not_consumed() -> None:
    async def listen(_: ReceivedMessage) -> None:
        pytest.fail("nobody awaits it")

    outcome = ListenerCall(lambda message: listen(message), None).call(MESSAGES[:1])
    assert outcome.failed == MESSAGES[:1]
    assert "async def itself" in str(outcome.error)


def test_a_coroutine_listener_is_awaited() -> None:
    got: list[ReceivedMessage] = []

    class Listener:
        async def __call__(self, message: ReceivedMessage) -> None:
            got.append(message)
            if len(got) == 2:
                raise RetryLater

    call = ListenerCall(Listener(), None)
    assert call.is_async
    assert asyncio.run(call.call_async(MESSAGES[:1])) is CONSUMED
    assert asyncio.run(call.call_async(MESSAGES[:1])).failed == MESSAGES[:1]
    assert not ListenerCall(print, None).is_async


@pytest.mark.parametrize("pair", [(None, None), (print, print), ("no function", None)])
def test_exactly_one_listener_is_needed(pair: tuple[object, object]) -> None:
    with pytest.raises(ConfigurationError, match="listener"):
        ListenerCall(*pair)  # type: ignore[arg-type]


def test_two_listeners_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="left out where listener is given"):
        ListenerCall(print, print)
    with pytest.raises(ConfigurationError, match="must be given"):
        ListenerCall(None, None)


def test_an_exception_that_would_end_the_thread_or_the_task_is_one_of_the_listener() -> None:
    """``sys.exit()``, and the cancellation of something that it waits for; both were lost without a word."""

    def leave(_: ReceivedMessage) -> None:
        raise SystemExit("enough")

    async def leave_later(_: ReceivedMessage) -> None:
        raise SystemExit("enough")

    async def wait_for_what_is_cancelled(_: ReceivedMessage) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.cancel()
        await answer

    async def scenario() -> None:
        for listener, error in ((leave_later, SystemExit), (wait_for_what_is_cancelled, asyncio.CancelledError)):
            outcome = await ListenerCall(listener, None).call_async(MESSAGES[:1])
            assert outcome.failed == MESSAGES[:1]
            assert isinstance(outcome.error, error)

    assert isinstance(ListenerCall(leave, None).call(MESSAGES[:1]).error, SystemExit)
    asyncio.run(scenario())


def test_a_task_that_is_cancelled_itself_ends() -> None:
    async def wait(_: ReceivedMessage) -> None:
        await asyncio.Event().wait()

    async def interrupted(_: ReceivedMessage) -> None:
        raise KeyboardInterrupt

    async def scenario() -> None:
        task = asyncio.ensure_future(ListenerCall(wait, None).call_async(MESSAGES[:1]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(ListenerCall(interrupted, None).call_async(MESSAGES[:1]))
