"""Rows as messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from gateway.client.errors import MessageRefused
from gateway.client.message import Message
from gateway.spark.errors import SchemaRefused
from gateway.spark.table.schema import COLUMNS, TEXTS, WORDS
from gateway.spark.writing.rows import PlainRows, RowReader, RowToSend

BODY = ("body", "binary")
NOT_UTF8 = pa.StringArray.from_buffers(2, *pa.array([b"a", b"\xff"]).buffers()[1:])
"""As Spark has it after ``cast(body as string)``."""


def rows(fields: list[tuple[str, str]], arrays: list[pa.Array], topic: str | None = "orders") -> list[RowToSend]:
    batch = pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])
    return list(RowReader(fields, topic).rows(batch))


def test_a_body_alone_is_a_message() -> None:
    assert rows([BODY], [pa.array([b"a", b"b"])]) == [RowToSend(Message("orders", body)) for body in (b"a", b"b")]
    assert rows([("body", "string")], [pa.array(["ü"])])[0].message.body == "ü".encode()


def test_a_body_that_is_a_text_need_not_be_utf8() -> None:
    assert [row.message.body for row in rows([("body", "string")], [NOT_UTF8])] == [b"a", b"\xff"]


def test_every_column_has_its_place() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    fields = [BODY, ("TOPIC", "string"), ("tags", "string"), ("keys", "array<string>"), ("flag", "int")]
    fields += [("properties", "map<string,string>"), ("shardingKey", "string"), ("deliverAt", "timestamp")]
    [row] = rows(
        fields,
        [
            pa.array([b"x"]),
            pa.array(["paid"]),
            pa.array(["A"]),
            pa.array([["k", "l"]]),
            pa.array([7], pa.int32()),
            pa.array([[("a", "b"), ("UNIQ_KEY", "old"), ("empty", "")]], TEXTS),
            pa.array(["s"]),
            pa.array([at]),
        ],
        topic=None,
    )
    assert row.message == Message(
        "paid", b"x", tags="A", keys=("k", "l"), flag=7, properties={"a": "b"}, sharding_key="s", deliver_at=at
    )


def test_a_queue_is_chosen_by_number_and_broker() -> None:
    fields = [BODY, ("queueId", "int"), ("brokerName", "string"), ("delayLevel", "int")]
    arrays = [pa.array([b"x"]), pa.array([2], pa.int32()), pa.array(["broker-a"]), pa.array([3], pa.int32())]
    assert rows(fields, arrays) == [RowToSend(Message("orders", b"x", delay_level=3), 2, "broker-a")]
    assert rows(fields[:1] + fields[2:3], arrays[:1] + arrays[2:3]) == [RowToSend(Message("orders", b"x"))]


def test_the_option_wins_over_the_column() -> None:
    assert rows([BODY, ("topic", "string")], [pa.array([b"x"]), pa.array(["paid"])])[0].message.topic == "orders"


def test_keys_may_be_a_text_and_tags_and_keys_may_be_in_the_properties() -> None:
    assert rows([BODY, ("keys", "string")], [pa.array([b"x"]), pa.array(["k l"])])[0].message.keys == ("k", "l")
    properties = pa.array([[("TAGS", "A"), ("KEYS", "k l")]], TEXTS)
    [row] = rows([BODY, ("properties", "map<string,string>")], [pa.array([b"x"]), properties])
    assert (row.message.tags, row.message.keys) == ("A", ("k", "l"))


def test_what_was_read_can_be_written() -> None:
    RowReader([(column.name, column.ddl) for column in COLUMNS], None)
    RowReader([(column.name.upper(), column.ddl) for column in COLUMNS], None)


@pytest.mark.parametrize(
    ("fields", "topic", "text"),
    [
        ([("bdy", "binary")], "t", "column 'bdy' cannot be written; did you mean 'body'"),
        ([("body", "int")], "t", "column body has the type int; it must be binary or string"),
        ([("tags", "string")], "t", "no column body"),
        ([BODY], None, "neither the option topic nor a column topic"),
        ([BODY, ("queueId", "int"), ("shardingKey", "string")], "t", "contradict each other"),
        ([BODY, ("delayLevel", "int"), ("deliverAt", "timestamp")], "t", "contradict each other"),
    ],
)
def test_rows_that_are_no_messages_are_refused_before_anything_is_sent(
    fields: list[tuple[str, str]], topic: str | None, text: str
) -> None:
    with pytest.raises(SchemaRefused) as caught:
        RowReader(fields, topic)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "arrays", "text"),
    [
        ([BODY], [pa.array([b"x", None])], "body is null (row 1 of a batch of 2)"),
        ([BODY], [pa.array([b""])], "body is empty"),
        ([BODY, ("topic", "string")], [pa.array([b"x"]), pa.array([None], pa.string())], "topic is null"),
        ([BODY, ("topic", "string")], [pa.array([b"x"]), pa.array(["a b"])], "may contain letters"),
        ([BODY, ("topic", "string")], [pa.array([b"x", b"y"]), NOT_UTF8], "topic has bytes that are not UTF-8 (row 1"),
    ],
)
def test_a_row_that_is_no_message_is_named(fields: list[tuple[str, str]], arrays: list[pa.Array], text: str) -> None:
    with pytest.raises(MessageRefused) as caught:
        rows(fields, arrays, topic=None if len(fields) > 1 else "orders")
    assert text in str(caught.value)


def plain(fields: list[tuple[str, str]], arrays: list[pa.Array], topic: str | None = "orders") -> PlainRows | None:
    batch = pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])
    return RowReader(fields, topic).plain(batch)


def test_bodies_and_usual_tags_and_keys_are_plain() -> None:
    tagged = plain([("body", "string"), ("tags", "string")], [pa.array(["ü", "b"]), pa.array(["new-1", None])])
    assert tagged == PlainRows("orders", pa.array(["ü".encode(), b"b"]), pa.array(["new-1", ""]))
    assert plain([BODY], [pa.array([b"a"])]) == PlainRows("orders", pa.array([b"a"]))
    body = pa.array([b"a", b"b", b"c"])
    for keys in (pa.array([["k", "l"], None, []], WORDS), pa.array([["k", "l"], None, []], pa.large_list(pa.string()))):
        found = plain([BODY, ("keys", "array<string>")], [body, keys])
        assert found == PlainRows("orders", body, keys=pa.array(["k l", "", ""]))
    found = plain([BODY, ("keys", "string")], [body, pa.array(["k", None, ""], pa.large_string())])
    assert found == PlainRows("orders", body, keys=pa.array(["k", "", ""]))


@pytest.mark.parametrize(
    ("fields", "arrays", "topic"),
    [
        ([BODY], [pa.array([b"a", None])], "orders"),
        ([BODY], [pa.array([b"a", b""])], "orders"),
        ([BODY], [pa.array([], pa.binary())], "orders"),
        ([BODY, ("topic", "string")], [pa.array([b"a"]), pa.array(["t"])], None),
        ([BODY, ("queueId", "int")], [pa.array([b"a"]), pa.array([1])], "orders"),
        ([BODY, ("tags", "string")], [pa.array([b"a"]), pa.array(["a\x01b"])], "orders"),
        ([BODY, ("tags", "string")], [pa.array([b"a"]), pa.array(["a\n"])], "orders"),
        ([BODY, ("tags", "string")], [pa.array([b"a"]), pa.array(["x" * 5000])], "orders"),
        ([BODY, ("keys", "string")], [pa.array([b"a"]), pa.array(["a b"])], "orders"),
        ([BODY, ("keys", "array<string>")], [pa.array([b"a"]), pa.array([["a", ""]], WORDS)], "orders"),
        ([BODY, ("keys", "array<string>")], [pa.array([b"a"]), pa.array([["a", None]], WORDS)], "orders"),
        ([BODY, ("keys", "array<string>")], [pa.array([b"a"]), pa.array([["ü"]], WORDS)], "orders"),
    ],
)
def test_other_rows_are_looked_at_one_by_one(
    fields: list[tuple[str, str]], arrays: list[pa.Array], topic: str | None
) -> None:
    assert plain(fields, arrays, topic) is None


def test_plain_rows_need_a_topic_that_is_allowed() -> None:
    with pytest.raises(MessageRefused, match="topic"):
        plain([BODY], [pa.array([b"a"])], "no topic!")


@pytest.mark.parametrize("micros", [2**62, 253_402_300_800_000_000, -62_135_596_800_000_001])
def test_point_13_a_time_that_is_none_is_refused_and_its_row_named(micros: int) -> None:
    times = pa.array([1_700_000_000_000_000, micros]).view(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_arrays([pa.array(["x", "y"]), times], names=["body", "deliverAt"])
    reader = RowReader([("body", "string"), ("deliverAt", "timestamp")], "orders")
    with pytest.raises(MessageRefused, match=r"deliverAt is before the year 1 or after 9999 \(row 1 of a batch of 2\)"):
        list(reader.rows(rows))
