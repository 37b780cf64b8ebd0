"""Calls of the application's listener: a function or a coroutine function, for one message or for a batch.

A listener that returns acknowledges its messages. If the listener raises an exception, ``RetryLater`` above all, the
messages come again later. The same happens if it returns an exception, or another client's status that means "later".
``consume/push/concurrent_turns.py`` then sends the messages back; ``consume/push/orderly_turns.py`` suspends the queue.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.client.errors import ConfigurationError
from gateway.client.retry_later import CONSUMED, ListenerOutcome, RetryLater

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage
    from gateway.client.send.consume_trace import ConsumeTrace

Listener: TypeAlias = "Callable[[ReceivedMessage], Any]"
"""A listener that gets one message and returns nothing: a plain function (called in a thread) or an ``async def``."""
BatchListener: TypeAlias = "Callable[[list[ReceivedMessage]], Any]"
"""A listener that gets messages of one queue in offset order, in a new list; otherwise like ``Listener``."""

_log = logging.getLogger(__name__)

# Statuses that listeners of other clients return, by their names: enums, or texts.
_AGAIN: Final = ("RECONSUME_LATER", "SUSPEND_CURRENT_QUEUE_A_MOMENT", "ROLLBACK")
_CONSUMED: Final = ("CONSUME_SUCCESS", "SUCCESS", "COMMIT")


class ListenerCall:
    """Calls the application's listener, whatever kind of function it is.

    :raises ConfigurationError: not exactly one listener is given, or the listener cannot be called.
    """

    def __init__(self, listener: Listener | None, batch_listener: BatchListener | None) -> None:
        if listener is None and batch_listener is None:
            raise ConfigurationError("listener", listener, "given, or batch_listener instead of it")
        if listener is not None and batch_listener is not None:
            raise ConfigurationError(
                "batch_listener", batch_listener, "left out where listener is given, or the reverse"
            )
        function = listener if listener is not None else batch_listener
        if not callable(function):
            raise ConfigurationError("listener", function, "a function or a coroutine function of one argument")
        self.takes_batches = batch_listener is not None
        self.is_async = _is_async(function)
        self.trace: ConsumeTrace | None = None
        """The trace that is notified of every call; None without tracing."""
        self._function: Callable[[Any], Any] = function
        self._has_warned = False

    def call(self, messages: Sequence[ReceivedMessage]) -> ListenerOutcome:
        """Call a plain listener in the current thread."""
        trace = self.trace
        if trace is not None:
            hand_over = trace.begin(messages)
            outcome = self._call(messages)
            trace.end(hand_over, outcome)
            return outcome
        return self._call(messages)

    async def call_async(self, messages: Sequence[ReceivedMessage]) -> ListenerOutcome:
        """Call a coroutine listener."""
        trace = self.trace
        if trace is not None:
            hand_over = trace.begin(messages)
            outcome = await self._call_async(messages)
            trace.end(hand_over, outcome)
            return outcome
        return await self._call_async(messages)

    def _call(self, messages: Sequence[ReceivedMessage]) -> ListenerOutcome:
        try:
            returned = self._function(list(messages) if self.takes_batches else messages[0])
        # Whatever the application raises means "again later"; it is logged by who asked. A SystemExit, too: Python ends
        # a thread that raises one without a word.
        except BaseException as error:  # noqa: BLE001
            return outcome_of(error, messages)
        return CONSUMED if returned is None else self._outcome_of_return(returned, messages)

    async def _call_async(self, messages: Sequence[ReceivedMessage]) -> ListenerOutcome:
        import asyncio  # the blocking clients load it when they start

        try:
            awaitable: Awaitable[Any] = self._function(list(messages) if self.takes_batches else messages[0])
            returned = await awaitable
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return outcome_of(error, messages)  # what the listener waited for was cancelled, not its task
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as in a thread
            return outcome_of(error, messages)
        return CONSUMED if returned is None else self._outcome_of_return(returned, messages)

    def _outcome_of_return(self, returned: object, messages: Sequence[ReceivedMessage]) -> ListenerOutcome:
        """Return the meaning of a listener's return value, so that a habit from another client loses no message."""
        match returned:
            case Exception():
                return outcome_of(returned, messages)
            case Awaitable():
                if inspect.iscoroutine(returned):
                    returned.close()
                wanted = "an async def itself: what it returned was not awaited, so the message was not consumed"
                return outcome_of(ConfigurationError("listener", self._function, wanted), messages)
        status = getattr(returned, "name", returned)
        if isinstance(status, str) and status in _AGAIN:
            return outcome_of(RetryLater(), messages)
        if not self._has_warned and status not in _CONSUMED:
            self._has_warned = True
            _log.warning(
                "the listener returned %.64r, which means nothing here: its messages count as consumed. "
                "Raise RetryLater() to get them again (said once)",
                returned,
            )
        return CONSUMED


def outcome_of(error: BaseException, messages: Sequence[ReceivedMessage]) -> ListenerOutcome:
    """Return what a listener's exception means for the messages of the call."""
    if not isinstance(error, RetryLater):
        return ListenerOutcome(messages, 0, error)
    if error.messages is None:
        return ListenerOutcome(messages, error.delay_level, error)
    wanted = {id(message) for message in error.messages}
    return ListenerOutcome([message for message in messages if id(message) in wanted], error.delay_level, error)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__, not whether it is callable
    )
