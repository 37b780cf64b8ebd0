"""The open half messages and their base, against a plain dictionary."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.transaction.tables.pending import PAGE, Pending


def add(pending: Pending, offset: int) -> None:
    pending.add(offset, (1_000 + offset, 50), 7, 8, 3)


def test_what_was_added_is_there_until_it_is_removed() -> None:
    pending = Pending()
    add(pending, 5)
    assert 5 in pending
    assert 4 not in pending
    assert pending.place(5) == (1_005, 50)
    assert (pending.stored_at_ms(5), pending.due_at_ms(5), pending.group(5), pending.checks(5)) == (
        7,
        8,
        3,
        0,
    )
    pending.schedule(5, 99, 2)
    assert (pending.due_at_ms(5), pending.checks(5)) == (99, 2)
    assert list(pending.checked()) == [(5, 1_005, 99, 2)]
    pending.remove(5)
    assert 5 not in pending
    assert (pending.base, pending.end, pending.count) == (6, 6, 0)


def test_what_is_not_open_cannot_be_asked_for_or_removed() -> None:
    pending = Pending()
    add(pending, 1)
    for offset in (0, 2, 500):
        with pytest.raises(KeyError):
            pending.place(offset)
        with pytest.raises(KeyError):
            pending.remove(offset)


def test_reach_moves_the_end_past_settled_ones() -> None:
    pending = Pending()
    pending.reach(10)
    assert (pending.base, pending.end) == (10, 10)
    add(pending, 4)
    pending.reach(12)
    pending.reach(3)
    assert (pending.base, pending.end) == (4, 12)


def test_one_that_stays_alone_in_its_page_takes_little_memory() -> None:
    pending, pages = Pending(), 200
    tracemalloc.start()
    try:
        for number in range(pages):
            add(pending, number * PAGE)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / pages < 6 * 1024


def test_one_that_stays_does_not_keep_the_others_in_memory() -> None:
    pending = Pending()
    for offset in range(100 * PAGE):
        add(pending, offset)
        if offset != 3:
            pending.remove(offset)
    assert list(pending) == [3]
    assert pending.base == 3
    assert len(pending._pages) == 1
    pending.remove(3)
    assert pending.base == 100 * PAGE


@given(st.lists(st.integers(0, 6 * PAGE), unique=True, max_size=60), st.randoms())
def test_base_is_always_the_smallest_open_one(offsets: list[int], random: object) -> None:
    pending, model = Pending(), set[int]()
    for offset in sorted(offsets):
        add(pending, offset)
        model.add(offset)
    random.shuffle(offsets)  # type: ignore[attr-defined]
    end = pending.end
    for offset in offsets:
        assert list(pending) == sorted(model)
        assert (pending.base, pending.count) == (min(model), len(model))
        pending.remove(offset)
        model.remove(offset)
    assert (pending.base, pending.end, pending.count) == (end, end, 0)
