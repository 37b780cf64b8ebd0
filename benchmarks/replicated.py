"""The question: what does a slave cost its master, and how quickly does a new slave get what the master has.

    python -m benchmarks.replicated                   three rounds: twelve minutes
    python -m benchmarks.replicated --rounds 1 --seconds 5 --parts async,catch-up --mib 100

The same stock Java client with 64 threads sends to two servers in turn; master, slave and client share the machine.
Read the ratios only.

``async``: a gateway without a slave, and one with a slave that copies it; both are ASYNC_MASTER and flush each message
(``--flush ASYNC_FLUSH``: without a wait for the disk). ``sync``: master and slave of Apache RocketMQ, and of gateways;
each message is flushed by both (SYNC_MASTER, inSyncReplicas=2, SYNC_FLUSH). Both parts end with the memory of the
gateways: what is not of mapped files, and the most that was resident. ``catch-up``: a new slave of a gateway whose log
has ``--mib`` of messages with 1 KiB bodies, from its first stored byte to the last one; megabytes a second, and
megabytes a second of processor time of each. PYTHONSAFEPATH=1 and PYTHONPATH=build/accelerated:. time the compiled
packages.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

from benchmarks.encrypted import PLAIN, load
from benchmarks.flush_cost import broker_figures
from benchmarks.rounds import tell_rounds
from benchmarks.servers import Flush, Kind, Server, serving, slave_of, wait_for
from benchmarks.verify import fill
from gateway.client import AdminClient, Message, NotSent, Producer, RequestTimeout
from gateway.client.testing.server import free_port

PARTS = ("async", "sync", "catch-up")
BODY_BYTES = 1024
MIB = 1024 * 1024
WITHIN_S = 60.0
LOOKS_A_SECOND = 10
NAME = "broker-a"


def log_end(server: Server) -> int:
    """Return the offset after the last byte of a broker's log."""
    return max(int(broker_figures(server)["commitLogMaxOffset"]), 0)


def master_settings(kind: Kind, role: str) -> dict[str, str]:
    """Return the settings of a master that lets slaves copy."""
    settings = {"brokerName": NAME, "brokerRole": role}
    if role == "SYNC_MASTER":
        settings["inSyncReplicas"] = "2"
    if kind == "gateway":  # Apache RocketMQ's always has one
        settings["haListenPort"] = str(free_port())
    return settings


@contextmanager
def pair(kind: Kind, role: str, flush: Flush) -> Iterator[tuple[Server, Server]]:
    """A master and its slave, which has everything that the master has."""
    with serving(kind, flush, settings=master_settings(kind, role)) as master, slave_of(master) as slave:
        with AdminClient(namesrv=master.nameserver) as admin:
            admin.topics.create("Bench", queues=8)
        with Producer("first", namesrv=master.nameserver) as producer:
            wait_for(partial(_is_copied, producer, master, slave), slave, "follow its master", WITHIN_S)
        yield master, slave


def _is_copied(producer: Producer, master: Server, slave: Server) -> bool:
    """Send a message; return whether the slave has what was sent before.

    A master without its slave refuses the message, or waits for the slave as long as the producer waits for it.
    """
    sent_before = log_end(master)
    try:
        producer.send(Message("Bench", b"first"))
    except (NotSent, RequestTimeout):
        return False
    return 0 < sent_before <= log_end(slave)


def main() -> None:
    """Print one line for each part and round, and the medians."""
    options = _options()
    parts = {"async": _async, "sync": _sync, "catch-up": _catch_up}
    for part in options.parts.split(","):
        tell_rounds(part, parts[part](options))


def _async(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    with serving("gateway", options.flush) as alone, pair("gateway", "ASYNC_MASTER", options.flush) as (master, slave):
        for _ in range(options.rounds):
            first, second = [load(each, options.seconds, PLAIN) for each in (alone, master)]
            yield {
                "none_per_s": first["tps"],
                "slave_per_s": second["tps"],
                "slave_of_none": second["tps"] / first["tps"],
                "none_server_us": first["server_cpu_us"],
                "master_server_us": second["server_cpu_us"],
                "behind_mb": (log_end(master) - log_end(slave)) / 1e6,
                **memory_of(master, slave),
            }


def _sync(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    with pair("apache", "SYNC_MASTER", "SYNC_FLUSH") as apache, pair("gateway", "SYNC_MASTER", "SYNC_FLUSH") as gateway:
        for _ in range(options.rounds):
            first, second = [load(master, options.seconds, PLAIN) for master, _ in (apache, gateway)]
            yield {
                "apache_per_s": first["tps"],
                "gateway_per_s": second["tps"],
                "gateway_of_apache": second["tps"] / first["tps"],
                "apache_p99_ms": first["p99_ms"],
                "gateway_p99_ms": second["p99_ms"],
                **memory_of(*gateway),
            }


def memory_of(master: Server, slave: Server) -> dict[str, float]:
    """Return the memory of a pair in MB: of its own, and the most that was resident, mapped files included."""
    own = [each.memory_bytes()[1] / 1e6 for each in (master, slave)]
    most = [each.peak_bytes() / 1e6 for each in (master, slave)]
    return {
        "master_mb": own[0],
        "slave_mb": own[1],
        "slave_of_master_mb": own[1] / own[0],
        "master_peak_mb": most[0],
        "slave_peak_mb": most[1],
    }


def _catch_up(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    log = argparse.Namespace(gib=options.mib / 1024, body=BODY_BYTES, topics=1, keys=False)

    def prepare(directory: Path) -> None:
        fill(directory / "store", log)

    settings = master_settings("gateway", "ASYNC_MASTER")
    with serving("gateway", options.flush, prepare=prepare, settings=settings) as master:
        for _ in range(options.rounds):
            with slave_of(master) as slave:
                yield caught_up(master, slave)


def caught_up(master: Server, slave: Server) -> dict[str, float]:
    """Measure a slave that copies, from the last look at which it had nothing to the end of the master's log."""
    pause, end, copied = Event(), log_end(master), 0
    while copied < end:
        if not copied:
            begin_s, spent = time.perf_counter(), [each.cpu_seconds() for each in (master, slave)]
        pause.wait(1 / LOOKS_A_SECOND)
        copied = log_end(slave)
    took_s = time.perf_counter() - begin_s
    megabytes = end / 1e6
    master_s, slave_s = [each.cpu_seconds() - before for each, before in zip((master, slave), spent, strict=True)]
    return {
        "mb": megabytes,
        "mb_per_s": megabytes / took_s,
        "mb_per_master_cpu_s": megabytes / max(master_s, 0.01),
        "mb_per_slave_cpu_s": megabytes / max(slave_s, 0.01),
        **memory_of(master, slave),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--parts", default=",".join(PARTS), help="only these, comma-separated")
    parser.add_argument("--flush", default="SYNC_FLUSH", choices=("SYNC_FLUSH", "ASYNC_FLUSH"), help="async, catch-up")
    parser.add_argument("--mib", type=int, default=1024, help="catch-up: size of the log")
    return parser.parse_args()


if __name__ == "__main__":
    main()
