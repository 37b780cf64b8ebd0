"""The report of transactions as one HTML file: figures from Spark, plots as SVG, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

from gateway.spark.pipelines.charts import Bar, legend, lying_bars, upright_bars
from gateway.spark.pipelines.transactions import ALL_OUTCOMES, COMMITTED, GIVEN_UP, PENDING, ROLLED_BACK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLOURS: Final = {COMMITTED: "#2e8b57", ROLLED_BACK: "#d98324", GIVEN_UP: "#b5322e", PENDING: "#5b7fb5"}
SHARES: Final = (0.5, 0.9, 0.99, 0.999)
MOST_ROWS: Final = 20
"""Of the tables of groups and of pending transactions."""
_BINS_PER_DECADE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the report says, as plain values.

    :param counts: transactions by outcome. ``hours``: by the hour they were prepared in, then outcome.
    :param latencies: milliseconds at ``SHARES``, and the most, by outcome.
    :param bins: by powers of ``10 ** (1 / 3)`` milliseconds, then outcome.
    :param groups: name, counts by outcome, checks; the noisiest first.
    :param oldest: of what is pending: prepared, group, topic, id, checks.
    """

    counts: Mapping[str, int]
    hours: Mapping[datetime, Mapping[str, int]]
    latencies: Mapping[str, Sequence[float]]
    bins: Mapping[int, Mapping[str, int]]
    groups: Sequence[tuple[str, Mapping[str, int], int]]
    oldest: Sequence[tuple[datetime, str, str, str, int]]

    @property
    def total(self) -> int:
        """All transactions."""
        return sum(self.counts.values())


def figures(rows: DataFrame) -> Figures:
    """The figures of a table of transactions; a few queries, each with a small answer."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = rows.cache()
    settled = rows.where("outcome <> 'pending' and latencyMs is not null")
    shares = F.percentile_approx("latencyMs", [*SHARES, 1.0], 10_000)
    bin_number = F.floor(F.log10(F.greatest(F.col("latencyMs"), F.lit(1))) * _BINS_PER_DECADE).cast("int")
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
    """The report.

    :param made_at: ages of what is pending count up to here.
    """
    sections = [
        ("Outcomes", _outcomes(found)),
        ("By the hour", _hours(found)),
        ("Time to the outcome", _latencies(found)),
        ("Oldest pending", _oldest(found, made_at)),
        ("Groups, the noisiest first", _groups(found)),
    ]
    body = "".join(f"<section><h2>{escape(name)}</h2>{text}</section>" for name, text in sections)
    said = f"{found.total:,} transactions; made {made_at:%Y-%m-%d %H:%M:%S} UTC"
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
    bars = [Bar(f"{hour:%d. %H}h", _in_order(counts)) for hour, counts in sorted(found.hours.items())]
    return upright_bars(bars, COLOURS) if bars else _NOTHING


def _latencies(found: Figures) -> str:
    if not found.bins:
        return _NOTHING
    numbers = range(min(found.bins), max(found.bins) + 1)
    bars = [Bar(_duration(10 ** (n / _BINS_PER_DECADE)), _in_order(found.bins.get(n, {}))) for n in numbers]
    rows = [
        (name.replace("_", " "), *map(_duration, found.latencies[name]))
        for name in ALL_OUTCOMES
        if name in found.latencies
    ]
    heads = ("outcome", *(f"{share:.1%}".replace(".0%", "%") for share in SHARES), "most")
    return upright_bars(bars, COLOURS) + _table(heads, rows)


def _oldest(found: Figures, made_at: datetime) -> str:
    if not found.oldest:
        return "<p>Nothing is pending.</p>"
    rows = [
        (f"{prepared:%Y-%m-%d %H:%M:%S}", _age(prepared, made_at), group, topic, key, str(checks))
        for prepared, group, topic, key, checks in found.oldest
    ]
    return _table(("prepared", "age", "group", "topic", "id", "checks"), rows)


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
    return _duration((now - moment).total_seconds() * 1000)


def _duration(milliseconds: float) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds:.3g} ms"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(text or '')}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


_NOTHING: Final = "<p>There is nothing to show.</p>"
_STYLE: Final = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: currentColor }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8884 }
.key { margin-right: 1rem } .key i { display: inline-block; width: .8em; height: .8em; margin-right: .3em }
"""
