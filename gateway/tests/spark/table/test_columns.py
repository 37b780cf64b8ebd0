"""Every column of the table, against the reader of one message."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client.message import ReceivedMessage
from gateway.spark.errors import BodyUnreadable
from gateway.spark.table.columns import ColumnReader
from gateway.spark.table.records import record_starts
from gateway.spark.table.schema import COLUMNS, ON_DEMAND, PROPERTIES_JSON, WantedColumn
from gateway.tests.spark.messages import CLIENT, compressed, damaged, record
from wire.errors import RecordError
from wire.message.flags import SysFlag
from wire.message.message_id import pack_host
from wire.message.record import parse_records

ALL = tuple(WantedColumn(column, column.name) for column in COLUMNS)
V6 = pack_host("2001:db8::1", 5)


def batch(
    buffer: bytes,
    wanted: tuple[WantedColumn, ...] = ALL,
    *,
    fails: bool = True,
    check_bodies: bool = True,
    tags: frozenset[str] = frozenset(),
) -> pa.RecordBatch:
    reader = ColumnReader(
        wanted, topic="orders", broker_name="broker-a", queue_id=0, fails=fails, check_bodies=check_bodies
    )
    found = reader.read(buffer, record_starts(buffer), tags)
    found.validate(full=True)
    return found


def named(*names: str) -> tuple[WantedColumn, ...]:
    on_demand = [WantedColumn(column, column.name) for column in ON_DEMAND]
    return tuple(entry for entry in (*ALL, *on_demand) if entry.name in names)


def expected(message: ReceivedMessage) -> dict[str, object]:
    def moment(ms: int) -> datetime:
        return datetime.fromtimestamp(ms / 1000, UTC)

    return {
        "topic": "orders",
        "flag": message.flag,
        "body": message.body,
        "properties": list(message.properties.items()),
        "brokerName": "broker-a",
        "queueId": message.record.queue_id,
        "queueOffset": message.queue_offset,
        "bornTimestamp": moment(message.born_at_ms),
        "storeTimestamp": moment(message.stored_at_ms),
        "tags": message.tags or None,
        "keys": list(message.keys),
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "sysFlag": message.sys_flag,
        "commitLogOffset": message.commit_log_offset,
        "transactionId": message.transaction_id,
    }


NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "__transactionId__", "colour"])
PROPERTIES = st.dictionaries(
    NAMES,
    st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=6),
    max_size=4,
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=30),
            PROPERTIES,
            st.booleans(),
            st.sampled_from([0, SysFlag.TRANSACTION_COMMIT, SysFlag.COMPRESSED | SysFlag.TRANSACTION_COMMIT]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_row_is_what_the_reader_of_one_message_says(parts: list[tuple[bytes, dict[str, str], bool, int]]) -> None:
    raws = [
        record(
            offset,
            zlib.compress(body) if sys_flag & SysFlag.COMPRESSED else body,
            properties,
            flag=offset,
            sys_flag=sys_flag,
            born_host=V6 if is_v6 else CLIENT,
        )
        for offset, (body, properties, is_v6, sys_flag) in enumerate(parts)
    ]
    rows = batch(b"".join(raws)).to_pylist()
    messages = [ReceivedMessage(stored, "broker-a") for stored in parse_records(b"".join(raws))]
    assert rows == [expected(message) for message in messages]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_column_alone_is_what_it_is_among_all(column: object) -> None:
    buffer = record(3) + compressed(4, b"long" * 50) + record(5, store_host=V6) + record(6, b"", b"")
    [wanted] = [entry for entry in ALL if entry.column is column]
    assert batch(buffer, (wanted,)).column(0).equals(batch(buffer).column(wanted.name))


def test_a_final_message_says_where_its_half_message_lies_when_it_is_asked() -> None:
    assert batch(record(0), named("preparedTransactionOffset")).column(0).to_pylist() == [0]


def test_columns_have_the_names_of_the_query_and_its_order() -> None:
    wanted = (WantedColumn(COLUMNS[6], "QUEUEOFFSET"), WantedColumn(COLUMNS[2], "body"))
    found = batch(record(9), wanted)
    assert (found.schema.names, found.to_pylist()) == (["QUEUEOFFSET", "body"], [{"QUEUEOFFSET": 9, "body": b"body"}])


def test_properties_may_be_json() -> None:
    found = batch(record(0, b"x", {"a": 'quote"', "b": "ü"}), (WantedColumn(PROPERTIES_JSON, "properties"),))
    assert json.loads(found.column(0)[0].as_py()) == {"a": 'quote"', "b": "ü"}


def test_only_wanted_tags_are_left_though_the_broker_compares_hashes() -> None:
    assert hash_twins("Aa") == "BB"
    buffer = record(0, b"1", {"TAGS": "Aa"}) + record(1, b"2", {"TAGS": "BB"}) + record(2, b"3", b"")
    assert batch(buffer, named("queueOffset"), tags=frozenset({"Aa"})).to_pylist() == [{"queueOffset": 0}]


def hash_twins(tag: str) -> str:
    return {"Aa": "BB"}[tag]


def test_a_damaged_body_names_its_place() -> None:
    with pytest.raises(BodyUnreadable, match="orders/broker-a/0, offset 8: the body is damaged: its checksum"):
        batch(record(7) + damaged(8) + damaged(9))


def test_a_damaged_body_is_null_and_says_why_when_that_is_wanted() -> None:
    bad_zlib = record(2, b"no zlib", sys_flag=SysFlag.COMPRESSED)
    rows = batch(record(0) + damaged(1) + bad_zlib, named("body", "bodyError"), fails=False).to_pylist()
    assert [row["body"] for row in rows] == [b"body", None, None]
    assert rows[0]["bodyError"] is None
    assert "checksum" in rows[1]["bodyError"]
    assert "compressed and damaged" in rows[2]["bodyError"]


def test_bodies_nobody_asked_for_are_not_looked_at() -> None:
    assert batch(damaged(1), named("queueOffset")).to_pylist() == [{"queueOffset": 1}]
    assert batch(damaged(1), named("body"), check_bodies=False).num_rows == 1


def test_a_batch_stored_as_one_message_is_refused() -> None:
    with pytest.raises(RecordError, match="BatchCQ"):
        batch(record(4, sys_flag=SysFlag.INNER_BATCH))


def test_point_13_a_time_that_is_none_is_null_and_not_another_one() -> None:
    last = 253_402_300_799_999
    buffer = b"".join(
        record(offset, stored_at_ms=at_ms)
        for offset, at_ms in enumerate((2**63 - 1, 1_700_000_000_005, last, last + 3, -(2**62), 4))
    )
    found = batch(buffer, named("bornTimestamp", "storeTimestamp"))
    born, stored = (found.column(name).cast(pa.int64()).to_pylist() for name in ("bornTimestamp", "storeTimestamp"))
    assert born == [None, 1_700_000_000_000_000, (last - 5) * 1000, (last - 2) * 1000, None, -1000]
    assert stored == [None, 1_700_000_000_005_000, last * 1000, None, None, 4000]
