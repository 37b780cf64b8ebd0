"""Blocking work in this thread is told of as a thread does it."""

import pytest

from gateway.in_thread import Failed, in_this_thread


def test_the_value_is_told() -> None:
    told = list[object]()
    in_this_thread(lambda: 7, told.append)
    assert told == [7]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("a bug")])
def test_what_the_work_raises_is_told_and_not_raised(error: Exception) -> None:
    """A batch that stayed in flight because of a bug would hold up all others."""
    told = list[object]()

    def fail() -> None:
        raise error

    in_this_thread(fail, told.append)
    [failed] = told
    assert isinstance(failed, Failed)
    assert failed.error is error


def test_an_exception_that_work_returns_is_a_value() -> None:
    told = list[object]()
    in_this_thread(lambda: ValueError("found in a log"), told.append)
    assert [type(value) for value in told] == [ValueError]


def test_what_the_answer_raises_is_not_taken_for_the_work_s() -> None:
    told = list[object]()

    def tell(value: object) -> None:
        told.append(value)
        raise ValueError("a bug of the listener")

    with pytest.raises(ValueError, match="of the listener"):
        in_this_thread(lambda: 7, tell)
    assert told == [7]
