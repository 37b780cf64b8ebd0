from __future__ import annotations

import io

import pytest

from gateway.cli.clients.live_rate import INTERVAL_S, LiveRate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(output: io.StringIO) -> list[str]:
    return output.getvalue().replace("\r\x1b[K", "\n").strip("\n").split("\n")


def test_a_terminal_gets_a_line_that_is_written_over_now_and_then() -> None:
    clock, output = Clock(), Terminal()
    rate = LiveRate(clock, output, "messages sent")
    for _ in range(4):
        clock.now += INTERVAL_S / 2
        rate.add(500)
    rate.end()
    assert shown(output) == [
        "1,000 messages sent, 2,000/s",
        "2,000 messages sent, 2,000/s",
        "2,000 messages sent in 1.0 s, 2,000/s",
    ]


def test_how_far_it_is_is_a_bar_when_the_end_is_known() -> None:
    clock, output = Clock(), Terminal()
    rate = LiveRate(clock, output, "messages read", total=4_000)
    clock.now += 1
    rate.add(1_000)
    assert shown(output) == ["[#######                       ]  25%  1,000 of 4,000 messages read, 1,000/s, 3 s left"]


@pytest.mark.parametrize("count", [4, 5])
def test_a_bar_is_never_more_than_full(count: int) -> None:
    clock, output = Clock(), Terminal()
    rate = LiveRate(clock, output, "messages read", total=4)
    clock.now += 1
    rate.add(count)
    assert "100%" in shown(output)[0]
    assert "left" not in shown(output)[0]


def test_elsewhere_only_the_last_line_is_written() -> None:
    clock, output = Clock(), io.StringIO()
    rate = LiveRate(clock, output, "messages sent")
    clock.now += 2
    rate.add(10)
    rate.end()
    assert output.getvalue() == "10 messages sent in 2.0 s, 5/s\n"
