"""Apache RocketMQ 5.5.0 and the gateway under the same Java load, in turn, in one run, on one machine.

Each row starts a fresh server of each kind. Both share the cores with the load program, which is the same JVM
with the same flags. Close other programs first: a ratio holds only for what was measured alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import backlog, flush_cost, footprint, latency, sending, table
from benchmarks.java_tools import CACHE, BenchmarkError
from benchmarks.row import FULL, QUICK, Effort, Measured, Row
from benchmarks.servers import KINDS, Kind

ROWS: tuple[Row, ...] = (*sending.ROWS, *flush_cost.ROWS, *backlog.ROWS, *latency.ROWS, *footprint.ROWS)


def main() -> None:
    """Parse the command line and run."""
    options = _options()
    rows = [row for row in ROWS if not options.rows or row.name in options.rows.split(",")]
    if not rows:
        sys.exit(f"no such row; there are: {', '.join(row.name for row in ROWS)}")
    effort = QUICK if options.quick else FULL
    kinds = tuple(kind for kind in KINDS if options.only in (None, kind))
    results: table.Results = {}
    failures = []
    for row in rows:
        for kind in kinds:
            try:
                results.setdefault(row.name, {})[kind] = _measure(row, kind, effort, options.runs or effort.runs)
            except BenchmarkError as error:
                failures.append(f"{row.name}, {kind}: {error}")
            else:
                print(f"{row.name:16}{kind:9}{_brief(results[row.name][kind])}", flush=True)
    print("\n" + "\n".join(table.lines(rows, results)))
    output = options.output or CACHE / "results" / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    table.write(output, rows, results, "quick" if options.quick else "full")
    print(f"\n{output}")
    if failures:
        sys.exit("not measured:\n" + "\n".join(failures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds instead of half a minute per row")
    parser.add_argument("--rows", help="only these rows, comma-separated")
    parser.add_argument("--only", choices=KINDS, help="only one server; no ratios then")
    parser.add_argument("--runs", type=int, help="repetitions, of which the median counts (1)")
    parser.add_argument("--output", type=Path, help="where to write the results as JSON")
    return parser.parse_args()


def _measure(row: Row, kind: Kind, effort: Effort, runs: int) -> Measured:
    found = [row.measure(kind, effort).values for _ in range(runs)]
    return Measured({name: statistics.median(values[name] for values in found) for name in found[0]})


def _brief(measured: Measured) -> str:
    return "  ".join(f"{name} {value:,.4g}" for name, value in list(measured.values.items())[:4])
