"""Pages of a table: whole, known, changed meanwhile, from masters that know no pages, and from masters that lie."""

from __future__ import annotations

import pytest

from gateway.replication.slave.pages import MAX_PAGES, Pages
from wire.bodies.topics import DataVersion, TopicConfig

HERE = DataVersion(counter=1, timestamp=10)
THERE = DataVersion(counter=7, timestamp=10)
LATER = DataVersion(counter=8, timestamp=11)

Page = tuple[str, DataVersion, int | None]


def given(*pages: Page) -> Pages[TopicConfig]:
    """Return the pages, each with topics of one letter, as long as more of them are needed."""
    found: Pages[TopicConfig] = Pages(HERE)
    for names, version, total in pages:
        assert found.needs_more
        found.add({name: TopicConfig(name) for name in names}, version, total)
    return found


@pytest.mark.parametrize(
    ("pages", "names", "needs_more", "is_whole"),
    [
        ([], "", True, False),
        ([("abc", THERE, None)], "abc", False, True),
        ([("abc", THERE, 3)], "abc", False, True),
        ([("ab", THERE, 3)], "ab", True, False),
        ([("ab", THERE, 3), ("c", THERE, 3)], "abc", False, True),
        ([("ab", THERE, 3), ("c", LATER, 3)], "", True, False),
        ([("ab", THERE, 3), ("c", LATER, 3), ("ab", LATER, 3), ("c", LATER, 3)], "abc", False, True),
        ([("ab", THERE, 3), ("", THERE, 3)], "ab", False, False),
        ([("", THERE, 0)], "", False, True),
        ([("", THERE, None)], "", False, True),
    ],
)
def test_pages_of_one_version_make_a_table(pages: list[Page], names: str, needs_more: bool, is_whole: bool) -> None:
    found = given(*pages)
    assert "".join(found.configs) == names
    assert (found.needs_more, found.is_whole, found.is_known) == (needs_more, is_whole, False)


@pytest.mark.parametrize("total", [None, 1, 100])
def test_a_master_with_the_version_that_is_here_is_asked_for_no_second_page(total: int | None) -> None:
    found = given(("a", HERE, total))
    assert found.is_known
    assert not found.needs_more


@pytest.mark.parametrize(
    "other", [DataVersion(counter=2, timestamp=10), DataVersion(1, 11), DataVersion(1, 10, state_version=1)]
)
def test_all_three_numbers_of_a_version_count(other: DataVersion) -> None:
    assert not given(("a", other, 1)).is_known


def test_a_further_page_is_asked_for_with_the_version_of_the_first() -> None:
    assert given().version_text == ""
    assert DataVersion.parse(given(("a", THERE, 2)).version_text.encode()) == THERE
    assert given(("a", THERE, 2), ("b", LATER, 2)).version_text == ""


def test_a_master_that_changes_all_the_time_is_left_alone_in_the_end() -> None:
    found: Pages[TopicConfig] = Pages(HERE)
    asked = 0
    while found.needs_more:
        found.add({"a": TopicConfig("a")}, DataVersion(counter=100 + asked, timestamp=10), 2)
        asked += 1
    assert asked == MAX_PAGES
    assert not found.is_whole
