"""The pipelines on a gateway: archive, transactions, replay."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compat_tests.environment import wait_until
from compat_tests.spark.conftest import Table
from gateway.cli.broker_call import BrokerCall
from gateway.client import Message, TransactionProducer, TransactionState
from gateway.settings.addresses import parse_address
from gateway.spark.pipelines.archive import ArchiveOptions, start_archive
from gateway.spark.pipelines.replay import ReplayOptions, replay
from gateway.spark.pipelines.report import figures, page
from gateway.spark.pipelines.transactions import TransactionOptions, lives, write_table
from wire.bodies.tools.transactions import ListedTransaction
from wire.codes import RequestCode
from wire.headers.transaction import CheckTransactionRequest, ShowTransactionRequest

TODAY = datetime.now(UTC).date()


def archived(table: Table, path: Path, **given: Any) -> Any:
    """Archive what there is, and read the archive."""
    source = {"nameServer": table.gateway.nameserver, "subscribe": table.topic}
    table.ended(start_archive(table.spark, ArchiveOptions(source=source, path=str(path), **given)))
    return table.spark.read.parquet(str(path))


def test_an_archive_has_each_message_once_over_runs_and_few_files(table: Table) -> None:
    good = [b'{"id": %d, "total": 1.5}' % number for number in range(20)]
    path = table.folder / "archive"
    given: dict[str, Any] = {"body_format": "json", "schema": "id bigint, total double", "keep_body": True}
    table.fill([*good, b'{"id": "seven"}', b"no JSON"])
    assert archived(table, path, **given).count() == 22
    table.fill(good)
    rows = archived(table, path, **given).collect()
    assert sorted(row.value.id for row in rows if row.value is not None) == sorted([*range(20), *range(20)])
    assert {bytes(row.unreadBody) for row in rows if row.unreadBody is not None} == {b'{"id": "seven"}', b"no JSON"}
    assert {row.topic for row in rows} == {table.topic}
    assert {row.eventDate for row in rows} == {row.storeTimestamp.date() for row in rows}
    files = list(path.glob(f"eventDate=*/topic={table.topic}/*.parquet"))
    assert 2 <= len(files) <= 4  # one a run; two at midnight


@pytest.mark.parametrize("is_planned", [False, True])
def test_an_archive_begins_where_a_driver_was_killed_while_it_noted_the_first_batch(
    table: Table, is_planned: bool
) -> None:
    path = table.folder / "archive"
    offsets = path / "_checkpoint" / "offsets"
    table.fill([b"a", b"b"])
    if is_planned:
        assert archived(table, path).count() == 2
    offsets.mkdir(parents=True, exist_ok=True)
    for name in (".0.5c2ba5a1.tmp", "..0.5c2ba5a1.tmp.crc"):
        (offsets / name).write_bytes(b"v1")
    assert archived(table, path).count() == 2
    assert (offsets / ".0.5c2ba5a1.tmp").exists() is is_planned


def test_bodies_in_csv_become_values_and_what_is_none_keeps_its_bytes(table: Table) -> None:
    table.fill([b"7,1.5", b"8,2.5", b"nine,1"])
    rows = archived(table, table.folder / "archive", body_format="csv", schema="id bigint, total double").collect()
    assert sorted((row.value.id, row.value.total) for row in rows if row.value is not None) == [(7, 1.5), (8, 2.5)]
    assert [bytes(row.unreadBody) for row in rows if row.unreadBody is not None] == [b"nine,1"]


def test_bodies_in_avro_become_values_and_one_that_is_none_may_fail_the_query(table: Table) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "to", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    table.fill([b"\x0e\x06ada", b"\x10\x08bell", b"\x10\x08bel"])
    given = {"body_format": "avro", "schema": schema}
    rows = archived(table, table.folder / "archive", **given).collect()
    values = [(row.value.id, row.value.to) for row in rows if row.value is not None]
    assert sorted(values) == [(7, "ada"), (8, "bell")]
    assert [bytes(row.unreadBody) for row in rows if row.unreadBody is not None] == [b"\x10\x08bel"]
    with pytest.raises(Exception, match=f"a body is not avro of the schema: topic {table.topic} "):
        archived(table, table.folder / "strict", fails_on_unread=True, **given)


def test_what_was_archived_is_sent_again(table: Table) -> None:
    table.fill([b"%d" % number for number in range(40)], tags="paid", keys=["k"], properties={"colour": "red"})
    path = table.folder / "archive"
    rows = archived(table, path).collect()
    copy = table.gateway.topic(queues=2)
    sink = {"nameServer": table.gateway.nameserver, "topic": copy}
    begin = datetime.now(UTC) - timedelta(hours=1)
    given: dict[str, Any] = {"path": str(path), "sink": sink, "begin": begin, "from_topic": table.topic}
    assert replay(table.spark, ReplayOptions(**given, end=begin + timedelta(minutes=1))) == 0
    assert replay(table.spark, ReplayOptions(**given, keep_queues=True)) == 40
    table.until(lambda: table.count(copy) == 40)
    again = table.read(subscribe=copy).orderBy("queueId", "queueOffset").collect()
    before = sorted(rows, key=lambda row: (row.queueId, row.queueOffset))
    assert [(row.queueId, bytes(row.body)) for row in again] == [(row.queueId, bytes(row.body)) for row in before]
    assert {(row.tags, tuple(row["keys"]), row.properties["colour"]) for row in again} == {("paid", ("k",), "red")}


def ask_now(broker: str, msg_id: str) -> None:
    """Let a producer be asked about a half message, and wait until the broker has counted that."""
    with BrokerCall(parse_address(broker)) as call:
        call.ask(RequestCode.GATEWAY_CHECK_TRANSACTION, CheckTransactionRequest(id=msg_id, operator="test"))
        show = ShowTransactionRequest(id=msg_id)
        wait_until(
            lambda: ListedTransaction.parse(call.ask(RequestCode.GATEWAY_SHOW_TRANSACTION, show)).checks == 1,
            "it is counted",
        )


def test_every_transaction_is_a_row_with_its_outcome_and_the_report_counts_them(table: Table) -> None:
    class Undecided:
        def check(self, message: Any) -> TransactionState:
            return TransactionState.UNKNOWN

    expected: dict[str, str] = {}
    group = table.gateway.group()
    with TransactionProducer(group, Undecided(), namesrv=table.gateway.nameserver) as producer:
        for number in range(30):
            with producer.begin(Message(table.topic, b"%d" % number, keys=[f"order-{number}"])) as transaction:
                outcome = ("committed", "rolled_back", "pending")[number % 3]
                if number in (0, 1, 2):
                    ask_now(table.gateway.broker, transaction.msg_id)
                if outcome == "committed":
                    transaction.commit()
                elif outcome == "rolled_back":
                    transaction.rollback()
            expected[transaction.msg_id] = outcome
        table.until(lambda: table.count(table.topic) == 10)
    options = TransactionOptions(
        source={"nameServer": table.gateway.nameserver}, first_day=TODAY, last_day=TODAY + timedelta(days=1)
    )

    found = lives(table.spark, options).where(f"producerGroup = '{group}'").cache()
    rows = {row.transactionId: row for row in found.collect()}
    assert {key: row.outcome for key, row in rows.items()} == expected
    assert {row.topic for row in rows.values()} == {table.topic}
    checks = [rows[key].checks for key in expected]
    assert checks[:3] == [1, 1, None], "only the broker knows how often a pending one was checked"
    assert set(checks[3:]) == {0, None}
    for row in rows.values():
        assert row.born <= row.prepared
        assert (row.latencyMs is None) == (row.outcome == "pending")
        assert (row.queueOffset is not None) == (row.outcome == "committed")
    written = str(table.folder / "transactions")
    for _ in range(2):  # a day that is written again replaces itself
        write_table(found, written)
    again = table.spark.read.parquet(written)
    assert sorted(row.transactionId for row in again.collect()) == sorted(rows)
    text = page(figures(again), title="Transactions", made_at=datetime.now(UTC))
    assert "30 transactions" in text
    assert group[:20] in text
