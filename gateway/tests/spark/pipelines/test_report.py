from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.spark.pipelines.report import EDGES_MS, Figures, bin_name, page

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
    for expected in ("1,000 transactions", "90.0%", "1.5s", "1m30s", "3h", "ID7", "quiet", "9.0%"):
        assert expected in text, expected
    assert text.count("<svg") == 4


def test_point_21_every_bin_has_both_edges_and_no_number_is_a_raw_float() -> None:
    bins = {number: {"committed": 1} for number in range(len(EDGES_MS) + 1)}
    latencies = {"committed": [0, 999.7, 59_999.9, 1_000.4, 400 * 86_400_000.0]}
    text = page(replace(FOUND, bins=bins, latencies=latencies), title="x", made_at=NOW)
    for edges in ("less than 1ms", "1ms – 2ms", "500ms – 1s", "30s – 1m", "30m – 1h", "12h – 1d", "2d or more"):
        assert f">{edges}<" in text, edges
    assert [bin_name(number) in text for number in bins] == [True] * len(bins)
    assert not re.search(r"\d\.\d{3}|\de[+-]\d", re.sub(r"<[^>]*>", " ", text))
    for expected in ("0ms", "1s", "1m", "400d"):
        assert f"<td>{expected}</td>" in text


def test_point_21_the_checks_of_a_group_are_shown_and_unknown_ones_are_not_zero() -> None:
    oldest = [(NOW - timedelta(hours=3), "g", "orders", "ID7", None)]
    text = page(replace(FOUND, oldest=oldest), title="x", made_at=NOW)
    assert "<td>–</td></tr>" in text
    assert "<td>17</td></tr>" in text


def test_hours_without_transactions_have_their_place() -> None:
    hours = {NOW: {"committed": 5}, NOW + timedelta(hours=3): {"committed": 5}}
    text = page(replace(FOUND, hours=hours), title="x", made_at=NOW)
    assert [f">{hour}:00<" in text for hour in (12, 13, 14, 15)] == [True] * 4
    assert ">05-02 12:00<" in page(replace(FOUND, hours={NOW: {}, NOW + timedelta(days=1): {}}), title="x", made_at=NOW)


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
    assert "No transaction is pending." in text
    assert replace(nothing, counts={"committed": 1}).total == 1
