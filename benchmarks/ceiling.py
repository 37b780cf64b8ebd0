"""The question: how much of this load can the client send at all, whatever the server.

    python -m benchmarks.ceiling                          all rows, three rounds
    python -m benchmarks.ceiling --rows sync-64,async --runs 1
    python -m benchmarks.ceiling --quick --rows sync-64   one round of seconds

A ratio to Apache RocketMQ ends where the client, which has the same cores, has no time left. Each row is one of the
comparison's own (``benchmarks.sending``), under Apache RocketMQ, the gateway and ``ceiling_server.c`` in turn. That one
cuts frames and answers them, which no broker can do without: about what it reaches is all that a server can with this
client on this machine. About, for what a message costs the client is not the same with every server ("client us"),
presumably by how many answers it finds at once. Where the gateway waits for the disk (durable-64) the C server appends
the requests to a file and waits for it as well.

The C server's name server is a gateway of which nothing else is asked.

Ratios are medians of the rounds' ratios, all else medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from benchmarks import sending, table
from benchmarks.awake import awake
from benchmarks.beside import with_topics
from benchmarks.java_tools import CACHE, BenchmarkError, tool
from benchmarks.row import FULL, QUICK, Effort, Measured
from benchmarks.servers import Server, serving
from gateway.client.testing.server import free_port

Side = Literal["apache", "gateway", "c-server"]
Round = dict[Side, Measured]
SIDES: dict[Side, str] = {"apache": "Apache RocketMQ", "gateway": "gateway", "c-server": "C server"}
ROWS = ("sync-64", "sync-64-1k", "async", "durable-64")
WITH_SYNC = frozenset({"durable-64"})
SOURCE = Path(__file__).with_name("ceiling_server.c")
_HEADINGS = ("row", "server", "messages/s", "/ Apache", "/ C server", "client us", "server us", "p50 ms", "p99 ms")
_KEPT = ("messages_per_s", "client_cpu_us", "server_cpu_us", "p50_ms", "p99_ms")
"""Of a load program's values, in the order in which they are shown; the memory is not the C server's alone."""


def main() -> None:
    """Parse the command line and measure."""
    options = _options()
    rows = options.rows.split(",")
    if unknown := sorted(set(rows) - set(ROWS)):
        sys.exit(f"no such row: {', '.join(unknown)}; there are: {', '.join(ROWS)}")
    effort = QUICK if options.quick else FULL
    output = options.output or CACHE / "results" / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}-ceiling.json"
    results: dict[str, list[Round]] = {row: [] for row in rows}
    failures = []
    with awake() if options.awake else nullcontext():
        for row, side, round_ in _turns(results, options.runs or effort.runs):
            try:
                round_[side] = _measure(row, side, effort)
            except BenchmarkError as error:
                failures.append(f"{row}, {side}: {error}")
            else:
                print(f"{row:12}{SIDES[side]:17}{_brief(round_[side])}", flush=True)
                _write(output, results, "quick" if options.quick else "full", awake=options.awake)
    print("\n" + "\n".join(_lines(results)) + f"\n\n{output}")
    if failures:
        sys.exit("not measured:\n" + "\n".join(failures))


def _turns(results: dict[str, list[Round]], runs: int) -> Iterator[tuple[str, Side, Round]]:
    """The row and the server that are next, and the round of the results that it belongs to."""
    for row, rounds in results.items():
        for _ in range(runs):
            rounds.append({})
            for side in SIDES:
                yield row, side, rounds[-1]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ceiling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(ROWS), help="only these, comma-separated (%(default)s)")
    parser.add_argument("--runs", type=int, help="rounds, of which the median counts (3; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="seconds for each measurement")
    parser.add_argument("--awake", action="store_true", help="no processor sleeps meanwhile (as root)")
    parser.add_argument("--output", type=Path, help="where to write the results as JSON")
    return parser.parse_args()


def _measure(row: str, side: Side, effort: Effort) -> Measured:
    if side == "c-server":
        with answering(with_sync=row in WITH_SYNC) as server:
            found = sending.measured(server, sending.load(server, effort, *sending.OPTIONS[row]))
    else:
        found = next(one for one in sending.ROWS if one.name == row).measure(side, effort)
    return Measured({name: found.values[name] for name in _KEPT})


@contextmanager
def answering(*, with_sync: bool) -> Iterator[Server]:
    """The C server as the broker of a gateway that is only the name server; both end with it."""
    program, port = _compiled(), free_port()

    def prepare(directory: Path) -> None:
        with_topics(directory, "Bench")  # asked for it, the C server would say yes and the name server know of nothing

    with serving("gateway", prepare=prepare, settings={"gateway.advertise": f"127.0.0.1:{port}"}) as server:
        command = [str(program), str(port)]
        if with_sync:
            command += ["--sync", str(server.directory / "frames")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        server.processes.append(process)  # as the last one it is the broker, whose CPU time is counted
        assert process.stdout is not None
        with process.stdout as output:
            if output.readline() != b"ready\n":
                raise BenchmarkError(f"{SOURCE.name} did not start")
            yield server


def _compiled() -> Path:
    """The C server, compiled when its source changed."""
    program = CACHE / SOURCE.stem
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run([tool("cc", "gcc"), "-std=c11", "-O2", "-pthread", "-o", str(program), str(SOURCE)], check=True)
    return program


def _brief(measured: Measured) -> str:
    return "  ".join(f"{name} {value:,.4g}" for name, value in measured.values.items())


def _lines(results: dict[str, list[Round]]) -> list[str]:
    """The table: three lines a row."""
    cells: list[tuple[str, ...]] = [_HEADINGS]
    for row, rounds in results.items():
        for side, name in SIDES.items():
            runs = [one[side] for one in rounds if side in one]
            rate, *others = (table.number(table.median(runs, value)) for value in _KEPT)
            cells.append((row, name, rate, _ratio(rounds, side, "apache"), _ratio(rounds, side, "c-server"), *others))
    return table.aligned(cells)


def _ratio(rounds: list[Round], one: Side, other: Side) -> str:
    """Return the median ratio of two rates, of the rounds that have both."""
    rate = "messages_per_s"
    found = [
        round_[one].values[rate] / round_[other].values[rate] for round_ in rounds if {one, other} <= round_.keys()
    ]
    return f"{statistics.median(found):.2f}" if found else "-"


def _write(output: Path, results: dict[str, list[Round]], effort: str, *, awake: bool) -> None:
    """Each time: an hour of it may be ended before."""
    values: dict[str, dict[str, list[dict[str, float]]]] = {
        row: {side: [one[side].values for one in rounds if side in one] for side in SIDES}
        for row, rounds in results.items()
    }
    table.write_values(output, values, effort, awake=awake)


if __name__ == "__main__":
    main()
