"""Writes the figures of docs/performance.md, the plot and all values beside it, from what runs of the comparison found.

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
from benchmarks.row import Measured, Row
from benchmarks.run import ROWS
from benchmarks.servers import KINDS

PAGE = Path("docs/performance.md")
BEGIN, END = "<!-- figures: python -m benchmarks.page -->", "<!-- end of figures -->"
_ABOUT_VALUES = (
    "# Every value of the comparison",
    "",
    "Of all rounds of [the comparison](performance.md) the least, the median and the most. The end of a name is its",
    "unit; `python -m benchmarks.page` writes this page.",
    "",
)
_MARKS = {True: " ✔", False: " ✘", None: ""}
_COSTS = {"p99_ms": "p99", "p999_ms": "p99.9", "anonymous_after_mb": "memory"}


def main() -> None:
    """Read, merge, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="files that `python -m benchmarks` wrote")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    documents = [_document(path) for path in options.results]
    for name, which in (("machine", ("cpu", "cores", "memory_gb", "python")), ("versions", KINDS)):
        if len({tuple(document[name][key] for key in which) for document in documents}) > 1:
            raise SystemExit(f"these runs do not count together: they differ in {', '.join(which)}")
    if len({document["effort"] for document in documents}) > 1:
        raise SystemExit("these runs do not count together: some are quick ones, some are not")
    results = merged(documents)
    rows = [row for row in ROWS if row.name in results]
    head = _head(documents, rows)
    picture = options.page.with_suffix(".svg")
    before, _, rest = _read(options.page).partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{options.page} has no marks: {BEGIN} … {END}")
    picture.write_text(plot.ratios(rows, results))
    figures = "\n".join([head, "", *_rates(rows, results), "", *_others(rows, results)])
    values = options.page.with_name(f"{options.page.stem}-values.md")
    figures += f"\n\nEvery value, with the least and the most of the rounds: [{values.name}]({values.name}).\n"
    figures += f"\n![Ratios of all rows]({picture.name})\n"
    values.write_text("\n".join([*_ABOUT_VALUES, head, "", *_values(rows, results), ""]))
    options.page.write_text(f"{before}{BEGIN}\n\n{figures}\n{END}{after}")


def merged(documents: list[dict[str, Any]]) -> table.Results:
    """The rounds of all documents, in their order; one that has only one server's result has nothing of the other."""
    results: table.Results = {}
    for document in documents:
        for name, kinds in document["rows"].items():
            rounds = max(map(len, kinds.values()))
            for kind in KINDS:
                of_kind = [Measured(values, failed=not values) for values in kinds.get(kind, [])]
                of_kind += [Measured()] * (rounds - len(of_kind))
                results.setdefault(name, {}).setdefault(kind, []).extend(of_kind)
    return results


def _document(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(_read(path))
        document["rows"], document["effort"], document["machine"], document["versions"], document["date"]
    except (ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path} holds no results of `python -m benchmarks`: {error!r}") from None
    return document


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise SystemExit(str(error)) from None


def _head(documents: list[dict[str, Any]], rows: list[Row]) -> str:
    newest = max(documents, key=lambda document: str(document["date"]))
    machine, versions = newest["machine"], newest["versions"]
    where = f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, {machine['system']}"
    ours = f"{versions['gateway']}{_sleep(documents, rows)}"
    return f"{newest['date'][:10]}, {where.partition('-with')[0]}; {versions['apache']} and {ours}."


def _sleep(documents: list[dict[str, Any]], rows: list[Row]) -> str:
    """Return whether processors were kept awake. Older results do not say so; for them the answer is no."""
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for document in documents:
        names[bool(document.get("awake"))].update(document["rows"])
    awake, others = ([row.name for row in rows if row.name in names[kept]] for kept in (True, False))
    if both := [name for name in awake if name in others]:
        unlike = f"in some of them the processors were kept awake during {', '.join(both)}"
        raise SystemExit(f"these runs do not count together: {unlike}, in others not")
    if not awake:
        return ""
    except_in = f", except during {', '.join(others)}" if others else ""
    return f"; no processor slept meanwhile{except_in}"


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
        costs = [_judged(row, name, measured) for name in _COSTS]
        cpu = " → ".join(table.number(table.median(measured[kind], "server_cpu_us")) for kind in KINDS)
        shares = table.ratios(measured, "server_cpu_us")
        if shares:
            cpu += f" (**{statistics.median(shares):.2f}**)"
        lines.append(
            f"| {row.name} | {_rounds(found, measured)} | {table.number(theirs)} | {table.number(ours)} "
            f"| **{statistics.median(found):.2f}**{_spread(found)} | {_goal(row, 'messages_per_s', measured)} "
            f"| {' | '.join(costs)} | {cpu} |"
        )
    return lines


def _others(rows: list[Row], results: table.Results) -> list[str]:
    """Goals of values other than those in the first table."""
    lines = ["| row | rounds | value | Apache RocketMQ | gateway | ratio | goal |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        measured = results[row.name]
        has_rate = bool(table.ratios(measured, "messages_per_s"))
        for name in (*row.goals, *row.own_goals):
            if has_rate and (name in _COSTS or name == "messages_per_s"):
                continue
            theirs, ours = (table.median(measured.get(kind, []), name) for kind in KINDS)
            found = table.ratios(measured, name)
            ratio = f"**{statistics.median(found):.2f}**{_spread(found)}" if found else ""
            lines.append(
                f"| {row.name} | {_rounds(found, measured)} | {name} | {table.number(theirs)} | {table.number(ours)} "
                f"| {ratio} | {_goal(row, name, measured)} |"
            )
    return lines if len(lines) > 2 else []


def _values(rows: list[Row], results: table.Results) -> list[str]:
    """All that was measured, as it is: least, median and most of the rounds."""
    lines = ["| row | value | Apache RocketMQ | gateway |", "|---|---|---|---|"]
    for row in rows:
        for name in table.names(results[row.name]):
            theirs, ours = (_three(results[row.name].get(kind, []), name) for kind in KINDS)
            lines.append(f"| {row.name} | {name} | {theirs} | {ours} |")
    return lines


def _three(runs: list[Measured], name: str) -> str:
    values = [one.values[name] for one in runs if name in one.values]
    if not values:
        return "-"
    return " / ".join(table.number(value) for value in (min(values), statistics.median(values), max(values)))


def _judged(row: Row, name: str, measured: dict[Any, list[Measured]]) -> str:
    found = table.ratios(measured, name)
    return f"{statistics.median(found):.2f}{_MARKS[table.holds(row, name, measured)]}" if found else ""


def _rounds(found: list[float], measured: dict[Any, list[Measured]]) -> str:
    failed = [f"{kind} failed in {count}" for kind in KINDS if (count := table.failures(measured, kind))]
    return ", ".join([str(len(found)), *failed])


def _spread(found: list[float]) -> str:
    return f" ({found[0]:.2f} – {found[-1]:.2f})" if len(found) > 1 else ""


def _goal(row: Row, name: str, measured: dict[Any, list[Measured]]) -> str:
    goal, verdict = table.goal(row, name), table.holds(row, name, measured)
    return f"{goal}{_MARKS[verdict] if verdict is not None else ' not compared'}" if goal else ""


if __name__ == "__main__":
    main()
