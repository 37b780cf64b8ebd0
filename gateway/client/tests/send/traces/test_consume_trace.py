"""The trace of messages that a listener gets; thread safety is a lock, and not tested."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from gateway.client.formats.trace import TraceRecord
from gateway.client.formats.unique_ids import UniqueIds
from gateway.client.message import ReceivedMessage
from gateway.client.retry_later import CONSUMED, ListenerOutcome, RetryLater
from gateway.client.send.consume_trace import ConsumeTrace
from gateway.client.tests.test_message import received


class Told:
    """A trace whose clock stands, and what it told."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.records: list[TraceRecord] = []
        ids = UniqueIds("10.0.0.1", 1, clock=lambda: self.now_ms, random=Random(1))
        self.trace = ConsumeTrace(self.records.append, "g", ids=ids, clock=lambda: self.now_ms, timeout=60.0)

    def consume(
        self, messages: Sequence[ReceivedMessage], outcome: ListenerOutcome, took_ms: int = 10
    ) -> list[list[str]]:
        hand_over = self.trace.begin(messages)
        self.now_ms += took_ms
        self.trace.end(hand_over, outcome)
        return [record.text().rstrip("\x02").split("\x01") for record in self.records]


def test_each_message_is_told_of_before_and_after() -> None:
    told = Told()
    messages = [received(UNIQ_KEY="A", KEYS="k1 k2", MSG_REGION="R", TRACE_ON="true"), received(UNIQ_KEY="B")]
    first, second, *after = told.consume(messages, CONSUMED)
    request_id = first[4]
    assert first == ["SubBefore", "1700000000000", "R", "g", request_id, "A", "1", "k1 k2"]
    assert second == ["SubBefore", "1700000000000", "DefaultRegion", "g", request_id, "B", "1", ""]
    assert after == [
        ["SubAfter", request_id, "A", "5", "true", "k1 k2", "0", "1700000000010", "g"],
        ["SubAfter", request_id, "B", "5", "true", "", "0", "1700000000010", "g"],
    ]
    assert told.records[0].keys == ("A", "k1", "k2")
    assert len(request_id) == 32


@pytest.mark.parametrize(
    ("error", "took_ms", "code"),
    [(RetryLater(), 10, "4"), (ValueError("no"), 10, "2"), (ValueError("no"), 60_000, "1")],
)
def test_a_failure_says_of_which_kind_it_is(error: Exception, took_ms: int, code: str) -> None:
    good, bad = received(UNIQ_KEY="A"), received(UNIQ_KEY="B")
    *_, of_good, of_bad = Told().consume([good, bad], ListenerOutcome([bad], 0, error), took_ms)
    assert of_bad[4:7] == ["false", "", code]
    assert of_good[4] == "true"


def test_messages_of_a_broker_that_wants_no_traces_are_left_out() -> None:
    assert Told().consume([received(TRACE_ON="false")], CONSUMED) == []
