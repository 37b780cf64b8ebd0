"""Apache RocketMQ 5.5.0 and the gateway under the same Java load, in turn, in one run, on one machine.

Each measurement starts a fresh server; the two take turns (A B A B …), so that whatever else the machine does hits
both. They share the cores with the load program, which is the same JVM with the same flags. The table has medians of
the runs, and the median, least and greatest of the ratios of each round. Close other programs first: a ratio holds only
for what was measured alike.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import backlog, beside, flush_cost, footprint, latency, plot, restart, sending, table
from benchmarks.java_tools import CACHE, BenchmarkError
from benchmarks.row import FULL, QUICK, Measured, Row
from benchmarks.servers import KINDS

ROWS: tuple[Row, ...] = (
    *sending.ROWS,
    *flush_cost.ROWS,
    *backlog.ROWS,
    *latency.ROWS,
    *beside.ROWS,
    *footprint.ROWS,
    *restart.ROWS,
)
QUICK_ROWS = ("sync-64", "async", "transactions", "sync-64-flush", "backlog-push", "latency-200", "footprint")


def main() -> None:
    """Parse the command line and run."""
    options = _options()
    wanted = options.rows.split(",") if options.rows else QUICK_ROWS if options.quick else [row.name for row in ROWS]
    rows = [row for row in ROWS if row.name in wanted]
    unknown = sorted(set(wanted) - {row.name for row in rows})
    if unknown:
        sys.exit(f"no such row: {', '.join(unknown)}; there are: {', '.join(row.name for row in ROWS)}")
    effort = QUICK if options.quick else FULL
    kinds = tuple(kind for kind in KINDS if options.only in (None, kind))
    effort_name = "quick" if options.quick else "full"
    output = options.output or CACHE / "results" / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    results: table.Results = {}
    failures = []
    for row in rows:
        for _ in range(options.runs or effort.runs):
            for kind in kinds:
                try:
                    measured = row.measure(kind, effort)
                except BenchmarkError as error:
                    failures.append(f"{row.name}, {kind}: {error}")
                else:
                    results.setdefault(row.name, {}).setdefault(kind, []).append(measured)
                    print(f"{row.name:20}{kind:9}{_brief(measured)}", flush=True)
                    table.write(output, rows, results, effort_name)  # each time: hours of it may be ended before
    print("\n" + "\n".join(table.lines(rows, results)))
    output.with_suffix(".svg").write_text(plot.ratios(rows, results))
    print(f"\n{output}\n{output.with_suffix('.svg')}")
    if failures:
        sys.exit("not measured:\n" + "\n".join(failures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the rows that say most, seconds each: under 5 minutes")
    parser.add_argument("--rows", help=f"only these, comma-separated, of {', '.join(row.name for row in ROWS)}")
    parser.add_argument("--only", choices=KINDS, help="only one server; no ratios then")
    parser.add_argument("--runs", type=int, help="rounds, of which the median counts (full: 3, quick: 1)")
    parser.add_argument("--output", type=Path, help="where to write the results as JSON, and a plot beside it")
    return parser.parse_args()


def _brief(measured: Measured) -> str:
    return "  ".join(f"{name} {value:,.4g}" for name, value in list(measured.values.items())[:4])
