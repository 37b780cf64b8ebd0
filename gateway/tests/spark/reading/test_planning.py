"""Queues, bounds and ranges of a query."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client.errors import RouteNotFound
from gateway.client.message_queue import MessageQueue
from gateway.spark.errors import Away, DataLoss, OptionRefused
from gateway.spark.options import ReadOptions, read_options
from gateway.spark.reading.planning import QueueRange, allotted, batch_ranges, is_system_topic, split, subscribed_queues
from gateway.tests.spark.messages import STORED_AT_MS
from gateway.tests.spark.pretend_cluster import BROKER, ChangingCluster, PretendCluster, queue


def options(**given: Any) -> ReadOptions:
    """Options of a batch over orders; what is no text is written as JSON."""
    return _options(given, is_stream=False)


def stream_options(**given: Any) -> ReadOptions:
    """Return the same options for a stream."""
    return _options(given, is_stream=True)


def _options(given: dict[str, Any], *, is_stream: bool) -> ReadOptions:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    if not texts.keys() & {"subscribePattern", "assign"}:
        texts.setdefault("subscribe", "orders")
    return read_options({"nameServer": "a:1", **texts}, is_stream=is_stream)


@pytest.fixture
def cluster() -> PretendCluster:
    """Ten messages in queue 0, none in queue 1, three in another topic."""
    found = PretendCluster({queue(0): [], queue(1): [], queue(0, "paid"): []})
    found.fill(queue(0), 10)
    found.fill(queue(0, "paid"), 3)
    return found


def test_a_batch_is_all_there_is(cluster: PretendCluster) -> None:
    assert batch_ranges(cluster, options()) == [QueueRange(queue(0), 0, 10)]
    assert batch_ranges(cluster, options(subscribe="orders,paid")) == [
        QueueRange(queue(0), 0, 10),
        QueueRange(queue(0, "paid"), 0, 3),
    ]


def test_a_batch_reads_one_store() -> None:
    cluster = ChangingCluster({queue(0): []})
    cluster.empty(queue(0), "one", 10)
    cluster.after("ends", lambda: cluster.empty(queue(0), "two", 3))
    assert batch_ranges(cluster, options()) == [QueueRange(queue(0), 0, 3, "two")]


def test_a_batch_over_given_offsets_asks_brokers_before_it_believes_what_it_remembers_of_their_stores() -> None:
    class Remembering(PretendCluster):
        """A client that remembers the store of a broker that was emptied since, until it asks that broker."""

        def _asked(self) -> None:
            self.stores[BROKER] = "two"

    cluster = Remembering({queue(0): []})
    cluster.fill(queue(0), 10)
    cluster.stores[BROKER] = "one"
    start, end = ({"orders": {BROKER: {"0": offset}}} for offset in (2, 7))
    found = batch_ranges(cluster, options(startingOffsets=start, endingOffsets=end))
    assert found == [QueueRange(queue(0), 2, 7, "two")]


def test_a_batch_begins_where_retention_has_come_to(cluster: PretendCluster) -> None:
    cluster.expire(queue(0), 4)
    assert batch_ranges(cluster, options()) == [QueueRange(queue(0), 4, 10)]


def test_a_batch_goes_from_offset_to_offset(cluster: PretendCluster) -> None:
    start, end = {"orders": {BROKER: {"0": 2, "1": -2}}}, {"orders": {BROKER: {"0": 7, "1": -1}}}
    assert batch_ranges(cluster, options(startingOffsets=start, endingOffsets=end)) == [QueueRange(queue(0), 2, 7)]


def test_a_batch_goes_from_time_to_time(cluster: PretendCluster) -> None:
    found = batch_ranges(
        cluster,
        options(
            assign={"orders": {BROKER: [0]}},
            startingTimestamp=str(STORED_AT_MS + 3),
            endingTimestamp=str(STORED_AT_MS + 5),
        ),
    )
    assert found == [QueueRange(queue(0), 3, 5)]


@pytest.mark.parametrize(
    "given",
    [
        {"startingTimestamp": "9", "endingTimestamp": "8"},
        {"startingTimestamp": "9", "endingOffsetsByTimestamp": {"orders": {BROKER: {"0": 8, "1": 10}}}},
    ],
)
def test_a_time_to_end_before_the_time_to_begin_is_refused(cluster: PretendCluster, given: dict[str, Any]) -> None:
    with pytest.raises(
        OptionRefused, match=r"orders/broker-a/0: the ending time 8 \(ms\) is before the starting time 9"
    ):
        batch_ranges(cluster, options(**given))


def test_a_store_path_for_brokers_that_are_not_read_is_refused(cluster: PretendCluster) -> None:
    with pytest.raises(OptionRefused, match="storePath names the brokers broker-b; the queues are at broker-a"):
        batch_ranges(cluster, options(storePath={"broker-b": "/data"}))


def test_a_start_after_everything_is_an_error_unless_it_may_be_the_end(cluster: PretendCluster) -> None:
    late = {"startingTimestamp": str(STORED_AT_MS + 99), "assign": {"orders": {BROKER: [0]}}}
    with pytest.raises(OptionRefused, match="nothing was stored in orders/broker-a/0 at the starting time"):
        batch_ranges(cluster, options(**late))
    assert batch_ranges(cluster, options(**late, startingOffsetsByTimestampStrategy="latest")) == []


@pytest.mark.parametrize("which", ["startingOffsets", "endingOffsets"])
def test_offsets_of_queues_that_are_not_there_are_refused(cluster: PretendCluster, which: str) -> None:
    with pytest.raises(
        OptionRefused, match=f"{which} names orders/broker-a/7: there is no such queue; there are orders/"
    ):
        batch_ranges(
            cluster, options(**{which: {"orders": {BROKER: {"0": 1, "1": -1 if which[0] == "e" else -2, "7": 1}}}})
        )


def test_offsets_must_name_every_queue(cluster: PretendCluster) -> None:
    with pytest.raises(OptionRefused, match="does not say where orders/broker-a/1 begins"):
        batch_ranges(cluster, options(startingOffsets={"orders": {BROKER: {"0": 1}}}))


def test_an_end_before_its_start_is_refused(cluster: PretendCluster) -> None:
    start, end = {"orders": {BROKER: {"0": 5, "1": 0}}}, {"orders": {BROKER: {"0": 4, "1": 0}}}
    with pytest.raises(OptionRefused, match="orders/broker-a/0: the end 4 is before the start 5"):
        batch_ranges(cluster, options(startingOffsets=start, endingOffsets=end))


def test_offsets_that_brokers_do_not_have_are_a_loss(cluster: PretendCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.expire(queue(0), 4)
    both = {
        "startingOffsets": {"orders": {BROKER: {"0": 1, "1": 0}}},
        "endingOffsets": {"orders": {BROKER: {"0": 12, "1": 0}}},
    }
    with pytest.raises(DataLoss, match="offsets 1 to 3 cannot be read: the queue begins at 4"):
        batch_ranges(cluster, options(**both))
    with caplog.at_level(logging.WARNING):
        assert batch_ranges(cluster, options(**both, failOnDataLoss="false")) == [QueueRange(queue(0), 4, 10)]
    assert [record.getMessage().split(" of ")[0] for record in caplog.records] == ["3 offsets", "2 offsets"]


def test_a_topic_that_is_not_there_is_an_error_with_a_hint(cluster: PretendCluster) -> None:
    with pytest.raises(RouteNotFound, match="did you mean 'orders'"):
        batch_ranges(cluster, options(subscribe="order"))


def test_assigned_queues_must_be_there(cluster: PretendCluster) -> None:
    assert subscribed_queues(cluster, options(assign={"orders": {BROKER: [1]}})) == (queue(1),)
    with pytest.raises(OptionRefused, match="assign names orders/broker-a/9"):
        subscribed_queues(cluster, options(assign={"orders": {BROKER: [1, 9]}}))


def test_half_messages_are_not_read_by_accident(cluster: PretendCluster) -> None:
    half = queue(0, "RMQ_SYS_TRANS_HALF_TOPIC")
    cluster.fill(half, 1)
    with pytest.raises(OptionRefused, match="allowSystemTopics"):
        subscribed_queues(cluster, options(subscribe="RMQ_SYS_TRANS_HALF_TOPIC"))
    assert subscribed_queues(cluster, options(subscribe=half.topic, allowSystemTopics="true")) == (half,)
    assert half not in subscribed_queues(cluster, options(subscribePattern=".*"))
    assert is_system_topic("rmq_sys_wheel_timer")


def test_a_pattern_matches_whole_names_and_leaves_retries_alone(cluster: PretendCluster) -> None:
    for topic in ("%RETRY%g", "%DLQ%g", "orders-2"):
        cluster.fill(queue(0, topic), 1)
    assert {name.topic for name in subscribed_queues(cluster, options(subscribePattern="orders"))} == {"orders"}
    assert {name.topic for name in subscribed_queues(cluster, options(subscribePattern=".*"))} == {
        "orders",
        "orders-2",
        "paid",
    }
    assert {name.topic for name in subscribed_queues(cluster, options(subscribePattern="%DLQ%.*"))} == {"%DLQ%g"}
    assert subscribed_queues(cluster, options(subscribePattern="none")) == ()


def test_point_13_a_broker_that_must_be_there_and_is_away_is_an_error(cluster: PretendCluster) -> None:
    cluster.fill(queue(0, broker_name="broker-b"), 2)
    both = options(requireBrokers="broker-a, broker-b")
    assert [entry.queue.broker_name for entry in batch_ranges(cluster, both)] == [BROKER, "broker-b"]
    del cluster.records[queue(0, broker_name="broker-b")]
    with pytest.raises(Away, match=r"broker broker-b is away: it is down, .* and requireBrokers names it"):
        batch_ranges(cluster, both)


def warnings_of(cluster: PretendCluster, caplog: pytest.LogCaptureFixture, **given: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        batch_ranges(cluster, options(**given))
    return [record.getMessage() for record in caplog.records]


def test_point_13_a_batch_that_would_not_notice_a_forgotten_broker_names_the_brokers_that_it_reads(
    cluster: PretendCluster, caplog: pytest.LogCaptureFixture
) -> None:
    gone = queue(0, broker_name="broker-b")
    cluster.fill(gone, 2)
    [warning] = warnings_of(cluster, caplog)
    assert "reads the queues of broker-a,broker-b." in warning
    assert "requireBrokers=broker-a,broker-b to make that an error" in warning
    cluster.hidden.add(gone)
    [warning] = warnings_of(cluster, caplog)
    assert "reads the queues of broker-a." in warning
    [warning] = warnings_of(cluster, caplog, subscribePattern="none")
    assert "reads the queues of no broker." in warning


@pytest.mark.parametrize(
    "given",
    [
        {"requireBrokers": "broker-a,broker-b"},
        {"assign": {"orders": {BROKER: [0], "broker-b": [0]}}},
        *(
            {option: {"orders": {BROKER: {"0": number, "1": number}, "broker-b": {"0": number}}}}
            for option, number in [("startingOffsets", -2), ("endingOffsets", -1)]
        ),
        {"startingOffsetsByTimestamp": {"orders": {BROKER: {"0": 1, "1": 1}, "broker-b": {"0": 1}}}},
        {"endingOffsetsByTimestamp": {"orders": {BROKER: {"0": 2**62, "1": 2**62}, "broker-b": {"0": 2**62}}}},
    ],
)
def test_a_batch_that_names_its_brokers_fails_without_one_and_needs_no_warning(
    cluster: PretendCluster, caplog: pytest.LogCaptureFixture, given: dict[str, Any]
) -> None:
    given = {"startingOffsetsByTimestampStrategy": "latest", **given}
    gone = queue(0, broker_name="broker-b")
    cluster.fill(gone, 2)
    assert warnings_of(cluster, caplog, **given) == []
    cluster.hidden.add(gone)
    with pytest.raises((Away, OptionRefused), match="broker-b"):
        batch_ranges(cluster, options(**given))


def test_a_batch_of_whichever_brokers_there_are_needs_no_warning(
    cluster: PretendCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(cluster, caplog, requireBrokers="*") == []


def test_point_13_a_topic_of_a_pattern_whose_brokers_are_away_is_an_error_and_no_short_read(
    cluster: PretendCluster,
) -> None:
    cluster.other_topics = ("orders-2",)
    with pytest.raises(RouteNotFound, match="orders-2"):
        batch_ranges(cluster, options(subscribePattern="orders.*"))


def test_a_task_is_told_which_store_it_is_to_read(cluster: PretendCluster) -> None:
    cluster.stores[BROKER] = "one"
    ranges = batch_ranges(cluster, options())
    assert [piece.store for piece in split(ranges, min_partitions=3)] == ["one"] * 3


def test_two_hundred_queues_take_a_handful_of_questions(cluster: PretendCluster) -> None:
    for number in range(200):
        cluster.fill(queue(number), 1)
    cluster.questions = 0
    assert len(batch_ranges(cluster, options())) == 200
    assert cluster.questions == 2


RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 5000)), min_size=1, max_size=6).map(
    lambda parts: [QueueRange(MessageQueue("t", "b", i), start, start + size) for i, (start, size) in enumerate(parts)]
)


@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(1, 6000))
def test_pieces_cover_each_range_once_and_in_order(
    ranges: list[QueueRange], min_partitions: int | None, max_records: int | None
) -> None:
    pieces = split(ranges, min_partitions=min_partitions, max_records=max_records)
    for entry in ranges:
        its = [piece for piece in pieces if piece.queue == entry.queue]
        assert [its[0].start, *(piece.end for piece in its)] == [*(piece.start for piece in its), entry.end]
        assert all(piece.end > piece.start for piece in its)
        if max_records is not None:
            assert all(piece.end - piece.start <= max_records for piece in its)


def test_long_ranges_make_more_pieces() -> None:
    ranges = [QueueRange(queue(0), 0, 900), QueueRange(queue(1), 0, 100)]
    assert [str(piece) for piece in split(ranges, min_partitions=4)] == [
        "orders/broker-a/0 [0, 225)",
        "orders/broker-a/0 [225, 450)",
        "orders/broker-a/0 [450, 675)",
        "orders/broker-a/0 [675, 900)",
        "orders/broker-a/1 [0, 100)",
    ]


@given(st.dictionaries(st.builds(queue, st.integers(0, 9)), st.integers(0, 10_000)), st.integers(1, 5000))
def test_a_budget_is_shared_by_backlog_and_starves_nobody(backlog: dict[MessageQueue, int], budget: int) -> None:
    taken = allotted(backlog, budget)
    waiting = {name for name, count in backlog.items() if count}
    assert taken.keys() == waiting
    assert all(1 <= count <= backlog[name] for name, count in taken.items())
    assert sum(taken.values()) <= max(budget, len(waiting)) + len(waiting)
