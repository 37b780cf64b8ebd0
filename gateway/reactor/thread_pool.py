"""Blocking work in the reactor's thread pool, for parts that know no reactor and take a callable instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gateway.in_thread import Failed, InThread

T = TypeVar("T")


def in_thread_pool(reactor: Any, carry_out: Callable[[Callable[[Any], None], object], None]) -> InThread:
    """Return an ``InThread`` on the reactor's pool.

    :param carry_out: calls ``done`` with a value, and writes out the answers that were made there.
    """

    def run(work: Callable[[], T], done: Callable[[T | Failed], None]) -> None:
        value: T | Failed
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - handed over whole to the reactor thread
            value = Failed(error)
        reactor.callFromThread(carry_out, done, value)

    def in_thread(work: Callable[[], T], done: Callable[[T | Failed], None]) -> None:
        reactor.callInThread(run, work, done)

    return in_thread
