"""The command: arguments, a line a minute, a verdict and an exit code.

0: nothing acknowledged is lost, nothing rolled back arrived, and memory is flat; 1: it is not so.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.peers import QUICK, GatewayProcess
from compat_tests.python_client_soak import memory
from compat_tests.python_client_soak.account import Account
from compat_tests.python_client_soak.clients import READERS, Clients
from gateway.client import AdminClient

_SAMPLE_S = 5.0
_DRAIN_S = 90.0
_PATIENCE_S = 60.0


@dataclass(slots=True)
class Report:
    """The report of a run."""

    accounts: list[Account]
    samples: list[memory.Sample] = field(default_factory=list)
    kills: int = 0
    left_out: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """KiB a minute."""
        return memory.growth_kib_per_minute(self.samples)

    @property
    def is_clean(self) -> bool:
        """Nothing is lost; memory is judged apart, since it takes a long run."""
        return all(account.is_clean for account in self.accounts)

    def lines(self) -> list[str]:
        """Return the lines of the report, for people."""
        lines = [
            f"{'stream':20}{'reader':12}{'sent':>10}{'failed':>8}{'received':>10}{'lost':>6}{'doubled':>8}{'flipped':>8}"
        ]
        for account in self.accounts:
            lines += [
                f"{account.name:20}{reader:12}{account.sent:10,}{account.failed:8,}{account.received[reader]:10,}"
                f"{account.lost[reader]:6,}{account.doubled[reader]:8,}{account.flipped[reader]:8,}"
                for reader in account.readers
            ]
        resident = [kib / 1024 for _, kib in self.samples]
        lines.append(
            f"memory {resident[0]:.1f} MiB at the begin, {max(resident):.1f} at most, {resident[-1]:.1f} at the end; "
            f"{self.growth:+.1f} KiB a minute after the warm-up, {memory.MOST_GROWTH_KIB_PER_MINUTE:g} allowed"
        )
        kinds = {error.partition(":")[0]: error for error in self.errors}
        failed = sum(account.failed for account in self.accounts)
        lines.append(f"{self.kills} kills of the server, {failed} errors told to callers, of {len(kinds)} kinds:")
        return lines + list(kinds.values()) + self.left_out


def run(seconds: float, kills: int, per_second: float, directory: Path, least_sent: int = 0) -> Report:
    """Run the clients against a gateway of their own.

    :param least_sent: messages of each kind; on a busy machine it goes on for up to a minute more until they are sent.
    """
    peer = GatewayProcess(directory / "data", QUICK, bind="127.0.0.1")
    peer.start()
    try:
        with AdminClient(namesrv=peer.nameserver) as admin:
            for topic in READERS:
                admin.topics.create(topic, queues=4)
        accounts = {topic: Account(topic, names) for topic, names in READERS.items()}
        clients = Clients(peer.nameserver, accounts, per_second)
        report = Report(list(accounts.values()))
        clients.start()
        _work(peer, report, seconds, kills, least_sent)
        clients.stop_sending()
        clients.drain(_DRAIN_S)
        clients.stop()
    finally:
        peer.stop()
    for account in accounts.values():
        account.close()
    report.errors, report.left_out = clients.failures, clients.left_out
    return report


def _work(peer: GatewayProcess, report: Report, seconds: float, kills: int, least_sent: int) -> None:
    """Let time pass, take samples, kill the server now and then."""
    begun = time.monotonic()
    # During the warm-up: what waits for a server that is gone takes more memory than anything before.
    moments = [seconds * memory.WARM_UP_SHARE * (index + 1) / (kills + 1) for index in range(kills)]
    told = 0
    while (elapsed := time.monotonic() - begun) < seconds or (
        elapsed < seconds + _PATIENCE_S and any(account.sent < least_sent for account in report.accounts)
    ):
        report.samples.append((elapsed, memory.resident_kib()))
        if moments and elapsed >= moments[0]:
            moments.pop(0)
            peer.kill()
            peer.start()
            report.kills += 1
        if elapsed >= told * 60:
            told += 1
            counts = ", ".join(f"{account.name} {account.sent:,}" for account in report.accounts)
            print(f"{elapsed / 60:5.1f} min  {memory.resident_kib() / 1024:6.1f} MiB  {counts}", flush=True)
        _pause(min(_SAMPLE_S, max(seconds / 20, 0.1)))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.python_client_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=2, help="of the server, as kill -9 (default: 2)")
    parser.add_argument("--per-second", type=float, default=300.0, help="messages of each producer (default: 300)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="python-client-soak-") as directory:
        report = run(options.minutes * 60, options.kills, options.per_second, Path(directory))
    print("\n".join(report.lines()), flush=True)
    return 0 if report.is_clean and report.growth <= memory.MOST_GROWTH_KIB_PER_MINUTE else 1


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251 - other threads are at work
