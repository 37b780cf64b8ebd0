"""The question: what does TLS cost, and what do a flood of handshakes and a renewed certificate do to honest clients.

    python -m benchmarks.encrypted                    three rounds: five minutes
    python -m benchmarks.encrypted --rounds 1 --seconds 5 --parts cost

One gateway serves both; the same stock Java client with 64 threads sends in plain and encrypted, in turn, without a
wait for the disk. Read the ratios only. ``cost``: messages a second and the server's processor time for one. ``flood``:
every two seconds 1,000 connections of another address send the hello of a handshake at once and leave it unfinished;
the encrypted load beside them, and alone. ``renewal``: the encrypted load while the certificate is replaced four times
a second and new clients connect; a failed send ends the program. PYTHONSAFEPATH=1 and PYTHONPATH=build/accelerated:.
time the compiled packages.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from benchmarks.java_tools import CLIENT_FLAGS, BenchmarkError, run_program
from benchmarks.rounds import tell_rounds
from benchmarks.servers import Server, serving
from gateway.client import Message, Producer, ProducerSettings, TlsSettings
from gateway.remoting.tls.identity import self_signed

ENCRYPTED = ("-Dtls.enable=true",)
PLAIN: tuple[str, ...] = ()
THREADS = "64"
FLOOD = 1_000
FLOOD_EVERY_S = 2.0
FLOOD_AFTER_S = 3.0
"""The time for the honest client to start: its sends are measured, not its first connection."""
FLOOD_FROM = ("127.0.0.2", 0)
"""Another address than that of the honest client: handshakes of one address wait for each other."""
RENEWALS_A_SECOND = 4
WARM_UP_S = "5"
PARTS = ("cost", "flood", "renewal")


def load(
    server: Server, seconds: int, flags: tuple[str, ...], more: tuple[str, ...] = ("--create", "8")
) -> dict[str, Any]:
    """One load program; an error when a send failed."""
    options = ("-n", server.nameserver, "-t", "Bench", *more, "--pid", str(server.broker_pid))
    pace = ("-w", THREADS, "-u", WARM_UP_S, "-d", str(seconds))
    found = run_program("SendLoad", *options, *pace, flags=(*CLIENT_FLAGS, *flags))
    if found["failed"] or found["not_ok_status"]:
        raise BenchmarkError(f"sends failed: {found['failed']} {found['errors']}")
    return found


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """A thread that works until the block ends; its error is the block's."""
    is_over, errors = threading.Event(), []

    def run() -> None:
        try:
            work(is_over)
        except Exception as error:  # noqa: BLE001 - handed over
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if errors:
        raise errors[0]


@contextmanager
def flooded(server: Server) -> Iterator[None]:
    """A process that floods the server until the block ends: it takes no time from what measures."""
    spawning = multiprocessing.get_context("spawn")
    is_over = spawning.Event()
    process = spawning.Process(target=flood, args=(server.broker_port, is_over), daemon=True)
    process.start()
    try:
        yield
    finally:
        is_over.set()
        process.join()
    if process.exitcode:
        raise BenchmarkError(f"the flood ended with {process.exitcode}")


def flood(port: int, is_over: Any) -> None:
    """Send waves of hellos over connections of their own, which stay open until the next wave."""
    outgoing = ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        hello = outgoing.read()

    is_over.wait(FLOOD_AFTER_S)
    while not is_over.is_set():
        with ExitStack() as stack:
            place = ("127.0.0.1", port)
            wave = [stack.enter_context(socket.create_connection(place, None, FLOOD_FROM)) for _ in range(FLOOD)]
            for each in wave:
                each.sendall(hello)
            is_over.wait(FLOOD_EVERY_S)


def write_certificate(folder: Path) -> dict[str, str]:
    """Write a new certificate and its key; return the settings that name them."""
    key, certificate = self_signed()
    files = {"tls.server.certPath": folder / "server.crt", "tls.server.keyPath": folder / "server.key"}
    content = (
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    for file, data in zip(files.values(), content, strict=True):
        file.write_bytes(data)
    return {name: str(file) for name, file in files.items()}


def renewing(server: Server, folder: Path) -> Callable[[threading.Event], None]:
    """New certificates, and clients that connect and send."""
    tls = TlsSettings(verify=False)
    settings = ProducerSettings(namesrv=server.nameserver, tls=tls, retry_times_when_send_failed=0)

    def renew(is_over: threading.Event) -> None:
        while not is_over.wait(1 / RENEWALS_A_SECOND):
            write_certificate(folder)
            with Producer("renewing", settings) as producer:
                producer.send(Message("Renewed", b"x"))

    return renew


def main() -> None:
    """Print one line for each part and round, and the medians."""
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving("gateway", settings=write_certificate(folder)) as server:
            parts: dict[str, Callable[[], dict[str, float]]] = {
                "cost": lambda: _cost(server, options.seconds),
                "flood": lambda: _flood(server, options.seconds),
                "renewal": lambda: _renewal(server, options.seconds, folder),
            }
            for part in options.parts.split(","):
                tell_rounds(part, (parts[part]() for _ in range(options.rounds)))


def _cost(server: Server, seconds: int) -> dict[str, float]:
    plain, encrypted = load(server, seconds, PLAIN), load(server, seconds, ENCRYPTED)
    return {
        "plain_per_s": plain["tps"],
        "tls_per_s": encrypted["tps"],
        "tls_of_plain": encrypted["tps"] / plain["tps"],
        "plain_server_us": plain["server_cpu_us"],
        "tls_server_us": encrypted["server_cpu_us"],
        "server_time_of_plain_in_tls": plain["server_cpu_us"] / encrypted["server_cpu_us"],
    }


def _flood(server: Server, seconds: int) -> dict[str, float]:
    alone = load(server, seconds, ENCRYPTED)
    with flooded(server):
        beside_it = load(server, seconds, ENCRYPTED)
    return {
        "alone_p99_ms": alone["p99_ms"],
        "flooded_p99_ms": beside_it["p99_ms"],
        "p99_of_alone": beside_it["p99_ms"] / alone["p99_ms"],
    }


def _renewal(server: Server, seconds: int, folder: Path) -> dict[str, float]:
    with beside(renewing(server, folder)):
        found = load(server, seconds, ENCRYPTED)
    return {"sent": found["total_acked"], "failed": found["failed"]}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encrypted", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--parts", default=",".join(PARTS), help="only these, comma-separated")
    return parser.parse_args()


if __name__ == "__main__":
    main()
