from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.clients.pipeline import DecisionChecker
from gateway.client import ReceivedMessage, TransactionState
from gateway.spark.writing.decisions import Decisions, Half, Halves
from gateway.tests.spark.messages import record
from wire.message.record import parse_record


def asked(half_offset: int, **properties: str) -> Any:
    return ReceivedMessage(parse_record(record(half_offset, properties={"UNIQ_KEY": "ID", **properties})), "broker-a")


def test_a_broker_is_told_what_was_decided_about_the_half_message_where_it_was_stored_first(tmp_path: Path) -> None:
    halves = Halves()
    halves.add("broker-a", "orders", Half(7, 700, f"{7:032X}"))
    decisions = Decisions(str(tmp_path))
    decisions.decide("q", 1, halves)
    checker = DecisionChecker(decisions)
    stamp = {"SPARK_QUERY": "q", "SPARK_BATCH": "1"}
    assert checker.check(asked(7, **stamp)) is TransactionState.COMMIT
    assert checker.check(asked(9, TRAN_PREPARED_QUEUE_OFFSET="7", **stamp)) is TransactionState.COMMIT
    assert checker.check(asked(8, **stamp)) is TransactionState.ROLLBACK
    assert checker.check(asked(7, SPARK_QUERY="q", SPARK_BATCH="2")) is TransactionState.UNKNOWN
    assert checker.check(asked(7)) is TransactionState.UNKNOWN
    assert checker.counts == {"commit": 2, "rollback": 1, "unknown": 2}
