"""Callbacks as something to wait for."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from gateway.broker.awaiting import saved
from gateway.errors import RequestRefused
from gateway.in_thread import in_this_thread
from gateway.reactor.thread_result import thread_result


def ended(waiting: Any) -> Any:
    """The value or the exception of something that has ended."""
    seen: list[Any] = []
    deferred = waiting if isinstance(waiting, Deferred) else ensureDeferred(waiting)
    deferred.addCallbacks(seen.append, lambda failure: seen.append(failure.value))
    assert len(seen) == 1
    return seen[0]


def test_the_value_of_a_thread_is_waited_for() -> None:
    assert ended(thread_result(in_this_thread, lambda: 5)) == 5


def test_the_exception_of_a_thread_is_raised() -> None:
    def broken() -> int:
        raise OSError("bad disk")

    assert isinstance(ended(thread_result(in_this_thread, broken)), OSError)


def test_a_saved_change_lets_go_on() -> None:
    assert ended(saved(lambda told: told(None), "topic t")) is None


def test_a_change_that_was_not_saved_is_refused_with_the_reason() -> None:
    refused = ended(saved(lambda told: told(OSError("disk full")), "topic t"))
    assert isinstance(refused, RequestRefused)
    with pytest.raises(RequestRefused, match=r"topic t: in force, but not written to disk \(disk full\)"):
        raise refused
