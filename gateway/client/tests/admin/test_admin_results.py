from __future__ import annotations

from gateway.client.admin.admin_results import (
    GroupProgress,
    MessageNotFound,
    NothingConsumed,
    QueueProgress,
    QueueStats,
)
from gateway.client.message import MessageQueue


def test_lag_is_what_is_stored_and_not_consumed() -> None:
    progress = GroupProgress(
        "billing",
        {
            MessageQueue("orders", "a", 0): QueueProgress(10, 4, 0),
            MessageQueue("orders", "a", 1): QueueProgress(10, 12, 0),  # a queue that was deleted and made again
            MessageQueue("%RETRY%billing", "a", 0): QueueProgress(3, 1, 0),
        },
    )
    assert progress.lag == 8
    assert progress.lag_of("orders") == 6


def test_a_queue_holds_what_is_between_its_offsets() -> None:
    assert QueueStats(5, 25, 1).messages == 20


def test_errors_name_what_was_looked_for_and_why_it_may_be_missing() -> None:
    assert str(MessageNotFound("with id X", "it is deleted")) == "no message with id X: it is deleted"
    assert "group 'g' has no offsets in topic 't'" in str(NothingConsumed("g", "t"))
    assert "misspelt" in str(NothingConsumed("g", None))
