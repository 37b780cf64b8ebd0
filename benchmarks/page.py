"""Writes the figures of docs/performance.md, and the plot beside it, from what runs of the comparison found.

    python -m benchmarks.page RESULTS.json …       rounds of several runs count together
    python -m benchmarks.page --page FILE RESULTS.json …

What is measured and promised, and why a row falls short, is written by hand around the marks in the page.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks import plot, table
from benchmarks.row import RATES, Measured, Row
from benchmarks.run import ROWS
from benchmarks.servers import KINDS

PAGE = Path("docs/performance.md")
BEGIN, END = "<!-- figures: python -m benchmarks.page -->", "<!-- end of figures -->"
_COSTS = {"p99_ms": "p99", "p999_ms": "p99.9", "memory_after_mb": "memory"}


def main() -> None:
    """Read, merge, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="files that `python -m benchmarks` wrote")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    documents = [json.loads(path.read_text()) for path in options.results]
    results = merged(documents)
    rows = [row for row in ROWS if row.name in results]
    picture = options.page.with_suffix(".svg")
    picture.write_text(plot.ratios(rows, results))
    text = options.page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{options.page} has no marks: {BEGIN} … {END}")
    figures = "\n".join([*_head(documents), "", *_rates(rows, results), "", *_others(rows, results)])
    figures += f"\n\n![Ratios of all rows]({picture.name})\n"
    options.page.write_text(f"{before}{BEGIN}\n\n{figures}\n{END}{after}")


def merged(documents: list[dict[str, Any]]) -> table.Results:
    """The rounds of all documents, in their order."""
    results: table.Results = {}
    for document in documents:
        for name, kinds in document["rows"].items():
            for kind in KINDS:
                rounds = [Measured(values) for values in kinds.get(kind, [])]
                results.setdefault(name, {}).setdefault(kind, []).extend(rounds)
    return results


def _head(documents: list[dict[str, Any]]) -> list[str]:
    newest = max(documents, key=lambda document: str(document["date"]))
    machine, versions = newest["machine"], newest["versions"]
    where = f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, {machine['system']}"
    return [f"{newest['date'][:10]}, {where.partition('-with')[0]}; {versions['apache']} and {versions['gateway']}."]


def _rates(rows: list[Row], results: table.Results) -> list[str]:
    """Rows with a rate: a line each, costs as ratios."""
    lines = [
        "| row | rounds | Apache RocketMQ, per s | gateway | ratio | goal | p99 | p99.9 | memory | broker CPU µs |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        measured = results[row.name]
        found = table.ratios(measured, "messages_per_s")
        if not found:
            continue
        theirs, ours = (table.median(measured[kind], "messages_per_s") for kind in KINDS)
        spread = f" ({found[0]:.2f} – {found[-1]:.2f})" if len(found) > 1 else ""
        costs = [_judged(row, name, measured) for name in _COSTS]
        cpu = " → ".join(table.number(table.median(measured[kind], "server_cpu_us")) for kind in KINDS)
        shares = table.ratios(measured, "server_cpu_us")
        if shares:
            cpu += f" (**{statistics.median(shares):.2f}**)"
        lines.append(
            f"| {row.name} | {len(found)} | {table.number(theirs)} | {table.number(ours)} "
            f"| **{statistics.median(found):.2f}**{spread} | {_goal(row, 'messages_per_s', found)} "
            f"| {' | '.join(costs)} | {cpu} |"
        )
    return lines


def _others(rows: list[Row], results: table.Results) -> list[str]:
    """Goals of values other than those in the first table."""
    lines = ["| row | value | Apache RocketMQ | gateway | ratio | goal |", "|---|---|---|---|---|---|"]
    for row in rows:
        has_rate = bool(table.ratios(results[row.name], "messages_per_s"))
        for name in (*row.goals, *row.own_goals):
            if has_rate and (name in _COSTS or name in RATES):
                continue
            theirs, ours = (table.median(results[row.name].get(kind, []), name) for kind in KINDS)
            found = table.ratios(results[row.name], name)
            ratio = f"{statistics.median(found):.2f}" if found else ""
            goal = f"≥ {row.own_goals[name]:g} itself" if name in row.own_goals else _goal(row, name, found)
            lines.append(f"| {row.name} | {name} | {table.number(theirs)} | {table.number(ours)} | {ratio} | {goal} |")
    return lines if len(lines) > 2 else []


def _judged(row: Row, name: str, measured: dict[Any, list[Measured]]) -> str:
    found = table.ratios(measured, name)
    if not found:
        return ""
    goal = row.goals.get(name)
    mark = "" if goal is None or statistics.median(found) <= goal else " ✘"
    return f"{statistics.median(found):.2f}{mark}"


def _goal(row: Row, name: str, found: list[float]) -> str:
    goal = row.goals.get(name)
    if goal is None:
        return ""
    least = name in RATES
    holds = bool(found) and (statistics.median(found) >= goal if least else statistics.median(found) <= goal)
    return f"{'≥' if least else '≤'} {goal:g} {'✔' if holds else '✘'}"


if __name__ == "__main__":
    main()
