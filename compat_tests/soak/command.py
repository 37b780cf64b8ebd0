"""The command: arguments, the Java client's container, progress lines, the table, an exit code.

0: nothing is wrong; 1: something is lost, doubled or flipped, or wrong in another way; 2: the machine does not
allow a fault that was asked for.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat_tests import environment
from compat_tests.java_client import CLIENT_VERSIONS, java_client
from compat_tests.peers import gateway_command
from compat_tests.soak.plan import Fault
from compat_tests.soak.small_disk import NotPossible
from compat_tests.soak.soak import Wanted, soak
from compat_tests.soak.table import lines
from wire.compiled import IS_COMPILED

DEFAULT_MINUTES = 10.0
QUICK_STOP_S = 4.0


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments, checked."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, help=f"how long (default: {DEFAULT_MINUTES:g}, without --rounds)")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument("--seed", type=int, default=7, help="of the faults and their moments (default: 7)")
    parser.add_argument(
        "--faults",
        type=lambda text: tuple(Fault(name) for name in text.split(",")),
        default=tuple(Fault),
        help=f"some of {','.join(Fault)} (default: all)",
    )
    parser.add_argument("--client", choices=CLIENT_VERSIONS, default=CLIENT_VERSIONS[-1], help="rocketmq-client")
    parser.add_argument("--quick", action="store_true", help=f"pause the broker for {QUICK_STOP_S:g} s instead of 30 s")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    parser.add_argument("--compiled", action="store_true", help="refuse to run unless the gateway is compiled")
    parser.add_argument("--directory", type=Path, default=Path("var/soak"), help="where stores are made")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak; the exit code."""
    options = parse(arguments)
    if options.compiled and not _is_compiled():
        print("the gateway is not compiled: use `make soak-accelerated`", file=sys.stderr)
        return 2
    wanted = Wanted(
        seed=options.seed,
        faults=options.faults,
        directory=_new_directory(options.directory.absolute(), options.seed),
        rounds=options.rounds,
        minutes=options.minutes or (None if options.rounds else DEFAULT_MINUTES),
        stop_s=QUICK_STOP_S if options.quick else 30.0,
        settings=dict(assignment.split("=", 1) for assignment in options.set),
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the container and the small disk go away
    environment.start_engine()
    environment.remove_leftovers()
    try:
        with java_client(options.client) as client:
            report = soak(client, wanted, _say)
    except NotPossible as reason:
        needing = [fault for fault in (Fault.DISK_FULL, Fault.READ_ONLY) if fault in options.faults]
        rest = ",".join(fault for fault in options.faults if fault not in needing)
        print(f"Error: {' and '.join(needing)}: {reason}; without: --faults {rest or Fault.KILL}", file=sys.stderr)
        return 2
    for line in lines(report):
        _say(line)
    if report.findings.is_clean:
        shutil.rmtree(wanted.directory)
        return 0
    return 1


def _is_compiled() -> bool:
    """Return whether both the code that the command starts and the code that this process would load are compiled."""
    version = subprocess.run([*gateway_command(), "version"], capture_output=True, text=True, check=True).stdout
    return IS_COMPILED and "compiled" in version


def _new_directory(parent: Path, seed: int) -> Path:
    """One that nothing is kept in."""
    return next(path for n in itertools.count(1) if not (path := parent / f"seed-{seed}-{n}").exists())


def _say(line: str) -> None:
    print(line, flush=True)
