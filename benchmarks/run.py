"""Apache RocketMQ 5.5.0 and the gateway under the same Java load, in turn, in one run, on one machine.

Each measurement starts a fresh server; the two take turns (A B A B …), so that whatever else the machine does hits
both. They share the cores with the load program, which is the same JVM with the same flags. The table has medians of
the runs, and the median, least and greatest of the ratios of each round. Close other programs first: a ratio holds only
for what was measured alike.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import backlog, beside, busy, flush_cost, footprint, latency, plot, restart, sending, table
from benchmarks.awake import awake
from benchmarks.java_tools import CACHE, BenchmarkError
from benchmarks.row import FULL, QUICK, Effort, Measured, Row
from benchmarks.servers import KINDS, Kind
from gateway.client import RocketMQError

ROWS: tuple[Row, ...] = (
    *sending.ROWS,
    *flush_cost.ROWS,
    *backlog.ROWS,
    *latency.ROWS,
    *beside.ROWS,
    *busy.ROWS,
    *footprint.ROWS,
    *restart.ROWS,
)
MOST_ROUNDS = 1_000
STOLEN = "stolen_share"
"""Of the processors' time, while a server was measured: what the host took tells which rounds were alike."""
QUICK_ROWS = ("sync-64", "async", "transactions", "sync-64-flush", "backlog-push", "latency-200", "footprint")


def main() -> None:
    """Parse the command line and run."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # else servers would be left behind
    wanted = options.rows or (QUICK_ROWS if options.quick else [row.name for row in ROWS])
    refuse_unknown(wanted, [row.name for row in ROWS])
    rows = [row for row in ROWS if row.name in wanted]
    effort = QUICK if options.quick else FULL
    kinds = tuple(kind for kind in KINDS if options.only in (None, kind))
    effort_name = "quick" if options.quick else "full"
    output = options.output or CACHE / "results" / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    results: table.Results = {}
    failures = []
    try:
        with awake() if options.awake else nullcontext():
            # Whether it can be is better known before than after hours.
            table.write(output, rows, results, effort_name, awake=options.awake)
            for row, kind in _turns(rows, options.runs or effort.runs, kinds):
                measured, failure = _measured(row, kind, effort)
                if failure:
                    failures.append(f"{row.name}, {kind}: {failure}")
                results.setdefault(row.name, {}).setdefault(kind, []).append(measured)
                print(f"{row.name:20}{kind:9}{_brief(measured) or 'failed'}", flush=True)
                table.write(output, rows, results, effort_name, awake=options.awake)
    except OSError as error:
        sys.exit(f"the results cannot be written: {error}")
    except KeyboardInterrupt:
        failures.append("what was to come when you ended it")
    print("\n" + "\n".join(table.lines(rows, results)))
    output.with_suffix(".svg").write_text(plot.ratios(rows, results))
    print(f"\n{output}\n{output.with_suffix('.svg')}")
    if failures:
        sys.exit("not measured:\n" + "\n".join(failures))


def _turns(rows: list[Row], rounds: int, kinds: tuple[Kind, ...]) -> Iterator[tuple[Row, Kind]]:
    for row in rows:
        for _ in range(rounds):
            for kind in kinds:
                yield row, kind


def _measured(row: Row, kind: Kind, effort: Effort) -> tuple[Measured, str]:
    """Nothing, and why, when it failed: the round keeps its place beside that of the other server."""
    begin = _ticks()
    try:
        values = row.measure(kind, effort).values
        every, stolen = (now - before for now, before in zip(_ticks(), begin, strict=True))
        return Measured({**values, STOLEN: stolen / every} if every else values), ""
    except BenchmarkError as error:
        return Measured(failed=True), str(error)
    except (RocketMQError, OSError) as error:  # a client of the benchmark's own: the other rows may go well
        return Measured(failed=True), f"{type(error).__name__}: {error}"


def _ticks() -> tuple[int, int]:
    """Return the ticks of all processors so far, and how many of them the host took (steal in proc(5))."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[7]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the rows that say most, seconds each: under 5 minutes")
    every = ", ".join(row.name for row in ROWS)
    parser.add_argument("--rows", type=row_names, help=f"only these, comma-separated, of {every}")
    parser.add_argument("--only", choices=KINDS, help="only one server; no ratios then")
    parser.add_argument("--runs", type=_rounds, help="rounds, of which the median counts (full: 3, quick: 1)")
    why = "no processor sleeps meanwhile (as root): a virtual machine's comes back late; for both servers alike"
    parser.add_argument("--awake", action="store_true", help=why)
    parser.add_argument("--output", type=_json, help="where to write the results as JSON, and a plot beside it")
    return parser.parse_args()


def row_names(text: str) -> list[str]:
    """Return the names of rows, as the command line has them."""
    return [name for each in text.split(",") if (name := each.strip())]


def refuse_unknown(wanted: Iterable[str], known: Collection[str]) -> None:
    """End the program with what rows there are when one is wanted that there is not."""
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        sys.exit(f"no such row: {', '.join(unknown)}; there are: {', '.join(known)}")


def _rounds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_ROUNDS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MOST_ROUNDS}")
    return int(text)


def _json(text: str) -> Path:
    if not text.endswith(".json"):
        raise argparse.ArgumentTypeError(f"{text} does not end in .json; the plot will end in .svg beside it")
    return Path(text)


def _brief(measured: Measured) -> str:
    values = measured.values
    return "  ".join(f"{name} {values[name]:,.4g}" for name in (*list(values)[:4], STOLEN) if name in values)
