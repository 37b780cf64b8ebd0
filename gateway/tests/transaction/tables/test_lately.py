"""The table of latest notes."""

from __future__ import annotations

from gateway.transaction.tables.transaction_tables import Lately


def test_the_newest_half_at_least_is_remembered_and_never_more_than_the_limit() -> None:
    noted: Lately[str] = Lately(10)
    for number in range(103):
        noted.put(number, f"v{number}")
    kept = [number for number in range(103) if noted.get(number) is not None]
    assert kept == list(range(kept[0], 103))
    assert 5 <= len(kept) <= 10
    assert noted.get(102) == "v102"


def test_a_later_value_counts_and_a_forgotten_one_is_gone() -> None:
    noted: Lately[int] = Lately(4)
    for number in (1, 2, 3):
        noted.put(number, 0)
    noted.put(1, 7)
    assert noted.get(1) == 7
    noted.forget(1)
    assert noted.get(1) is None
