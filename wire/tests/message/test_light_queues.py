"""Light queues in a message's properties."""

from __future__ import annotations

import pytest

from wire.message.light_queues import is_light_queue, light_places, wanted_queues


@pytest.mark.parametrize("name", ["%LMQ%a", "%LMQ%$parent$lite-1", "%LMQ%" + "x" * 250])
def test_light_queues_are_known_by_their_names(name: str) -> None:
    assert is_light_queue(name)


@pytest.mark.parametrize("name", ["", "a", "%LMQ%", "%lmq%a", "%LMQ%a/../b", "%LMQ%a b", "%LMQ%" + "x" * 251])
def test_other_names_are_not(name: str) -> None:
    assert not is_light_queue(name)


def test_a_stored_message_tells_where_it_is() -> None:
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,other,%LMQ%b,%LMQ%c", "INNER_MULTI_QUEUE_OFFSET": "3,,5,x"}
    assert wanted_queues(properties) == ["%LMQ%a", "other", "%LMQ%b", "%LMQ%c"]
    assert light_places("orders", properties) == [("%LMQ%a", 3), ("%LMQ%b", 5)]
    for topic in ("%RETRY%g", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"):
        assert light_places(topic, properties) == []  # the properties are copied there


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"INNER_MULTI_QUEUE_OFFSET": "3"},
        {"INNER_MULTI_DISPATCH": "%LMQ%a"},
        {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "3"},
    ],
)
def test_halves_of_it_tell_nothing(properties: dict[str, str]) -> None:
    assert light_places("orders", properties) == []
