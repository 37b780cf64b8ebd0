"""A fair line: a member with much work delays only itself, and nobody waits for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fair_line import FairLine

LINES = {
    "works of one holder stay in order": ("a.1:9 a.1:1 a.1:5", "9 1 5"),
    "holders take turns": ("a.1:10 a.1:11 a.1:12 a.2:13 a.2:14 a.3:15", "10 13 15 11 14 12"),
    "hosts take turns, however many holders they have": ("a.1:5 a.2:5 a.3:5 a.4:5 b.1:6", "5 6 5 5 5"),
    "a short work passes long ones": ("a.1:90 a.2:91 a.3:92 a.4:1", "1 90 91 92"),
    "a short one of a busy host passes its long ones only": ("a.1:50 a.2:1 b.1:2", "1 2 50"),
    "who had its turn is behind those who had none": ("a.1:10 a.1:11 b.1:12", "10 12 11"),
}
"""Name: works as host.holder:cost in the order of their coming, costs in the order of their leaving."""


def put(line: FairLine[int], text: str) -> None:
    place, cost = text.split(":")
    host, holder = place.split(".")
    line.put(host, holder, int(cost), int(cost))


def left(line: FairLine[int]) -> list[int]:
    works = []
    while line:
        works.append(line.take())
    return works


@pytest.mark.parametrize(("come", "leave"), LINES.values(), ids=LINES)
def test_the_order_of_works(come: str, leave: str) -> None:
    line: FairLine[int] = FairLine()
    for text in come.split():
        put(line, text)
    assert left(line) == [int(cost) for cost in leave.split()]


def test_a_long_work_is_passed_by_short_ones_for_a_while_only() -> None:
    line: FairLine[int] = FairLine()
    put(line, "a.0:100")
    taken = []
    for number in range(1, 1_000):
        put(line, f"a.{number}:1")
        if number > 4:
            taken.append(line.take())
    assert 100 < taken.index(100) < 600


def test_works_of_a_holder_that_left_are_dropped() -> None:
    line: FairLine[int] = FairLine()
    for text in ("a.1:1", "a.1:2", "a.2:3", "b.1:4"):
        put(line, text)
    assert line.drop("a", "1") == [1, 2]
    assert line.drop("a", "1") == line.drop("c", "1") == []
    assert (len(line), line.waiting("a", "1"), line.waiting("a", "2")) == (2, 0, 1)
    assert left(line) == [3, 4]
    put(line, "a.1:5")
    assert left(line) == [5]


@given(
    st.lists(st.tuples(st.sampled_from(["take", "drop", *["put"] * 4]), *[st.integers(0, 2)] * 2, st.integers(1, 9)))
)
def test_nothing_is_lost_whatever_comes_and_goes(steps: list[tuple[str, int, int, int]]) -> None:
    line: FairLine[tuple[int, int, int]] = FairLine()
    waiting: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for number, (step, host, holder, cost) in enumerate(steps):
        if step == "put":
            work = host, holder, number
            line.put(host, holder, work, cost)
            waiting.setdefault((host, holder), []).append(work)
        elif step == "drop":
            assert line.drop(host, holder) == waiting.pop((host, holder), [])
        elif line:
            taken = line.take()
            assert waiting[taken[:2]].pop(0) == taken
        assert len(line) == sum(map(len, waiting.values()))
    while line:
        taken = line.take()
        assert waiting[taken[:2]].pop(0) == taken
    assert not any(waiting.values())
