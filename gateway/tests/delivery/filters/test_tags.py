"""The tag filter lets through what the subscription names."""

import pytest

from gateway.delivery.filters.message_filter import is_tag_type, tag_filter


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_a_subscription_without_tags_matches_everything(expression: str | None) -> None:
    assert tag_filter(expression, (), class_filter_mode=False) is None


def test_only_the_codes_of_the_subscription_match() -> None:
    accepts = tag_filter("TagA || TagB", (2598919, 2598920), class_filter_mode=False)
    assert accepts is not None
    assert accepts(2598919)
    assert accepts(2598920)
    assert not accepts(0)


def test_class_filter_mode_leaves_all_filtering_to_others() -> None:
    assert tag_filter("TagA", (2598919,), class_filter_mode=True) is None


@pytest.mark.parametrize(("expression_type", "is_tags"), [(None, True), ("", True), ("TAG", True), ("SQL92", False)])
def test_no_type_means_tags(expression_type: str | None, is_tags: bool) -> None:
    assert is_tag_type(expression_type) is is_tags
