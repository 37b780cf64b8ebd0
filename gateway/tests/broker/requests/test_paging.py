"""Pages of a table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.requests.paging import page


def test_without_a_page_everything_is_given_by_name() -> None:
    assert page({"b": 1, "a": 2}, None, None) == ["a", "b"]
    assert page({"b", "a"}, 0, None) == ["a", "b"]
    assert page({"b", "a"}, -3, -1) == []


@given(st.sets(st.text(max_size=3)), st.integers(1, 5))
def test_all_pages_together_are_the_table(names: set[str], count: int) -> None:
    pages = [page(names, first, count) for first in range(0, len(names) + count, count)]
    assert [name for part in pages for name in part] == sorted(names)
