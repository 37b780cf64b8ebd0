"""Long lists are written a piece at a time, as short ones are at once, and never longer than a frame."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import RequestRefused
from gateway.remoting.long_lists import MAX_LIST_BYTES, list_text, table_of_texts, table_text
from gateway.remoting.turns import ENTRIES_PER_TURN, finish
from wire.bodies.fastjson import build_json, object_key

MANY = ENTRIES_PER_TURN * 2 + 7
KEYS: list[Any] = [1, "a", object_key({"queueId": 1})]


@pytest.mark.parametrize("java_form", [True, False])
@pytest.mark.parametrize("count", [0, 1, 3, ENTRIES_PER_TURN, MANY])
def test_a_list_is_written_as_it_is_at_once(count: int, java_form: bool) -> None:
    items = [{"name": f"ü{number}", "table": {1: number}} for number in range(count)]
    text = finish(list_text("list", items, java_form=java_form))
    assert build_json(text, java_form=java_form) == build_json(items, java_form=java_form)


@pytest.mark.parametrize("java_form", [True, False])
@pytest.mark.parametrize("count", [0, 1, MANY])
def test_a_table_is_written_as_it_is_at_once(count: int, java_form: bool) -> None:
    members = {object_key({"queueId": number + 1_000}): {"offset": number} for number in range(count)}
    text = finish(table_text("table", members.items(), java_form=java_form))
    assert build_json(text, java_form=java_form) == build_json(members, java_form=java_form)


def test_a_piece_is_so_many_entries() -> None:
    taken = []
    work = list_text("list", (taken.append(number) or number for number in range(MANY)))  # type: ignore[func-returns-value]
    next(work)
    assert len(taken) == ENTRIES_PER_TURN


def test_a_piece_of_long_entries_has_fewer() -> None:
    taken = []
    work = list_text("list", (taken.append(1) or "x" * 100_000 for _ in range(100)))  # type: ignore[func-returns-value]
    next(work)
    assert len(taken) == 3


def test_a_list_of_one_piece_takes_one_turn() -> None:
    with pytest.raises(StopIteration):
        next(list_text("list", range(ENTRIES_PER_TURN - 1)))


def test_what_does_not_fit_into_a_frame_is_refused_and_no_more_of_it_is_made() -> None:
    taken = []
    entry = "ü" * 8_000
    work = list_text("list of all", (taken.append(1) or entry for _ in range(10**9)), advice="ask for less")  # type: ignore[func-returns-value]
    with pytest.raises(RequestRefused, match=f"list of all: .* {MAX_LIST_BYTES} bytes .* one frame; ask for less"):
        finish(work)
    assert len(taken) <= MAX_LIST_BYTES // 16_000 + ENTRIES_PER_TURN


@pytest.mark.parametrize("count", [0, 1, 3, MANY])
def test_a_table_of_lists_is_written_as_it_is_at_once(count: int) -> None:
    lists = {f"name-{number:05}": [{"number": number}] * (number % 3) for number in range(count)}
    text = finish(table_of_texts("lists", ((name, list_text("list", items)) for name, items in lists.items())))
    assert build_json(text, java_form=True) == build_json(lists, java_form=True)


def test_many_short_lists_are_written_over_several_turns() -> None:
    work = table_of_texts("lists", ((f"{number}", list_text("list", [number])) for number in range(MANY)))
    assert sum(1 for _ in work) >= MANY // ENTRIES_PER_TURN


def test_lists_that_do_not_fit_into_a_frame_together_are_refused_before_all_are_made() -> None:
    made = []
    lists = ((f"{n}", list_text("list", (made.append(n) or "x" * 1_000_000 for _ in range(4)))) for n in range(50))  # type: ignore[func-returns-value]
    with pytest.raises(RequestRefused, match=r"all lists: .* one frame; ask for one"):
        finish(table_of_texts("all lists", lists, advice="ask for one"))
    assert len(made) < 30
