"""The tag filter lets through what the subscription names."""

import pytest

from gateway.delivery.filters.tags import tag_filter


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
