from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.spark.pipelines.report import Figures, page

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
FOUND = Figures(
    counts={"committed": 900, "rolled_back": 90, "pending": 10},
    hours={NOW: {"committed": 900, "rolled_back": 90, "pending": 10}},
    latencies={"committed": [1, 20, 1500, 1500, 90_000], "rolled_back": [2, 2, 2, 2, 2]},
    bins={0: {"committed": 900}, 4: {"rolled_back": 90}},
    groups=[("<noisy>", {"rolled_back": 90, "pending": 10}, 17), ("quiet", {"committed": 900}, 0)],
    oldest=[(NOW - timedelta(hours=3), "<noisy>", "orders", "ID7", 5)],
)


def test_a_report_has_shares_times_what_is_pending_and_noisy_groups() -> None:
    text = page(FOUND, title="Transactions of 2026-05-01", made_at=NOW)
    for expected in ("1,000 transactions", "90.0%", "1.5 s", "1.5 min", "3 h", "ID7", "quiet", "9.0%"):
        assert expected in text, expected
    assert text.count("<svg") == 4


def test_names_from_brokers_are_text_and_not_markup() -> None:
    text = page(FOUND, title="<script>", made_at=NOW)
    assert "<script>" not in text
    assert "<noisy>" not in text
    assert "&lt;noisy&gt;" in text


def test_a_report_needs_nothing_from_elsewhere() -> None:
    text = page(FOUND, title="x", made_at=NOW)
    assert "http" not in text
    assert "src=" not in text


def test_a_day_without_transactions_has_a_report() -> None:
    nothing = Figures(counts={}, hours={}, latencies={}, bins={}, groups=[], oldest=[])
    text = page(nothing, title="x", made_at=NOW)
    assert "0 transactions" in text
    assert "Nothing is pending." in text
    assert replace(nothing, counts={"committed": 1}).total == 1
