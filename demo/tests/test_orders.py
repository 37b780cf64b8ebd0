from __future__ import annotations

from demo.orders import Orders


def test_a_forgotten_order_becomes_what_the_broker_is_told_of_it() -> None:
    orders = Orders()
    orders.forget("A", is_committed=True)
    orders.forget("B", is_committed=False)
    assert orders.summary() == "0 committed, 0 rolled back, 2 forgotten"
    assert (orders.asked("A"), orders.asked("B")) == (True, False)
    assert (orders.committed, orders.rolled_back, orders.forgotten) == ({"A"}, {"B"}, {})
    assert orders.checks == 2


def test_a_check_of_an_order_that_is_known_answers_the_same_again() -> None:
    orders = Orders()
    orders.note("A", is_committed=True)
    orders.note("B", is_committed=False)
    assert (orders.asked("A"), orders.asked("B")) == (True, False)
    assert orders.summary() == "1 committed, 1 rolled back, 0 forgotten"


def test_an_order_nobody_knows_of_is_rolled_back() -> None:
    assert Orders().asked("A") is False
