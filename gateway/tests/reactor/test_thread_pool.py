"""Blocking work runs elsewhere, its outcome arrives here."""

from typing import Any

from gateway.in_thread import Failed
from gateway.reactor.log_thread import in_thread_pool


class DirectReactor:
    """A reactor whose threads work at once."""

    def callInThread(self, work: Any, *arguments: Any) -> None:  # noqa: N802
        work(*arguments)

    def callFromThread(self, function: Any, *arguments: Any) -> None:  # noqa: N802
        function(*arguments)


def test_the_value_is_reported_and_then_the_answers_are_written_out() -> None:
    events: list[object] = []

    def carry_out(done: Any, value: object) -> None:
        done(value)
        events.append("flush")

    in_thread_pool(DirectReactor(), carry_out)(lambda: 42, events.append)
    assert events == [42, "flush"]


def test_an_exception_is_reported_as_a_value() -> None:
    events: list[object] = []

    def fail() -> None:
        raise OSError(28, "No space left on device")

    in_thread_pool(DirectReactor(), lambda done, value: done(value))(fail, events.append)
    assert isinstance(events[0], Failed)
    assert isinstance(events[0].error, OSError)
