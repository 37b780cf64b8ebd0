"""Conditions of a query narrow what is read, and never too much."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not

from gateway.spark.reading.narrowing import narrowing
from gateway.spark.reading.planning import QueueRange
from gateway.tests.spark.messages import STORED_AT_MS
from gateway.tests.spark.pretend_cluster import PretendCluster, queue
from gateway.tests.spark.reading.test_planning import options


def moment(after_ms: float) -> datetime:
    return datetime.fromtimestamp((STORED_AT_MS + after_ms) / 1000, UTC)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ["0 [0, 10)", "1 [0, 5)"]),
        ([EqualTo(("queueId",), 1)], ["1 [0, 5)"]),
        ([In(("QUEUEID",), (0, 7)), EqualTo(("topic",), "orders")], ["0 [0, 10)"]),
        ([EqualTo(("brokerName",), "other")], []),
        ([GreaterThan(("queueOffset",), 3)], ["0 [3, 10)", "1 [3, 5)"]),
        ([GreaterThanOrEqual(("queueOffset",), 3), LessThan(("queueOffset",), 4)], ["0 [3, 5)", "1 [3, 5)"]),
        ([EqualTo(("queueOffset",), 7)], ["0 [7, 8)"]),
        ([GreaterThanOrEqual(("storeTimestamp",), moment(4))], ["0 [4, 10)", "1 [4, 5)"]),
        ([LessThan(("storeTimestamp",), moment(2.5))], ["0 [0, 3)", "1 [0, 3)"]),
        ([Not(EqualTo(("queueId",), 1)), IsNotNull(("queueId",))], ["0 [0, 10)", "1 [0, 5)"]),
        ([GreaterThan(("storeTimestamp",), datetime(2030, 1, 1))], ["0 [0, 10)", "1 [0, 5)"]),
        ([EqualTo(("keys",), ["k"])], ["0 [0, 10)", "1 [0, 5)"]),
        ([EqualTo(("flag",), 1), EqualTo(("a", "b"), 1)], ["0 [0, 10)", "1 [0, 5)"]),
    ],
)
def test_conditions_narrow_ranges(filters: list[Filter], expected: list[str]) -> None:
    cluster = PretendCluster()
    cluster.fill(queue(0), 10)
    cluster.fill(queue(1), 5)
    ranges = [QueueRange(queue(0), 0, 10), QueueRange(queue(1), 0, 5)]
    found = narrowing(filters).ranges(cluster, ranges)
    assert [str(entry).removeprefix("orders/broker-a/") for entry in found] == expected


@pytest.mark.parametrize(
    ("filters", "expression"),
    [
        ([EqualTo(("tags",), "B")], "B"),
        ([In(("tags",), ("B", "A"))], "A || B"),
        ([EqualTo(("tags",), " B")], "*"),
        ([EqualTo(("tags",), "A||B")], "*"),
        ([EqualTo(("tags",), "*")], "*"),
    ],
)
def test_tags_are_left_to_the_broker_where_they_can_travel(filters: list[Filter], expression: str) -> None:
    assert narrowing(filters).options(options()).expression == expression


def test_an_expression_of_the_query_stays() -> None:
    given = options(subExpression="A")
    assert narrowing([EqualTo(("tags",), "B")]).options(given) == given
