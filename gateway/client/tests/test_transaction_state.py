from __future__ import annotations

import pytest

from gateway.client.transaction_state import TransactionState, state_of


def test_the_states_are_the_numbers_of_the_protocol() -> None:
    assert [state.value for state in TransactionState] == [8, 12, 0]


@pytest.mark.parametrize("state", TransactionState)
def test_a_state_is_taken_as_it_is(state: TransactionState) -> None:
    assert state_of(state, "Orders.check") is state


@pytest.mark.parametrize("value", [None, True, 8, "COMMIT", object])
def test_anything_else_is_refused_with_the_name_of_who_returned_it(value: object) -> None:
    with pytest.raises(TypeError, match=r"Orders\.check returned .*: return TransactionState\.COMMIT"):
        state_of(value, "Orders.check")
