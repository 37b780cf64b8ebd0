"""The wall clock gives whole milliseconds since the epoch."""

from gateway.clock import Milliseconds, wall_clock_ms


def test_the_wall_clock_is_after_the_year_2020_and_before_2100() -> None:
    clock: Milliseconds = wall_clock_ms
    assert 1_577_836_800_000 < clock() < 4_102_444_800_000


def test_the_wall_clock_does_not_run_backwards_while_nobody_sets_it() -> None:
    first = wall_clock_ms()
    assert wall_clock_ms() >= first
