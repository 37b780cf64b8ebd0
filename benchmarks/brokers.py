"""The question: how much more do two broker processes on this machine than one.

    python -m benchmarks.brokers                            `serve --brokers 1` and 2 in turn, three rounds: 2 minutes
    python -m benchmarks.brokers --rounds 1 --seconds 5
    python -m benchmarks.brokers --java                     the load from a stock Java client as well

The same load in each case: 64 connections with 16 messages under way each, over all brokers in turn, prepared
beforehand so that the client needs less than the brokers (`benchmarks.prepared_load`). Processor time is of all
processes of the command: name server, supervisor and brokers. The client runs beside them: "cores" that all of them
use say whether the machine is the limit; on two processors it soon is.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import chart, prepared_load, table
from benchmarks.java_tools import CACHE, BenchmarkError, run_program
from benchmarks.servers import cpu_s
from compat_tests.peers import gateway_command
from gateway.client.testing.server import free_port

TOPIC = "brokers"
QUEUES = 8
CONNECTIONS = 64
IN_FLIGHT = 16
FRAMES = 2_000
WARM_UP_S = 3.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running command."""

    nameserver: str
    ports: list[int]
    pids: list[int]

    def cpu_s(self) -> float:
        """Processor time of all its processes so far."""
        return sum(cpu_s(pid) for pid in self.pids)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    load: str
    brokers: int
    flush: str
    messages_per_s: float
    server_cpu_us: float
    client_cpu_us: float

    @property
    def cores_used(self) -> float:
        """Return the cores that brokers and supervisor used, without the kernel's own work and other programs."""
        return self.messages_per_s * (self.server_cpu_us + self.client_cpu_us) / 1e6


@contextmanager
def cluster(brokers: int, flush: str) -> Iterator[Cluster]:
    """`serve --brokers N` from ready to stopped."""
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="brokers-", dir=CACHE))
    command = [*gateway_command(), "serve", "--data", str(directory / "store"), "--brokers", str(brokers)]
    command += ["--port", str(free_port()), "--nameserver-port", str(free_port())]
    with (directory / "log").open("wb") as log:
        command += ["--set", f"flushDiskType={flush}"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline().split()
        if line[:1] != ["ready"]:
            raise BenchmarkError((directory / "log").read_text()[-2_000:])
        addresses = [word.partition("=")[2] for word in line[1:]]
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        ports = [int(address.rpartition(":")[2]) for address in addresses[1:]]
        yield Cluster(addresses[0], ports, [server.pid, *map(int, children)])
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        shutil.rmtree(directory, ignore_errors=True)


def prepared(running: Cluster, brokers: int, flush: str, seconds: float) -> Measured:
    """The prepared load."""
    for port in running.ports:
        prepared_load.prepare(port, [TOPIC])
    frames = prepared_load.sends([TOPIC], QUEUES, FRAMES)
    load = {"connections": CONNECTIONS, "in_flight": IN_FLIGHT}
    prepared_load.run(running.ports, frames, **load, seconds=WARM_UP_S)
    before = running.cpu_s()
    found = prepared_load.run(running.ports, frames, **load, seconds=seconds)
    used_s = running.cpu_s() - before
    return Measured(
        "prepared",
        brokers,
        flush,
        found.per_s,
        used_s / found.answers * 1e6,
        found.client_cpu_s / found.answers * 1e6,
    )


def java(running: Cluster, brokers: int, flush: str, seconds: float) -> Measured:
    """64 threads of a stock Java producer, which find the brokers through the name server."""
    pids = ",".join(map(str, running.pids))
    arguments = ("-n", running.nameserver, "-t", "Bench", "--create", str(QUEUES), "--pid", pids, "-w", "64")
    found = run_program("SendLoad", *arguments, "-u", "5", "-d", str(round(seconds)))
    if found["failed"]:
        raise BenchmarkError(f"sends failed: {found['errors']}")
    return Measured(
        "java, 64 threads",
        brokers,
        flush,
        found["tps"],
        found["server_cpu_us"],
        found["client_cpu_us"],
    )


def report(found: list[Measured]) -> Iterator[str]:
    """A line for each case, medians of the rounds."""
    yield f"{'load':18}{'flush':13}{'brokers':>8}{'messages/s':>12}{'to one':>8}{'CPU µs':>8}{'client':>8}{'cores':>7}"
    first: dict[tuple[str, str], float] = {}
    for load, flush, brokers in sorted({(one.load, one.flush, one.brokers) for one in found}):
        runs = [one for one in found if (one.load, one.flush, one.brokers) == (load, flush, brokers)]
        rate, server, client, cores = (
            statistics.median(getattr(one, name) for one in runs)
            for name in ("messages_per_s", "server_cpu_us", "client_cpu_us", "cores_used")
        )
        one = first.setdefault((load, flush), rate)
        numbers = f"{rate:>12,.0f}{rate / one:>8.2f}{server:>8.1f}{client:>8.1f}{cores:>7.2f}"
        yield f"{load:18}{flush:13}{brokers:>8}{numbers}"


def panels(found: list[Measured]) -> list[chart.Panel]:
    """Rate by brokers."""
    drawn = []
    for load in sorted({one.load for one in found}):
        lines = {}
        for flush in sorted({one.flush for one in found}):
            points: dict[int, list[float]] = {}
            for one in found:
                if (one.load, one.flush) == (load, flush):
                    points.setdefault(one.brokers, []).append(one.messages_per_s)
            lines[flush] = [(brokers, statistics.median(rates)) for brokers, rates in sorted(points.items())]
        drawn.append(chart.Panel(f"{load}: messages a second", "broker processes", lines))
    return drawn


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.brokers", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--brokers", default="1,2", help="numbers of them, comma-separated")
    parser.add_argument("--flush", default="ASYNC_FLUSH,SYNC_FLUSH")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--java", action="store_true", help="the load of a Java client as well")
    parser.add_argument("--output", type=Path, default=CACHE / "results" / "brokers")
    options = parser.parse_args()
    found = []
    for _ in range(options.rounds):
        for flush in options.flush.split(","):
            for brokers in map(int, options.brokers.split(",")):
                for measure in (prepared, java) if options.java else (prepared,):
                    with cluster(brokers, flush) as running:
                        found.append(measure(running, brokers, flush, options.seconds))
    lines = [str(table.machine()), *report(found)]
    picture = chart.page("Broker processes on one machine", panels(found))
    table.write_report(options.output, lines, picture, [asdict(one) for one in found])


if __name__ == "__main__":
    main()
