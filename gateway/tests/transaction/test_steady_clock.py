"""The steady clock follows what passes, not what the time of day is set to."""

from __future__ import annotations

from gateway.clock import steady_clock


def test_it_starts_at_the_time_of_day_and_counts_what_passes() -> None:
    wall_ms, passed_ns = [1_000_000], [77_000_000]
    now_ms = steady_clock(lambda: wall_ms[0], lambda: passed_ns[0])
    assert now_ms() == 1_000_000
    wall_ms[0] -= 3_600_000
    passed_ns[0] += 5_000_000
    assert now_ms() == 1_000_005


def test_it_has_a_clock_of_its_own() -> None:
    now_ms = steady_clock(lambda: 5)
    assert now_ms() >= 5
