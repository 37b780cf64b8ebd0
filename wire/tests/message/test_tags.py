from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import BodyError
from wire.message import tags
from wire.message.java_hash import java_string_hash
from wire.message.tags import EVERYTHING, MAX_CACHED_TAGS, parse_tag_expression, tags_code
from wire.tests.message.strategies import QUICK


def test_a_tag_is_kept_as_its_java_hash() -> None:
    assert tags_code("TagA") == 2598919
    assert tags_code("polygenelubricants") == -(2**31)


@pytest.mark.parametrize("tag", [None, ""])
def test_no_tag_is_zero(tag: str | None) -> None:
    assert tags_code(tag) == 0


def test_the_cache_of_tags_is_bounded() -> None:
    for number in range(MAX_CACHED_TAGS + 5):
        assert tags_code(f"tag-{number}") == java_string_hash(f"tag-{number}")
    assert len(tags._codes) <= MAX_CACHED_TAGS


@pytest.mark.parametrize("text", [None, "", "*"])
def test_an_expression_without_tags_accepts_everything(text: str | None) -> None:
    expression = parse_tag_expression(text)
    assert expression is EVERYTHING
    assert expression.accepts_code(0)
    assert expression.accepts_code(-5)


def test_tags_are_separated_by_two_bars_and_trimmed() -> None:
    expression = parse_tag_expression(" TagA ||\tTagB|| ||TagA")
    assert expression.tags == {"TagA", "TagB"}
    assert expression.codes == {2598919, 2598920}
    assert expression.accepts_code(2598919)
    assert not expression.accepts_code(0)


def test_one_bar_belongs_to_the_tag() -> None:
    assert parse_tag_expression("a|b").tags == {"a|b"}


def test_white_space_that_java_does_not_trim_stays() -> None:
    assert parse_tag_expression("\u2003a").tags == {"\u2003a"}


def test_white_space_alone_accepts_nothing() -> None:
    expression = parse_tag_expression("  ")
    assert not expression.match_all
    assert expression.tags == frozenset()
    assert not expression.accepts_code(0)


@pytest.mark.parametrize("text", ["||", "||||"])
def test_separators_alone_are_refused(text: str) -> None:
    with pytest.raises(BodyError, match="holds no tag"):
        parse_tag_expression(text)


@QUICK
@given(st.text(st.sampled_from("ab| *\t漢"), max_size=20))
def test_any_expression_is_read_or_refused_with_a_body_error(text: str) -> None:
    try:
        expression = parse_tag_expression(text)
    except BodyError:
        return
    assert expression.codes == {java_string_hash(tag) for tag in expression.tags}
