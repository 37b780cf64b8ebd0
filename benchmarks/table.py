"""The comparison as a table for people and as JSON for later."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.row import RATES, Measured, Row
from benchmarks.servers import KINDS, Kind, version

Results = dict[str, dict[Kind, list[Measured]]]
"""What each round gave, by row and server."""
_HEADINGS = ("row", "value", "Apache RocketMQ", "gateway", "ratio", "from", "to", "goal", "")


def lines(rows: list[Row], results: Results) -> list[str]:
    """The table; a ratio is gateway / Apache."""
    cells: list[tuple[str, ...]] = [_HEADINGS]
    for row in rows:
        measured = results.get(row.name, {})
        if measured:
            cells += _of_row(row, measured)
    return aligned(cells)


def aligned(cells: list[tuple[str, ...]]) -> list[str]:
    """Lines of columns as wide as what is in them."""
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells]


def ratios(measured: Mapping[Kind, list[Measured]], name: str) -> list[float]:
    """Gateway / Apache of a value in each round, least first, without rounds in which one of them has no such value.

    A run that was ended between the two has one round more of the first.
    """
    theirs, ours = ([one.values.get(name) for one in measured.get(kind, ())] for kind in KINDS)
    return sorted(our / their for their, our in zip(theirs, ours, strict=False) if their and our is not None)


def names(measured: Mapping[Kind, list[Measured]]) -> list[str]:
    """Return the names of the values that some round has."""
    return list(dict.fromkeys(name for runs in measured.values() for one in runs for name in one.values))


def _of_row(row: Row, measured: dict[Kind, list[Measured]]) -> list[tuple[str, ...]]:
    return [_of_value(row, name, measured) for name in names(measured)]


def _of_value(row: Row, name: str, measured: dict[Kind, list[Measured]]) -> tuple[str, ...]:
    theirs, ours = (median(measured.get(kind, []), name) for kind in KINDS)
    found = ratios(measured, name)
    shown = [f"{value:.2f}" for value in (statistics.median(found), found[0], found[-1])] if found else ["", "", ""]
    verdict = {True: "ok", False: "MISSED", None: ""}[holds(row, name, measured)]
    return row.name, name, number(theirs), number(ours), *shown, goal(row, name), verdict


def goal(row: Row, name: str) -> str:
    """Return the promise for a value, for people; empty if there is none."""
    if name in row.own_goals:
        return f"≥ {row.own_goals[name]:g} itself"
    if name in row.goals:
        return f"{'≥' if name in RATES else '≤'} {row.goals[name]:g}"
    return ""


def holds(row: Row, name: str, measured: Mapping[Kind, list[Measured]]) -> bool | None:
    """Return whether the promise is kept; None if there is no promise or nothing to compare.

    A gateway that failed in one round, as when a send was refused, keeps no promise by the others.
    """
    wanted = row.own_goals.get(name, row.goals.get(name))
    if wanted is None:
        return None
    if failures(measured, "gateway"):
        return False
    if name in row.own_goals:
        itself = median(measured.get("gateway", []), name)
        return None if itself is None else itself >= wanted
    found = ratios(measured, name)
    if not found:
        return None
    return statistics.median(found) >= wanted if name in RATES else statistics.median(found) <= wanted


def failures(measured: Mapping[Kind, list[Measured]], kind: Kind) -> int:
    """Rounds in which a server could not be measured."""
    return sum(one.failed for one in measured.get(kind, ()))


def median(runs: list[Measured], name: str) -> float | None:
    """Return the median of the rounds that have such a value; None if no round has it."""
    values = [one.values[name] for one in runs if name in one.values]
    return statistics.median(values) if values else None


def number(value: float | None) -> str:
    """A value for people."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def machine() -> dict[str, str | int]:
    """Return the machine of the measurement."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return {
        "cpu": cpu,
        "cores": os.cpu_count() or 0,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def write_report(output: Path, shown: list[str], picture: str, values: list[dict[str, Any]] | None = None) -> None:
    """Lines, a plot and, where there are any, values, as files that differ in their endings; and print the lines."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".txt").write_text("\n".join([*shown, ""]))
    output.with_suffix(".svg").write_text(picture)
    if values is not None:
        output.with_suffix(".json").write_text(json.dumps(values, indent=1))
    print("\n".join([*shown, "", str(output.with_suffix(".txt")), str(output.with_suffix(".svg"))]))


def write(path: Path, rows: list[Row], results: Results, effort: str, *, awake: bool) -> None:
    """All values of all rows, with machine, versions and date."""
    values: dict[str, dict[str, list[dict[str, float]]]] = {
        row.name: {kind: [one.values for one in runs] for kind, runs in results[row.name].items()}
        for row in rows
        if row.name in results
    }
    write_values(path, values, effort, awake=awake)


def write_values(
    path: Path, rows: Mapping[str, Mapping[str, list[dict[str, float]]]], effort: str, *, awake: bool
) -> None:
    """The values of each run, by row and server, with machine, versions and date.

    :param awake: no processor slept meanwhile (``benchmarks.awake``).
    """
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {kind: version(kind) for kind in KINDS},
        "effort": effort,
        "awake": awake,
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
