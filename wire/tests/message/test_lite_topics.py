"""Names of lite topics, as Apache RocketMQ 5.5.0 writes them."""

from __future__ import annotations

import pytest

from wire.message.light_queues import is_light_queue, lite_names, lite_queue


def test_a_lite_topic_is_a_light_queue() -> None:
    assert lite_queue("P1", "a") == "%LMQ%$P1$a"
    assert is_light_queue("%LMQ%$P1$a")
    assert lite_names("%LMQ%$P1$a") == ("P1", "a")
    assert lite_names(lite_queue("P1", "a$b")) == ("P1", "a$b")


@pytest.mark.parametrize("name", ["", "P1", "%LMQ%a", "%LMQ%$", "%LMQ%$P1", "%LMQ%$P1$", "%LMQ%$$a"])
def test_other_names_are_no_lite_topics(name: str) -> None:
    assert lite_names(name) is None
