"""Tests of what a member changes when the group or the topic changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.client.allocation import Averagely
from gateway.client.consume.sharing.rebalance import QueueChanges, changes, share_of
from gateway.client.errors import ConfigurationError
from gateway.client.message import MessageQueue

QUEUES = [MessageQueue("t", "a", number) for number in range(4)]


def test_queues_and_members_are_sorted_before_they_are_shared() -> None:
    assert share_of(Averagely(), "g", "b", QUEUES[::-1], ["c", "b", "a"]) == (QUEUES[2],)


def test_a_client_that_is_not_listed_and_a_topic_without_queues_share_nothing() -> None:
    assert share_of(Averagely(), "g", "z", QUEUES, ["a"]) == ()
    assert share_of(Averagely(), "g", "a", [], ["a"]) == ()


def test_a_strategy_that_invents_queues_is_an_error() -> None:
    class Inventive:
        name = "INVENTIVE"

        def __call__(
            self, _group: str, _client: str, _queues: Sequence[MessageQueue], _clients: Sequence[str], /
        ) -> list[MessageQueue]:
            return [MessageQueue("t", "elsewhere", 0)]

    with pytest.raises(ConfigurationError, match="INVENTIVE"):
        share_of(Inventive(), "g", "a", QUEUES, ["a"])


def test_the_difference_says_what_to_give_up_and_what_to_take() -> None:
    plan = changes(QUEUES[:2], QUEUES[1:3])
    assert plan == QueueChanges((QUEUES[0],), (QUEUES[2],))
    assert plan
    assert not changes(QUEUES, QUEUES)
