"""The comparison as a table for people and as JSON for later."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.row import RATES, Measured, Row
from benchmarks.servers import KINDS, Kind, version

Results = dict[str, dict[Kind, Measured]]
_HEADINGS = ("row", "value", "Apache RocketMQ", "gateway", "ratio", "goal", "")


def lines(rows: list[Row], results: Results) -> list[str]:
    """The table; a ratio is gateway / Apache."""
    cells: list[tuple[str, ...]] = [_HEADINGS]
    for row in rows:
        measured = results.get(row.name, {})
        if measured:
            cells += _of_row(row, measured)
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEADINGS))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells]


def _of_row(row: Row, measured: dict[Kind, Measured]) -> list[tuple[str, ...]]:
    names = dict.fromkeys(name for kind in KINDS if kind in measured for name in measured[kind].values)
    return [_of_value(row, name, measured) for name in names]


def _of_value(row: Row, name: str, measured: dict[Kind, Measured]) -> tuple[str, ...]:
    theirs, ours = (measured[kind].values.get(name) if kind in measured else None for kind in KINDS)
    ratio = ours / theirs if ours is not None and theirs else None
    shown = "" if ratio is None else f"{ratio:.2f}"
    goal, judged, least = row.goals.get(name), ratio, name in RATES
    if name in row.own_goals:
        goal, judged, least = row.own_goals[name], ours, True
    sign, verdict = "", ""
    if goal is not None:
        sign = f"{'≥' if least else '≤'} {goal:g}" + (" itself" if name in row.own_goals else "")
    if goal is not None and judged is not None:
        verdict = "ok" if (judged >= goal if least else judged <= goal) else "MISSED"
    return row.name, name, _number(theirs), _number(ours), shown, sign, verdict


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def machine() -> dict[str, str | int]:
    """Where it was measured."""
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


def write(path: Path, rows: list[Row], results: Results, effort: str) -> None:
    """All values of all rows, with machine, versions and date."""
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {kind: version(kind) for kind in KINDS},
        "effort": effort,
        "rows": {
            row.name: {kind: measured.values for kind, measured in results[row.name].items()}
            for row in rows
            if row.name in results
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
