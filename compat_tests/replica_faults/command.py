"""The command: arguments, progress lines, the table, an exit code.

0: nothing is wrong; 1: something is; 2: the machine does not allow a fault that was asked for.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from compat_tests import environment
from compat_tests.java_client import CLIENT_VERSIONS, java_client
from compat_tests.replica_faults.members import Kind
from compat_tests.replica_faults.plan import Trouble
from compat_tests.replica_faults.run import WantedRun, run_faults
from compat_tests.replica_faults.table import lines, write
from compat_tests.soak.small_disk import NotPossible

_PAIRS = {f"{master}-{slave}": (master, slave) for master, slave in itertools.product(Kind, Kind)}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments, checked."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.replica_faults", description=__doc__.splitlines()[0])
    parser.add_argument("--pair", choices=_PAIRS, default="ours-ours", help="master and slave (default: ours-ours)")
    parser.add_argument("--faults", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--minutes", type=float, help="end earlier, after this time")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and their moments (default: 1)")
    parser.add_argument(
        "--kinds",
        type=lambda text: tuple(Trouble(name) for name in text.split(",")),
        default=tuple(Trouble),
        help=f"some of {','.join(Trouble)} (default: all)",
    )
    parser.add_argument("--go-on", action="store_true", help="go on when something is wrong, and count all of it")
    parser.add_argument("--out", type=Path, help="where the outcome is written as JSON")
    parser.add_argument("--table", type=Path, nargs="+", help="only print such files beside each other")
    parser.add_argument("--directory", type=Path, default=Path("var/replica-faults"), help="where stores are made")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the faults; the exit code."""
    options = parse(arguments)
    if options.table:
        print("\n".join(lines(options.table)))
        return 0
    wanted = WantedRun(
        kinds=_PAIRS[options.pair],
        seed=options.seed,
        directory=_new_directory(options.directory.absolute(), f"{options.pair}-{options.seed}"),
        faults=options.faults,
        minutes=options.minutes,
        troubles=options.kinds,
        goes_on=options.go_on,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that machines, disks and the container go away
    environment.start_engine()
    environment.remove_leftovers()
    out = options.out or wanted.directory / "outcome.json"
    try:
        with java_client(CLIENT_VERSIONS[-1]) as client:
            outcome = run_faults(client, wanted, _say)
    except NotPossible as reason:
        print(f"Error: {reason}", file=sys.stderr)
        return 2
    write(outcome, out)
    for line in [*lines([out]), "", *outcome.findings.sentences]:
        _say(line)
    if not outcome.findings.is_clean:
        _say(f"kept for a look: {wanted.directory}")
        return 1
    shutil.rmtree(wanted.directory, ignore_errors=not options.out)
    return 0


def _new_directory(parent: Path, name: str) -> Path:
    """One that nothing is kept in."""
    return next(path for n in itertools.count(1) if not (path := parent / f"{name}-{n}").exists())


def _say(line: str) -> None:
    print(line, flush=True)
