"""The report of transactions as one HTML file: figures from Spark, plots as SVG, and no other file to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final

from gateway.readable import duration_text
from gateway.spark.pipelines.charts import Bar, legend, lying_bars, upright_bars
from gateway.spark.pipelines.transactions import ALL_OUTCOMES, COMMITTED, GIVEN_UP, PENDING, ROLLED_BACK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLOURS: Final = {COMMITTED: "#2e8b57", ROLLED_BACK: "#d98324", GIVEN_UP: "#b5322e", PENDING: "#5b7fb5"}
SHARES: Final = (0.5, 0.9, 0.99, 0.999)
MOST_ROWS: Final = 20
"""The most rows in the tables of groups and of pending transactions."""
_S, _MIN, _H, _D = 1_000, 60_000, 3_600_000, 86_400_000
EDGES_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_S, 2 * _S, 5 * _S, 10 * _S, 20 * _S, 30 * _S),
    *(_MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN, 20 * _MIN, 30 * _MIN),
    *(_H, 2 * _H, 6 * _H, 12 * _H, _D, 2 * _D),
)
"""The lower edges of the bins of times, in milliseconds; bin 0 lies below the first edge."""
MOST_HOURS: Final = 40 * 24
"""The longest range, in hours, with a bar for every hour; a longer range has bars only for hours with transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of the report, as plain values.

    :param counts: transactions by outcome.
    :param hours: transactions by the hour in which they were prepared, then by outcome.
    :param latencies: milliseconds at each of ``SHARES``, and the longest time, by outcome.
    :param bins: transactions by the number of ``EDGES_MS`` up to their time, then by outcome.
    :param groups: name, counts by outcome, checks; the group with the most uncommitted transactions comes first.
    :param oldest: the oldest pending transactions: prepared, group, topic, id, checks if known.
    """

    counts: Mapping[str, int]
    hours: Mapping[datetime, Mapping[str, int]]
    latencies: Mapping[str, Sequence[float]]
    bins: Mapping[int, Mapping[str, int]]
    groups: Sequence[tuple[str, Mapping[str, int], int]]
    oldest: Sequence[tuple[datetime, str, str, str, int | None]]

    @property
    def total(self) -> int:
        """The number of all transactions."""
        return sum(self.counts.values())


def figures(rows: DataFrame) -> Figures:
    """Return the figures of a table of transactions, from a few queries with small answers."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = rows.cache()
    settled = rows.where("outcome <> 'pending' and latencyMs is not null")
    shares = F.percentile_approx("latencyMs", [*SHARES, 1.0], 10_000)
    edges = F.array(*(F.lit(edge) for edge in EDGES_MS))
    bin_number = F.size(F.filter(edges, lambda edge: edge <= F.col("latencyMs")))
    by_group: dict[str, tuple[dict[str, int], int]] = {}
    checked = rows.groupBy("producerGroup", "outcome").agg(F.count("*").alias("n"), F.sum("checks").alias("c"))
    for row in checked.collect():
        counts, checks = by_group.get(row.producerGroup or "", ({}, 0))
        by_group[row.producerGroup or ""] = {**counts, row.outcome: row.n}, checks + (row.c or 0)
    groups = [(name, counts, checks) for name, (counts, checks) in by_group.items()]
    groups.sort(key=lambda group: (sum(group[1].values()) - group[1].get(COMMITTED, 0), group[2]), reverse=True)
    at = F.unix_millis("prepared").alias("at")  # as numbers: Python would make local times of moments
    pending = rows.where("outcome = 'pending'").orderBy("prepared").limit(MOST_ROWS)
    hour = F.unix_millis(F.date_trunc("hour", "prepared"))
    by_hour = _nested(rows.groupBy(hour.alias("key"), "outcome").count().collect())
    return Figures(
        counts={row.outcome: row["count"] for row in rows.groupBy("outcome").count().collect()},
        hours={_moment(at_ms): counts for at_ms, counts in by_hour.items()},
        latencies={row.outcome: row.shares for row in settled.groupBy("outcome").agg(shares.alias("shares")).collect()},
        bins=_nested(settled.groupBy(bin_number.alias("key"), "outcome").count().collect()),
        groups=groups[:MOST_ROWS],
        oldest=[
            (_moment(row.at), row.producerGroup or "", row.topic or "", row.transactionId or "", row.checks)
            for row in pending.select(at, "producerGroup", "topic", "transactionId", "checks").collect()
        ],
    )


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _nested(rows: Sequence[Any]) -> dict[Any, dict[str, int]]:
    found: dict[Any, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row.key, {})[row.outcome] = row["count"]
    return found


def page(found: Figures, *, title: str, made_at: datetime) -> str:
    """Return the report as HTML.

    :param made_at: the time up to which ages of pending transactions count.
    """
    sections = [
        ("Outcomes", _outcomes(found)),
        ("Transactions per hour (UTC)", _hours(found)),
        ("Time until settled", _latencies(found)),
        ("Oldest pending transactions", _oldest(found, made_at)),
        ("Producer groups, most uncommitted transactions first", _groups(found)),
    ]
    body = "".join(f"<section><h2>{escape(name)}</h2>{text}</section>" for name, text in sections)
    said = f"{found.total:,} transactions. Created on {made_at:%Y-%m-%d} at {made_at:%H:%M:%S} UTC."
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><p>{said}</p><p>{legend(COLOURS)}</p>{body}</html>\n"
    )


def _outcomes(found: Figures) -> str:
    bars = [Bar(name.replace("_", " "), {name: found.counts.get(name, 0)}) for name in ALL_OUTCOMES]
    rows = [
        (name.replace("_", " "), f"{found.counts.get(name, 0):,}", _share(found.counts.get(name, 0), found.total))
        for name in ALL_OUTCOMES
    ]
    return lying_bars(bars, COLOURS) + _table(("outcome", "transactions", "share"), rows)


def _hours(found: Figures) -> str:
    hours = _every_hour(sorted(found.hours))
    form = "%H:%M" if len({hour.date() for hour in hours}) == 1 else "%m-%d %H:%M"
    bars = [Bar(f"{hour:{form}}", _in_order(found.hours.get(hour, {}))) for hour in hours]
    return upright_bars(bars, COLOURS) if bars else _NOTHING


def _every_hour(hours: Sequence[datetime]) -> Sequence[datetime]:
    """Return the hours and the hours between them, so that equal distances are equal times."""
    if not hours:
        return hours
    count = int((hours[-1] - hours[0]) / timedelta(hours=1)) + 1
    return [hours[0] + timedelta(hours=number) for number in range(count)] if count <= MOST_HOURS else hours


def _latencies(found: Figures) -> str:
    if not found.bins:
        return _NOTHING
    numbers = range(min(found.bins), max(found.bins) + 1)
    bars = [Bar(bin_name(number), _in_order(found.bins.get(number, {}))) for number in numbers]
    rows = [
        (name.replace("_", " "), *map(duration_text, found.latencies[name]))
        for name in ALL_OUTCOMES
        if name in found.latencies
    ]
    heads = ("outcome", *(f"{share:.1%} within".replace(".0%", "%") for share in SHARES), "longest")
    return lying_bars(bars, COLOURS) + _table(heads, rows)


def bin_name(number: int) -> str:
    """Return both edges of a bin of ``Figures.bins`` as text."""
    if number == 0:
        return f"less than {duration_text(EDGES_MS[0])}"
    begin = duration_text(EDGES_MS[number - 1])
    return f"{begin} – {duration_text(EDGES_MS[number])}" if number < len(EDGES_MS) else f"{begin} or more"


def _oldest(found: Figures, made_at: datetime) -> str:
    if not found.oldest:
        return "<p>No transaction is pending.</p>"
    rows = [
        (
            f"{prepared:%Y-%m-%d %H:%M:%S}",
            _age(prepared, made_at),
            group,
            topic,
            key,
            "–" if checks is None else str(checks),
        )
        for prepared, group, topic, key, checks in found.oldest
    ]
    return _table(("prepared (UTC)", "age", "group", "topic", "transaction ID", "checks"), rows)


def _groups(found: Figures) -> str:
    if not found.groups:
        return _NOTHING
    bars = [Bar(name, _in_order(counts)) for name, counts, _ in found.groups]
    rows = [
        (
            name,
            f"{sum(counts.values()):,}",
            *(_share(counts.get(outcome, 0), sum(counts.values())) for outcome in ALL_OUTCOMES),
            f"{checks:,}",
        )
        for name, counts, checks in found.groups
    ]
    heads = ("group", "transactions", *(name.replace("_", " ") for name in ALL_OUTCOMES), "checks")
    return lying_bars(bars, COLOURS) + _table(heads, rows)


def _in_order(counts: Mapping[str, int]) -> dict[str, float]:
    return {name: counts[name] for name in ALL_OUTCOMES if counts.get(name)}


def _share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else "–"


def _age(moment: datetime, now: datetime) -> str:
    return duration_text((now - moment).total_seconds() * 1000)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(text or '')}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


_NOTHING: Final = "<p>No transactions.</p>"
_STYLE: Final = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: currentColor }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8884 }
.key { margin-right: 1rem } .key i { display: inline-block; width: .8em; height: .8em; margin-right: .3em }
"""
