"""Compare the speed of the Python client with that of the Java client, on the same server, in the same run.

    python -m benchmarks.clients [--server gateway] [--rounds 3] [--seconds 5] [--no-cpp]

Messages of 128 B. The two clients take turns, so that whatever else the machine does hits both; medians count. Goals
are those of docs/python-client/performance.md. CPU time is that of the client's process for each message.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import cpp_client, python_client, python_client_consume
from benchmarks.java_tools import BenchmarkError, run_program
from benchmarks.python_client import Load
from benchmarks.servers import Server, serving

_BODY_BYTES = 128
_WARM_UP_S = 3
_QUEUES = "8"
_CPP_RATIO = 1.5
_MESSAGES = 200_000
"""To consume."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The result of one measurement."""

    per_second: float
    client_us: float


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    :param ratio: of the Java client's rate that is promised.
    :param enough: messages a second that are enough whatever the ratio; None: the ratio counts alone.
    """

    name: str
    java: tuple[str, ...]
    python: Callable[[Load], python_client.Rate]
    ratio: float
    enough: float | None = None

    def is_met(self, java: float, python: float) -> bool:
        """Return whether the promise is kept."""
        return python >= self.ratio * java or (self.enough is not None and python >= self.enough)

    @property
    def goal(self) -> str:
        """The promise, for people."""
        return f"{self.ratio:g} x Java" + (f" or {self.enough:,.0f}/s" if self.enough is not None else "")


ROWS = (
    Row("sync, one thread", ("-m", "sync", "-w", "1"), python_client.blocking_sync, 0.5),
    Row(
        "async, 1,000 in flight",
        ("-m", "async", "-w", "1", "-i", "1000"),
        python_client.asyncio_async,
        0.8,
        60_000.0,
    ),
)


def main() -> None:
    """Read the command line, measure, print a table."""
    options = _options()
    with serving(options.server) as server:
        print(f"{'way':26}{'Java/s':>10}{'Python/s':>10}{'ratio':>7}{'Java us':>9}{'Python us':>11}  goal")
        for row in ROWS:
            _compare(row, server, options.rounds, options.seconds)
        if options.cpp:
            _compare_with_cpp(server, options.rounds, options.seconds)
        _consume(server, options.rounds)


def _compare(row: Row, server: Server, rounds: int, seconds: int) -> None:
    java, python = [], []
    for _ in range(rounds):
        java.append(_java(server, row.java, seconds))
        rate = row.python(Load(server.nameserver, b"x" * _BODY_BYTES, seconds))
        python.append(Pace(rate.per_second, rate.client_us))
    theirs, ours = _median(java), _median(python)
    verdict = "met" if row.is_met(theirs.per_second, ours.per_second) else "MISSED"
    print(
        f"{row.name:26}{theirs.per_second:10,.0f}{ours.per_second:10,.0f}{ours.per_second / theirs.per_second:7.2f}"
        f"{theirs.client_us:9.1f}{ours.client_us:11.1f}  {row.goal}: {verdict}",
        flush=True,
    )


def _compare_with_cpp(server: Server, rounds: int, seconds: int) -> None:
    theirs, ours = [], []
    try:
        for _ in range(rounds):
            theirs.append(Pace(*cpp_client.send_pace(server.nameserver, seconds, _BODY_BYTES)))
            rate = python_client.blocking_sync(Load(server.nameserver, b"x" * _BODY_BYTES, seconds))
            ours.append(Pace(rate.per_second, rate.client_us))
    except BenchmarkError as error:
        print(f"not compared with the C++ client: {error}", flush=True)
        return
    cpp, python = _median(theirs), _median(ours)
    ratio = python.per_second / cpp.per_second
    print(
        f"{'sync, C++ by ctypes':26}{cpp.per_second:10,.0f}{python.per_second:10,.0f}{ratio:7.2f}{cpp.client_us:9.1f}"
        f"{python.client_us:11.1f}  {_CPP_RATIO:g} x C++: {'met' if ratio >= _CPP_RATIO else 'MISSED'}",
        flush=True,
    )


def _java(server: Server, options: tuple[str, ...], seconds: int) -> Pace:
    found = run_program(
        "SendLoad",
        *("-n", server.nameserver, "-t", "JavaBench", "--create", _QUEUES, "--pid", str(server.broker_pid)),
        *("-u", str(_WARM_UP_S), "-d", str(seconds), "-s", str(_BODY_BYTES), *options),
    )
    if found["failed"]:
        raise BenchmarkError(f"sends of the Java client failed: {found['errors']}")
    return Pace(found["tps"], found["client_cpu_us"])


def _consume(server: Server, rounds: int) -> None:
    """The batch listener, whose goal is a rate."""
    paces = python_client_consume.batch_listener_paces(server.nameserver, _MESSAGES, _BODY_BYTES, rounds)
    ours = _median([Pace(*pace) for pace in paces])
    least = python_client_consume.LEAST_BATCH_RATE
    verdict = "met" if ours.per_second >= least else "MISSED"
    print(
        f"{'push, batch listener':26}{'':10}{ours.per_second:10,.0f}{'':7}{'':9}{ours.client_us:11.1f}"
        f"  {least:,}/s: {verdict}"
    )


def _median(paces: list[Pace]) -> Pace:
    return Pace(
        statistics.median(pace.per_second for pace in paces), statistics.median(pace.client_us for pace in paces)
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--server", choices=("gateway", "apache"), default="gateway")
    parser.add_argument("--no-cpp", dest="cpp", action="store_false", help="leave the C++ client out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement of sends")
    return parser.parse_args()


if __name__ == "__main__":
    main()
