"""``python -m gateway.tests.simulation.planted``: look for every planted bug, and print which seed finds it."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import click

from gateway.tests.simulation.campaign import COLLECTED_AFTER, judge
from gateway.tests.simulation.planted.bugs import BUGS, UNPROVEN, Bug


def first_seed(bug: Bug, within: int) -> tuple[int, str] | None:
    """Return the first seed that finds a bug, and what it says; None if none does."""
    with ExitStack() as stack:

        def plant(target: Any, name: str, value: object) -> None:
            stack.enter_context(patch.object(target, name, value))

        bug.plant(plant)
        for seed in range(within):
            account, violation = judge(seed, bug.kind)
            if account is None:
                return seed, violation
            if seed % COLLECTED_AFTER == 0:
                gc.collect()
    return None


@click.command()
@click.option("--within", type=int, help="Play at most so many seeds for each bug.")
@click.argument("names", nargs=-1)
def main(within: int | None, names: tuple[str, ...]) -> None:
    """Look for planted bugs; all of them unless some are named."""
    logging.disable(logging.CRITICAL)
    missed = 0
    known = {**BUGS, **UNPROVEN}
    for name in names or BUGS:
        started = time.process_time()
        found = first_seed(known[name], within or known[name].within)
        missed += found is None
        said = "NOT FOUND" if found is None else f"{found[1][:160]}"
        click.echo(f"{name}: {said} ({time.process_time() - started:.1f} s)")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "gateway.tests.simulation.planted", *sys.argv[1:]])
    main()
