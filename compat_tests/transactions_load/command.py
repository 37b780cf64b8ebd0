"""The command: arguments, progress lines, one column for each peer, an exit code.

0: every half message of the gateway has one outcome and no check came without need; 1: it is not so.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from compat_tests import environment
from compat_tests.transactions_load.account import End, Wrong
from compat_tests.transactions_load.load import CLIENTS, PEERS, STORES, Report, Wanted, run

TRANSACTIONS = 200_000
KILLS = 20
PRODUCER_KILLS = 10


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments, checked."""
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.transactions_load", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--transactions", type=int, default=TRANSACTIONS, help=f"default: {TRANSACTIONS:,}")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"of the broker, as kill -9 (default: {KILLS})")
    parser.add_argument(
        "--producer-kills", type=int, default=PRODUCER_KILLS, help=f"of producers (default: {PRODUCER_KILLS})"
    )
    parser.add_argument("--threads", type=int, default=4, help="of each of the two producers (default: 4)")
    parser.add_argument("--seed", type=int, default=7, help="of the moments of the kills (default: 7)")
    parser.add_argument(
        "--peer", choices=PEERS, action="append", help="repeat it to see both side by side (default: gateway-host)"
    )
    parser.add_argument(
        "--store",
        choices=STORES,
        action="append",
        help="where the gateway keeps what is pending; repeat it to see several side by side (default: queue)",
    )
    parser.add_argument(
        "--client", choices=CLIENTS, default=CLIENTS[0], help="what the producers are written in (default: java)"
    )
    parser.add_argument("--directory", type=Path, default=Path("var/transactions"), help="where stores are made")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load against each peer; the exit code."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the containers go away
    environment.start_engine()
    environment.remove_leftovers()
    reports = []
    for peer, store in _columns(options.peer or PEERS[:1], options.store or STORES[:1]):
        wanted = Wanted(
            transactions=options.transactions,
            kills=options.kills,
            producer_kills=options.producer_kills,
            seed=options.seed,
            directory=_new_directory(options.directory.absolute(), options.seed),
            peer=peer,
            threads=options.threads,
            store=store,
            client=options.client,
        )
        reports.append(run(wanted, partial(_progress, _name(wanted))))
    for line in table(reports):
        _say(line)
    ours = [report for report in reports if report.wanted.peer == PEERS[0]]
    for report in ours:
        if report.account.is_clean and not report.account.ends[End.PENDING]:
            shutil.rmtree(report.wanted.directory)
        else:
            _say(f"kept for a look: {report.wanted.directory}")
    return 0 if all(report.account.is_clean for report in ours) else 1


def _columns(peers: Sequence[str], stores: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Peer and state store; Apache RocketMQ has the one."""
    for peer in peers:
        for store in stores if peer == PEERS[0] else STORES[:1]:
            yield peer, store


def _name(wanted: Wanted) -> str:
    return wanted.peer if wanted.store == STORES[0] else wanted.store


def table(reports: Sequence[Report]) -> list[str]:
    """One row a figure, one column a peer; below, the first few things wrong in words."""
    rows = [_column(report) for report in reports]
    names = [name for name, _ in rows[0]]
    lines = [f"{name:<28}" + "".join(f"{dict(row)[name]:>18}" for row in rows) for name in names]
    for report in reports:
        lines += [f"{_name(report.wanted)}: {sentence}" for sentence in report.account.sentences]
    return lines


def _column(report: Report) -> list[tuple[str, str]]:
    account = report.account
    return [
        ("", _name(report.wanted)),
        ("half messages acknowledged", f"{account.stored:,}"),
        *((str(end), f"{account.ends[end]:,}") for end in End),
        ("checks received", f"{account.checks:,}"),
        *((str(wrong), f"{account.wrong[wrong]:,}") for wrong in Wrong),
        ("checks excused by stalls", f"{account.excused:,}"),
        ("somebody stood still", f"{account.stalled_ms / 1000:.1f} s"),
        ("kills of the broker", f"{report.kills}"),
        ("kills of producers", f"{report.producer_kills}"),
        ("longest start", f"{report.start_s:.1f} s"),
        ("transactions per second", f"{account.stored / report.sending_s:,.0f}"),
        ("seconds in all", f"{report.seconds:.0f}"),
    ]


def _new_directory(parent: Path, seed: int) -> Path:
    """One that nothing is kept in."""
    return next(path for n in itertools.count(1) if not (path := parent / f"seed-{seed}-{n}").exists())


def _progress(peer: str, line: str) -> None:
    _say(f"{peer}: {line}")


def _say(line: str) -> None:
    print(line, flush=True)
