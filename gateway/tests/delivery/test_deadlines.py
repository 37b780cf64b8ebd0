"""Deadlines: each waiter is notified after its time, at most a tick late, and in order; a waiter that left is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.deadlines import Deadlines
from gateway.tests.delivery.arrivals import Clock

TICK_MS = 100


class Waiter:
    tick = 0

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms


class Wheel:
    """Deadlines and a clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.deadlines: Deadlines[Waiter] = Deadlines(self.clock, TICK_MS)

    def wait(self, ms: int) -> Waiter:
        waiter = Waiter(self.clock() + ms)
        self.deadlines.add(waiter, waiter.deadline_ms)
        return waiter

    def over(self) -> list[Waiter]:
        all_over: list[Waiter] = []
        while over := self.deadlines.over():
            all_over += over
            for waiter in over:
                self.deadlines.remove(waiter)
        return all_over


def test_in_the_order_of_their_times_and_then_in_which_they_came() -> None:
    wheel = Wheel()
    late, first, second = wheel.wait(1_000), wheel.wait(500), wheel.wait(500)
    wheel.clock.now_ms += 2_000
    assert wheel.over() == [first, second, late]
    assert wheel.over() == []


def test_a_time_that_is_over_already_is_told_in_the_next_tick() -> None:
    wheel = Wheel()
    wheel.clock.now_ms += 1_000
    assert wheel.over() == []
    past = wheel.wait(-5_000)
    wheel.clock.now_ms += TICK_MS
    assert wheel.over() == [past]


def test_after_the_clock_was_set_back_they_can_still_leave_and_nobody_waits_longer() -> None:
    wheel = Wheel()
    leaves, stays = wheel.wait(1_000), wheel.wait(1_000)
    wheel.clock.now_ms -= 3_600_000
    assert wheel.over() == []
    wheel.deadlines.remove(leaves)
    wheel.clock.now_ms += 1_000 + 2 * TICK_MS
    assert wheel.over() == [stays]


@given(
    st.lists(
        st.one_of(
            st.integers(0, 2_000).map(lambda ms: ("wait", ms)),
            st.integers(0, 900).map(lambda ms: ("go", ms)),
            st.integers(0, 9).map(lambda n: ("leave", n)),
        )
    )
)
def test_each_is_told_once_in_time_unless_it_left(steps: list[tuple[str, int]]) -> None:
    wheel = Wheel()
    waiting: list[Waiter] = []
    for step, number in [*steps, ("go", 900), ("go", 900), ("go", 900)]:
        if step == "wait":
            waiting.append(wheel.wait(number))
        elif step == "leave":
            for waiter in waiting[number : number + 1]:
                wheel.deadlines.remove(waiter)
                waiting.remove(waiter)
        else:
            for _ in range(number):
                wheel.clock.now_ms += 1
                if wheel.clock() % TICK_MS == 0:
                    for waiter in wheel.over():
                        assert waiter.deadline_ms <= wheel.clock() <= waiter.deadline_ms + TICK_MS
                        waiting.remove(waiter)
        assert all(waiter.deadline_ms + TICK_MS >= wheel.clock() for waiter in waiting)
    assert not waiting
