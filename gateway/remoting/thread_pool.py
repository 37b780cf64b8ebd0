"""Blocking work in the reactor's thread pool, for parts that know no reactor: they take a callable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

InThread = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""``in_thread(work, done)``: run ``work`` in a thread, then ``done(its value or its exception)`` here."""


def in_thread_pool(reactor: Any, after_each: Callable[[], None]) -> InThread:
    """An ``InThread`` on the reactor's pool.

    :param after_each: called after each report, to write out the answers it made.
    """

    def report(done: Callable[[Any], None], value: object) -> None:
        done(value)
        after_each()

    def run(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        value: object
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - handed over whole to the reactor thread
            value = error
        reactor.callFromThread(report, done, value)

    def in_thread(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        reactor.callInThread(run, work, done)

    return in_thread
