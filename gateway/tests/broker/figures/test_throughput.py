"""Rates and day totals from running totals."""

from __future__ import annotations

from gateway.broker.figures.throughput import SAMPLE_MS, Throughput, Totals

DAY_MS = 86_400_000


class Counted:
    """A broker that stores messages when told to."""

    def __init__(self) -> None:
        self.now_ms = 5 * DAY_MS - 2 * SAMPLE_MS
        self.puts = 0
        self.throughput = Throughput(lambda: Totals(self.puts, 0, 0, 0), lambda: self.now_ms, lambda ms: ms // DAY_MS)

    def pass_ten_seconds(self, puts: int) -> None:
        self.puts += puts
        self.now_ms += SAMPLE_MS
        self.throughput.sample()

    def rates(self) -> list[float]:
        return [float(text) for text in self.throughput.rates(lambda totals: totals.puts).split(" ")]


def test_an_idle_broker_has_rates_of_zero() -> None:
    counted = Counted()
    assert counted.rates() == [0.0, 0.0, 0.0]
    counted.pass_ten_seconds(0)
    assert counted.rates() == [0.0, 0.0, 0.0]


def test_the_three_windows_look_back_ten_seconds_a_minute_and_ten_minutes() -> None:
    counted = Counted()
    for _ in range(60):
        counted.pass_ten_seconds(100)
    counted.pass_ten_seconds(700)
    assert counted.rates() == [70.0, 20.0, 11.0]


def test_a_young_broker_divides_by_the_time_it_runs() -> None:
    counted = Counted()
    counted.pass_ten_seconds(50)
    assert counted.rates() == [5.0, 5.0, 5.0]


def test_the_totals_of_the_last_two_midnights_are_kept() -> None:
    counted = Counted()
    counted.pass_ten_seconds(10)
    counted.pass_ten_seconds(5)
    counted.pass_ten_seconds(1)
    day = counted.throughput.day(lambda totals: totals.puts)
    assert (day.yesterday_morning, day.today_morning, day.today_now) == (0, 15, 16)
    counted.now_ms += DAY_MS
    counted.pass_ten_seconds(4)
    day = counted.throughput.day(lambda totals: totals.puts)
    assert (day.yesterday_morning, day.today_morning, day.today_now) == (15, 20, 20)
