"""States of many half messages in little memory."""

from __future__ import annotations

from typing import Any

from gateway.transaction.states import State
from gateway.transaction.tables.outcomes import PAGE, Outcomes


def test_a_state_is_what_was_put_last() -> None:
    outcomes = Outcomes(PAGE)
    assert outcomes.state(5) is State.NONE
    assert outcomes.state(-1) is State.NONE
    for state in (State.PENDING, State.COMMITTING, State.COMMITTED):
        outcomes.put(5, state)
        assert outcomes.state(5) is state
    assert outcomes.state(4) is State.NONE


def test_a_full_page_without_open_ones_is_compressed_and_still_readable() -> None:
    outcomes = Outcomes(10 * PAGE)
    kinds = (State.COMMITTED, State.ROLLED_BACK, State.DISCARDED)
    for offset in range(PAGE + 1):
        outcomes.put(offset, State.PENDING)
    for offset in range(PAGE):
        outcomes.put(offset, kinds[offset % 3])
    assert len(outcomes._pages) == 1
    assert [outcomes.state(offset) for offset in (0, 1, 2, PAGE - 1, PAGE)] == [
        *kinds,
        kinds[(PAGE - 1) % 3],
        State.PENDING,
    ]


def test_a_compressed_page_can_be_changed() -> None:
    outcomes = Outcomes(10 * PAGE)
    for offset in range(PAGE + 1):
        outcomes.put(offset, State.COMMITTED)
    outcomes.seal()
    assert len(outcomes._pages) == 1
    outcomes.put(3, State.ROLLED_BACK)
    assert outcomes.state(3) is State.ROLLED_BACK
    assert outcomes.state(4) is State.COMMITTED


def test_more_than_the_limit_is_forgotten_oldest_first() -> None:
    outcomes = Outcomes(2 * PAGE)
    for offset in range(0, 5 * PAGE, 8):
        outcomes.put(offset, State.PENDING)
    for offset in range(0, 5 * PAGE, 8):
        outcomes.put(offset, State.COMMITTED)
    assert [outcomes.state(number * PAGE) for number in range(5)] == [State.NONE] * 2 + [State.COMMITTED] * 3


def test_a_page_with_an_open_one_is_never_forgotten() -> None:
    outcomes = Outcomes(PAGE)
    outcomes.put(7, State.PENDING)
    for offset in range(PAGE, 9 * PAGE, 16):
        outcomes.put(offset, State.PENDING)
        outcomes.put(offset, State.COMMITTED)
    outcomes.seal()
    assert outcomes.state(7) is State.PENDING


def test_a_page_that_another_thread_opens_between_two_looks_is_found() -> None:
    outcomes = Outcomes(10 * PAGE)
    for offset in range(PAGE + 1):
        outcomes.put(offset, State.COMMITTED)
    outcomes.seal()

    class Sealed(dict[int, bytes]):
        is_opening = False

        def get(self, number: int, default: Any = None) -> Any:
            if not self.is_opening:  # the first look has missed, and the other thread's turn comes
                self.is_opening = True
                outcomes.put(4, State.ROLLED_BACK)
            return super().get(number, default)

    outcomes._sealed = Sealed(outcomes._sealed)
    assert outcomes.state(3) is State.COMMITTED
