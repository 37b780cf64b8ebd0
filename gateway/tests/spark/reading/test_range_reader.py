"""A range is read to its last offset, whatever happens."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client.errors import BrokerError, ConnectError, ConnectionLost, RequestTimeout
from gateway.spark.asking.cluster import Cluster
from gateway.spark.errors import BodyUnreadable, DataLoss, SparkSourceError
from gateway.spark.reading import range_reader
from gateway.spark.reading.planning import QueueRange
from gateway.spark.reading.range_reader import RangeReader
from gateway.spark.table.schema import arrow_schema, known_columns, wanted_columns
from gateway.tests.spark.messages import damaged, record
from gateway.tests.spark.pretend_cluster import BROKER, PretendCluster, pull_answer, queue
from gateway.tests.spark.reading.test_planning import options
from wire.codes import ResponseCode
from wire.command import RemotingCommand

LOST = ConnectionLost("10.0.0.7:10911", "reset")
WANTED = wanted_columns([("queueOffset", "bigint"), ("body", "binary")], json_properties=False)


def reader(cluster: PretendCluster, start: int, end: int, **given: Any) -> RangeReader:
    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    pretended: Cluster = cluster  # type: ignore[assignment]
    return RangeReader(
        pretended, options(**given), WANTED, QueueRange(queue(0), start, end), wait=wait, now=lambda: clock[0]
    )


def offsets(cluster: PretendCluster, start: int, end: int, **given: Any) -> list[int]:
    return [
        offset
        for batch in reader(cluster, start, end, **given).batches()
        for offset in batch.column("queueOffset").to_pylist()
    ]


@pytest.fixture
def cluster() -> PretendCluster:
    """A hundred messages in queue 0."""
    found = PretendCluster({queue(0): []})
    found.fill(queue(0), 100)
    return found


def test_a_range_is_read_from_its_first_offset_to_its_last(cluster: PretendCluster) -> None:
    assert offsets(cluster, 10, 90) == list(range(10, 90))


def test_the_next_pull_is_under_way_while_one_is_read(cluster: PretendCluster) -> None:
    rows = reader(cluster, 0, 100)._pulls.answers()
    next(rows)
    assert [(asked.queue_offset, asked.max_msg_nums) for asked in cluster.pulls] == [
        (0, 100),
        (32, 32),
        (64, 32),
        (96, 4),
    ]


def test_rows_that_are_not_wanted_any_more_leave_nothing_behind(
    cluster: PretendCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "CHUNK_RECORDS", 32)
    rows = reader(cluster, 0, 100).batches()
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert cluster.unanswered == 0


def test_batches_are_made_of_several_pulls(cluster: PretendCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "CHUNK_RECORDS", 64)
    assert [batch.num_rows for batch in reader(cluster, 0, 100).batches()] == [64, 36]
    monkeypatch.setattr(range_reader, "CHUNK_BYTES", 1)
    assert [batch.num_rows for batch in reader(cluster, 0, 100).batches()] == [32, 32, 32, 4]


@pytest.mark.parametrize("properties", ["map", "json"])
def test_every_batch_has_the_very_types_that_spark_compares_only_in_the_first(
    cluster: PretendCluster, monkeypatch: pytest.MonkeyPatch, properties: str
) -> None:
    monkeypatch.setattr(range_reader, "CHUNK_RECORDS", 32)
    is_json = properties == "json"
    fields = [(column.name, column.ddl) for column in known_columns(json_properties=is_json).values()]
    wanted = wanted_columns(fields, json_properties=is_json)
    cluster.records[queue(0)][40:] = [record(offset, b"", properties={}, queue_id=0) for offset in range(40, 100)]
    pretended: Cluster = cluster  # type: ignore[assignment]
    given = options(propertiesFormat=properties, mode="permissive")
    found = list(RangeReader(pretended, given, wanted, QueueRange(queue(0), 0, 100)).batches())
    assert len(found) == 4
    assert all(batch.schema.equals(arrow_schema(wanted)) for batch in found)


FAULTS: list[Callable[[], Exception | RemotingCommand]] = [
    lambda: LOST,
    lambda: RequestTimeout("PULL_MESSAGE", "10.0.0.7:10911", 3),
    lambda: RemotingCommand(ResponseCode.SYSTEM_BUSY, flag=1),
    lambda: RemotingCommand(ResponseCode.SERVICE_NOT_AVAILABLE, flag=1),
    lambda: RemotingCommand(ResponseCode.GO_AWAY, flag=1),
    lambda: pull_answer(ResponseCode.PULL_NOT_FOUND, 0, 0, 0),
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | st.sampled_from(range(len(FAULTS))), max_size=12))
def test_failures_in_between_change_nothing(faults: list[int | None]) -> None:
    found = PretendCluster({queue(0): []}, per_pull=8)
    found.fill(queue(0), 50)
    found.faults.extend(None if fault is None else FAULTS[fault]() for fault in faults)
    assert offsets(found, 0, 50) == list(range(50)) if faults.count(5) < 5 else True


def test_a_broker_that_does_not_come_back_is_an_error(cluster: PretendCluster) -> None:
    cluster.faults.extend([LOST] * 1000)
    with pytest.raises(ConnectError):
        offsets(cluster, 0, 100, reconnectTimeoutMs="2000")
    assert cluster.forgotten > 10


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.NO_PERMISSION, "reading is forbidden"),
        (ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: No acl config for shop, a.B(B:1)"),
    ],
)
def test_a_refusal_is_an_error_at_once(cluster: PretendCluster, code: int, remark: str) -> None:
    cluster.faults.append(RemotingCommand(code, flag=1, remark=remark))
    with pytest.raises(BrokerError, match=re.escape(remark)):
        offsets(cluster, 0, 100)
    assert not cluster.forgotten, "it was not tried again"


def test_a_topic_that_is_deleted_while_it_is_read_is_a_loss(cluster: PretendCluster) -> None:
    gone = RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, flag=1, remark="topic[orders] not exist")
    cluster.faults.extend([None, gone])
    with pytest.raises(
        DataLoss, match=r"offsets 32 to 99 cannot be read: the topic is gone .*topic\[orders\] not exist"
    ):
        offsets(cluster, 0, 100)
    cluster.faults.extend([None, gone])
    assert offsets(cluster, 0, 100, failOnDataLoss="false") == list(range(32))


def test_point_12_what_retention_removed_is_a_loss(cluster: PretendCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.expire(queue(0), 40)
    with pytest.raises(DataLoss, match="offsets 10 to 39 cannot be read: the queue begins at 40 now"):
        offsets(cluster, 10, 90)
    with caplog.at_level(logging.WARNING):
        assert offsets(cluster, 10, 90, failOnDataLoss="false") == list(range(40, 90))
    assert [record.getMessage() for record in caplog.records] == [
        "30 offsets of orders/broker-a/0 are skipped: offsets 10 to 39 cannot be read: the queue begins at 40 now"
    ]


def test_a_range_that_retention_removed_whole_is_a_loss(cluster: PretendCluster) -> None:
    cluster.expire(queue(0), 95)
    with pytest.raises(DataLoss, match="offsets 10 to 89"):
        offsets(cluster, 10, 90)
    assert offsets(cluster, 10, 90, failOnDataLoss="false") == []


def test_a_store_that_was_truncated_is_a_loss_and_no_short_success(cluster: PretendCluster) -> None:
    del cluster.records[queue(0)][70:]
    with pytest.raises(DataLoss, match="offsets 70 to 99 cannot be read: the queue ends at 70"):
        offsets(cluster, 0, 100)
    assert offsets(cluster, 0, 100, failOnDataLoss="false") == list(range(70))


def test_a_gap_is_a_loss(cluster: PretendCluster, caplog: pytest.LogCaptureFixture) -> None:
    its = cluster.records[queue(0)]
    body = b"".join(its[:10] + its[12:20] + its[21:32])
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 32, 0, 100, body))
    with pytest.raises(DataLoss, match="offsets 10 to 11 cannot be read: the broker passed over them"):
        offsets(cluster, 0, 100)
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 32, 0, 100, body))
    with caplog.at_level(logging.WARNING):
        assert offsets(cluster, 0, 100, failOnDataLoss="false") == [n for n in range(100) if n not in (10, 11, 20)]
    assert len(caplog.records) == 2


@pytest.mark.parametrize("places", [(0, 1, 1), (1, 0, 2), (0, 2, 1)])
def test_messages_twice_or_out_of_order_are_no_rows(cluster: PretendCluster, places: tuple[int, ...]) -> None:
    its = cluster.records[queue(0)]
    body = b"".join(its[place] for place in places)
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 3, 0, 100, body))
    with pytest.raises(SparkSourceError, match="do not rise"):
        offsets(cluster, 0, 3)


def test_an_answer_that_leads_nowhere_does_not_loop(cluster: PretendCluster) -> None:
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 0, 0, 100, b""))
    with pytest.raises(DataLoss, match="no further offset"):
        offsets(cluster, 0, 100)


def test_filtered_messages_are_no_gap(cluster: PretendCluster) -> None:
    its = cluster.records[queue(0)]
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 50, 0, 100, its[3] + its[40]))
    cluster.faults.append(pull_answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 90, 0, 100))
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 100, 0, 100, its[95]))
    assert offsets(cluster, 0, 100, subExpression="paid") == [3, 40, 95]
    assert [(asked.subscription, asked.expression_type) for asked in cluster.pulls][:1] == [("paid", "TAG")]


def test_the_range_ends_where_it_ends_though_the_broker_gives_more(cluster: PretendCluster) -> None:
    its = cluster.records[queue(0)]
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 32, 0, 100, b"".join(its[:32])))
    assert offsets(cluster, 0, 10) == list(range(10))


def test_a_damaged_body_stops_the_query_or_is_null() -> None:
    found = PretendCluster({queue(0): [record(0), damaged(1), record(2)]})
    with pytest.raises(BodyUnreadable, match="offset 1"):
        offsets(found, 0, 3)
    assert offsets(found, 0, 3, mode="permissive") == [0, 1, 2]


def test_damaged_records_name_their_queue(cluster: PretendCluster) -> None:
    cluster.faults.append(pull_answer(ResponseCode.SUCCESS, 32, 0, 100, b"\0\0\0\x10junk" * 40))
    with pytest.raises(
        SparkSourceError, match="queue orders/broker-a/0, offsets 0 to 99: what the broker sent is damaged"
    ):
        offsets(cluster, 0, 100)


@pytest.mark.parametrize(
    ("stores", "given", "is_checked"),
    [
        ({}, {}, True),
        ({BROKER: "5f0c"}, {}, False),
        ({BROKER: "5f0c"}, {"checkBodies": "true"}, True),
        ({BROKER: "5f0c"}, {"mode": "permissive"}, True),
        ({}, {"checkBodies": "false"}, False),
    ],
)
def test_bodies_are_compared_with_their_checksums_unless_a_gateway_did(
    stores: dict[str, str], given: dict[str, str], is_checked: bool
) -> None:
    cluster = PretendCluster({queue(0): [damaged(0)]})
    cluster.stores = stores
    try:
        [batch] = reader(cluster, 0, 1, **given).batches()
        found = batch.column("body").null_count > 0
    except BodyUnreadable:
        found = True
    assert found is is_checked
