"""``python -m gateway.tests.simulation``: as many histories as asked; ends with 1 if a promise was broken."""

from __future__ import annotations

import logging
import os
import sys
import time

import click

from gateway.tests.simulation.campaign import again, in_processes, summary
from gateway.tests.simulation.controlled.history import ControlledHistory
from gateway.tests.simulation.history import Account, History
from gateway.tests.simulation.popping.history import PoppingHistory
from gateway.tests.simulation.world import Violation
from wire.compiled import IS_COMPILED

MOST_FINDINGS = 20
"""The findings after which a campaign ends."""


@click.command()
@click.option("--seeds", default=1_000, show_default=True, help="How many histories to play.")
@click.option("--first", default=0, show_default=True, help="Of the first history.")
@click.option("--processes", default=1, show_default=True, help="How many processes play.")
@click.option("--seed", type=int, help="Play this history only.")
@click.option("--controller", is_flag=True, help="Let a controller decide who is the master.")
@click.option("--pops", is_flag=True, help="Let a group pop besides.")
@click.option("--trace", is_flag=True, help="Write down everything that happens in it.")
def main(seeds: int, first: int, processes: int, seed: int | None, controller: bool, pops: bool, trace: bool) -> None:
    """Play histories of brokers that replicate, and compare what is left with what was promised."""
    if IS_COMPILED:
        sys.exit("the simulation replaces parts of the gateway, and runs interpreted only")
    logging.disable(logging.CRITICAL)
    if controller and pops:
        sys.exit("--controller and --pops: one kind of history at a time")
    kind = ControlledHistory if controller else PoppingHistory if pops else History
    if seed is not None:
        _one(seed, kind(seed, is_traced=trace))
        return
    started = time.monotonic()
    done, findings, total = 0, 0, Account()
    for count, account, found in in_processes(first, seeds, processes, kind):
        done += count
        total.add(account)
        for each, violation in found:
            findings += 1
            click.echo(f"{violation}\n{again(each, kind)}", err=True)
        minutes = (time.monotonic() - started) / 60
        _line(f"{done:,} histories, {findings} findings, {done / minutes:,.0f} a minute")
        if findings >= MOST_FINDINGS:
            break
    seconds = time.monotonic() - started
    click.echo(f"\nseeds {first} … {first + done - 1}: {findings} findings; {summary(total)}")
    click.echo(f"{seconds:.0f} s, {done / seconds * 60:,.0f} histories a minute in {processes} processes")
    sys.exit(1 if findings else 0)


def _one(seed: int, history: History) -> None:
    violation: Violation | None = None
    try:
        account = history.play()
    except Violation as found:
        violation = found
    for line in history.world.trace or ():
        click.echo(line)
    if violation is not None:
        click.echo(f"seed {seed}: {violation}", err=True)
        sys.exit(1)
    click.echo(summary(account))


def _line(text: str) -> None:
    """One line that is written over on a terminal."""
    click.echo(f"\r{text:<79}" if sys.stdout.isatty() else text, nl=not sys.stdout.isatty())


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "gateway.tests.simulation", *sys.argv[1:]])
    main()
