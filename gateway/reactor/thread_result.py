"""The result of work in a thread as a Deferred, so that coroutines can await it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from twisted.internet.defer import Deferred

from gateway.in_thread import Failed, InThread

T = TypeVar("T")


def thread_result(in_thread: InThread, work: Callable[[], T]) -> Deferred[T]:
    """Run ``work`` in a thread; the result fires with the value of ``work`` or fails with its exception."""
    waiting: Deferred[T] = Deferred()
    in_thread(work, partial(settle, waiting))
    return waiting


def settle(waiting: Deferred[T], result: T | Failed) -> None:
    """Fire a Deferred with the outcome of work in a thread."""
    if isinstance(result, Failed):
        waiting.errback(result.error)
    else:
        waiting.callback(result)
