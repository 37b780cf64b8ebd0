"""Batch queries."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.spark.conftest import Table
from gateway.client import Message, Producer, TransactionProducer, TransactionState

NUMBERS = [b"%d" % number for number in range(50)]


def bodies(frame: Any) -> list[bytes]:
    return sorted((bytes(row.body) for row in frame.select("body").collect()), key=int)


def test_a_topic_is_a_table_with_the_columns_of_the_old_connector_and_more(table: Table) -> None:
    table.fill(NUMBERS, tags="paid", keys=["k", "l"], properties={"colour": "red"})
    frame = table.read()
    assert frame.columns[:9] == [
        *("topic", "flag", "body", "properties", "brokerName"),
        *("queueId", "queueOffset", "bornTimestamp", "storeTimestamp"),
    ]
    rows = frame.orderBy("queueId", "queueOffset").collect()
    assert sorted((bytes(row.body) for row in rows), key=int) == NUMBERS
    [row, *_] = rows
    assert (row.topic, row.tags, row["keys"], row.properties["colour"]) == (table.topic, "paid", ["k", "l"], "red")
    assert (row.flag, row.reconsumeTimes, row.transactionId, len(row.msgId), len(row.offsetMsgId)) == (
        0,
        0,
        None,
        32,
        32,
    )
    assert row.storeHost == table.gateway.broker
    assert row.bornTimestamp <= row.storeTimestamp
    assert frame.where("storeTimestamp > timestamp'2020-01-01' and size(keys) = 2").count() == len(NUMBERS)


def test_a_schema_reads_fewer_columns(table: Table) -> None:
    table.fill(NUMBERS)
    frame = table.read("QUEUEOFFSET long, body binary")
    assert frame.columns == ["QUEUEOFFSET", "body"]
    assert bodies(frame) == NUMBERS
    assert bodies(table.read("body binary", minPartitions=5)) == NUMBERS
    assert table.read("body binary", maxRecordsPerPartition=7).rdd.getNumPartitions() >= 8


def test_a_table_without_rows_has_none(table: Table) -> None:
    assert table.read().count() == 0


def test_only_what_is_committed_is_read(table: Table) -> None:
    class Undecided:
        def check(self, message: Any) -> TransactionState:
            return TransactionState.UNKNOWN

    with TransactionProducer(table.gateway.group(), Undecided(), namesrv=table.gateway.nameserver) as producer:
        for number in range(30):
            with producer.begin(Message(table.topic, b"%d" % number)) as transaction:
                if number % 3 == 0:
                    transaction.commit()
                elif number % 3 == 1:
                    transaction.rollback()
    expected = [b"%d" % number for number in range(0, 30, 3)]
    table.until(lambda: table.count(table.topic) == len(expected))
    rows = table.read().collect()
    assert sorted((bytes(row.body) for row in rows), key=int) == expected
    assert all(row.transactionId == row.msgId for row in rows)


def test_closed_files_have_the_same_rows_as_the_broker(table: Table) -> None:
    class Undecided:
        def check(self, message: Any) -> TransactionState:
            return TransactionState.UNKNOWN

    with TransactionProducer(table.gateway.group(), Undecided(), namesrv=table.gateway.nameserver) as producer:
        for number in range(60):
            with producer.begin(Message(table.topic, random.Random(number).randbytes(120_000))) as transaction:
                if number % 3 == 0:
                    transaction.commit()
                elif number % 3 == 1:
                    transaction.rollback()
    table.until(lambda: table.count(table.topic) == 20)
    store = str(table.gateway.server.data)
    assert len(list((Path(store) / "commitlog").iterdir())) >= 3
    order = ("queueId", "queueOffset")
    expected = table.read().orderBy(*order).collect()
    assert table.read(storePath=store).orderBy(*order).collect() == expected
    assert table.read(storePath=f"file://{store}", minPartitions=5).orderBy(*order).collect() == expected


def test_only_messages_with_a_tag_are_read(table: Table) -> None:
    table.fill(NUMBERS[:10], tags="A")
    table.fill(NUMBERS[10:20], tags="B")
    table.fill(NUMBERS[20:30], tags="C")
    assert bodies(table.read(subExpression="A || C")) == NUMBERS[:10] + NUMBERS[20:30]
    assert bodies(table.read(subExpression="TAGS = 'B'", expressionType="SQL92")) == NUMBERS[10:20]


def test_conditions_narrow_what_is_read_where_spark_hands_them_over(table: Table) -> None:
    table.fill(NUMBERS)
    pushing = "spark.sql.python.filterPushdown.enabled"
    condition = f"queueId = {table.read('queueId int').first().queueId} and queueOffset >= 10"
    expected = bodies(table.read().where(condition))
    assert len(expected) == len(NUMBERS) - 10
    with pytest.raises(Exception, match=pushing):  # off is Spark's default
        bodies(table.read(pushFilters="true").where(condition))
    table.spark.conf.set(pushing, "true")
    try:
        assert bodies(table.read(pushFilters="true").where(condition)) == expected
    finally:
        table.spark.conf.unset(pushing)


def test_large_bodies_arrive_as_they_were_sent(table: Table) -> None:
    large = [bytes([number]) * 200_000 for number in range(3)]
    with Producer(table.gateway.group(), namesrv=table.gateway.nameserver) as producer:
        for body in large:
            producer.send(Message(table.topic, body))  # compressed on its way
    table.until(lambda: table.count(table.topic) == 3)
    rows = table.read("body binary, sysFlag int").collect()
    assert sorted(bytes(row.body) for row in rows) == large
    assert all(row.sysFlag & 1 for row in rows)


@pytest.mark.parametrize(
    ("given", "schema", "text"),
    [
        ({"subscrbe": "x"}, None, "unknown option 'subscrbe'; did you mean 'subscribe'?"),
        ({"subscribe": "no-such-topic"}, None, "no route for topic 'no-such-topic'"),
        ({"subscribe": "RMQ_SYS_TRANS_HALF_TOPIC"}, None, "allowSystemTopics"),
        ({"nameServer": "127.0.0.1:1"}, None, "cannot connect to 127.0.0.1:1"),
        ({}, "body string", "column body has the type binary, not string"),
        ({}, "bdy binary", "no column 'bdy'; did you mean 'body'"),
        ({"startingOffsets": "{"}, None, "startingOffsets: this is not JSON"),
        ({"secretKey": "very-secret"}, None, "accessKey and secretKey belong together"),
    ],
)
def test_what_cannot_work_is_an_error_that_says_why(
    table: Table, given: dict[str, str], schema: str | None, text: str
) -> None:
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        table.read(schema, **given).count()
    assert text in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_no_plan_shows_the_keys_neither_for_people_nor_in_the_web_pages(table: Table) -> None:
    table.fill(NUMBERS)
    frame = table.read(accessKey="shop", secretKey="very-secret", securityToken="very-secret-token")
    assert len(bodies(frame)) == len(NUMBERS)
    assert "very-secret" not in frame._jdf.queryExecution().toString()
    executions = table.spark._jsparkSession.sharedState().statusStore().executionsList()
    pages = "".join(executions.apply(at).physicalPlanDescription() for at in range(executions.size()))
    assert "rocketmq" in pages
    assert "very-secret" not in pages


def test_what_is_read_can_be_written_and_read_again(table: Table) -> None:
    table.fill(NUMBERS, tags="paid", keys=["k", "l"], properties={"colour": "red"})
    copy = table.gateway.topic(queues=3)
    options = {"nameServer": table.gateway.nameserver, "topic": copy}
    frame = table.read().drop("queueId", "brokerName")
    frame.write.format("rocketmq").options(**options).mode("append").save()
    table.until(lambda: table.count(copy) == len(NUMBERS))
    rows = table.read(subscribe=copy).collect()
    assert sorted((bytes(row.body) for row in rows), key=int) == NUMBERS
    assert {(row.tags, tuple(row["keys"]), row.properties["colour"]) for row in rows} == {("paid", ("k", "l"), "red")}
    stamps = {(row.properties["SPARK_PART"], row.properties["SPARK_SEQ"]) for row in rows}
    assert len(stamps) == len(NUMBERS)


@pytest.mark.parametrize(
    ("rows", "given", "mode", "text"),
    [
        ("select 'x' body", {"topic": "t"}, "overwrite", "queues are appended to"),
        ("select 1 body", {"topic": "t"}, "append", "must be binary or string"),
        ("select 'x' bodi", {"topic": "t"}, "append", "did you mean 'body'"),
        ("select 'x' body", {}, "append", "neither the option topic nor a column topic"),
        ("select '' body", {"topic": "t"}, "append", "body is empty"),
        ("select 'x' body", {"topic": "t", "deliveryMode": "exactly-once"}, "append", "at-least-once"),
    ],
)
def test_what_cannot_be_written_is_an_error_that_says_why(
    table: Table, rows: str, given: dict[str, str], mode: str, text: str
) -> None:
    writer = table.spark.sql(rows).write.format("rocketmq").options(nameServer=table.gateway.nameserver, **given)
    with pytest.raises(Exception, match=r".") as caught:
        writer.mode(mode).save()
    assert text in str(caught.value)


def test_workers_load_neither_a_reactor_nor_an_event_loop() -> None:
    """Of our making: what PySpark itself loads is its own. `gateway.spelling` is of the standard library alone."""
    script = (
        "import pyspark.sql.datasource, pyspark.sql.streaming.datasource, sys; before = set(sys.modules);"
        "import gateway.spark.source; new = set(sys.modules) - before;"
        "print([name for name in new if name.split('.')[0] in ('twisted', 'zope', 'asyncio', 'gateway')"
        " and not name.startswith(('gateway.spark', 'gateway.client', 'gateway.spelling')) and name != 'gateway'])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
