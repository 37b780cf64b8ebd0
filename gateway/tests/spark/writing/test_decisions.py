"""Decisions are read again whole, and say what brokers are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.spark.errors import CheckpointRefused
from gateway.spark.writing import decisions as module
from gateway.spark.writing.decisions import Decisions, Half, Halves, Verdict


def halves(*offsets: int, broker: str = "broker-a") -> Halves:
    found = Halves()
    for offset in offsets:
        found.add(broker, "orders", Half(offset, 1000 + offset, f"{offset:032X}"))
    return found


def test_half_messages_are_kept_with_all_that_tells_where_they_are() -> None:
    found = halves(3, 4)
    found.extend(halves(5))
    found.extend(halves(6, broker="broker-b"))
    assert [half.half_offset for half in found.of("broker-a", "orders")] == [3, 4, 5]
    assert list(found.of("broker-b", "orders")) == [Half(6, 1006, f"{6:032X}")]
    assert len(found) == 4
    assert not list(found.of("broker-c", "orders"))


@pytest.mark.parametrize("as_uri", [False, True])
def test_a_decision_is_found_again(tmp_path: Path, as_uri: bool) -> None:
    decisions = Decisions(f"file://{tmp_path}" if as_uri else str(tmp_path))
    assert decisions.find("query", 7) is None
    decisions.decide("query", 7, halves(1, 2))
    assert Decisions(str(tmp_path)).find("query", 7) == halves(1, 2)
    assert decisions.find("query", 8) is None
    assert decisions.find("other", 7) is None


def test_a_decision_for_nothing_is_one(tmp_path: Path) -> None:
    decisions = Decisions(str(tmp_path))
    decisions.decide("query", 0, Halves())
    assert decisions.find("query", 0) == Halves()


def test_brokers_are_told_what_was_decided(tmp_path: Path) -> None:
    decisions = Decisions(str(tmp_path))
    assert decisions.verdict("query", 7, "broker-a", 1) is Verdict.UNKNOWN
    decisions.decide("query", 7, halves(1, 2))
    assert decisions.verdict("query", 7, "broker-a", 1) is Verdict.COMMIT
    assert decisions.verdict("query", 7, "broker-b", 1) is Verdict.ROLLBACK
    assert decisions.verdict("query", 7, "broker-a", 3) is Verdict.ROLLBACK
    assert decisions.verdict("query", 6, "broker-a", 1) is Verdict.ROLLBACK
    assert decisions.verdict("query", 8, "broker-a", 3) is Verdict.UNKNOWN
    assert decisions.verdict("other", 7, "broker-a", 1) is Verdict.UNKNOWN


def test_few_decisions_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    decisions = Decisions(str(tmp_path))
    for batch in range(8, 13):
        decisions.decide("query", batch, halves(batch))
    assert [batch for batch in range(20) if decisions.find("query", batch) is not None] == [10, 11, 12]


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x92\x02\x90"])
def test_another_file_or_version_is_refused(tmp_path: Path, data: bytes) -> None:
    decisions = Decisions(str(tmp_path))
    decisions.decide("query", 1, halves(1))
    (tmp_path / "rocketmq" / "query" / "1").write_bytes(data)
    with pytest.raises(CheckpointRefused, match="query/1"):
        decisions.find("query", 1)
