"""Times in which a processor stood still, as `benchmarks.pauses` takes them off."""

from __future__ import annotations

import pytest

from benchmarks.standstill import Watch, seconds_within, united


def test_times_of_two_processors_count_once() -> None:
    assert united([(5.0, 6.0), (1.0, 3.0), (2.0, 4.0), (2.5, 2.6)]) == [(1.0, 4.0), (5.0, 6.0)]


@pytest.mark.parametrize(
    ("begin", "end", "seconds"),
    [(0.0, 1.0, 0.0), (0.0, 2.0, 1.0), (2.0, 3.0, 1.0), (3.5, 5.5, 1.0), (0.0, 9.0, 4.0), (4.0, 5.0, 0.0), (7, 8, 0)],
)
def test_only_what_lies_within_a_turn_is_taken_off_it(begin: float, end: float, seconds: float) -> None:
    assert seconds_within([(1.0, 4.0), (5.0, 6.0)], begin, end) == pytest.approx(seconds)


def test_a_watch_ends_with_its_block_and_says_what_it_saw_or_that_it_may_not_look() -> None:
    with Watch() as watch:
        assert watch.intervals is None
    assert watch.intervals is None or all(begin < end for begin, end in watch.intervals)
