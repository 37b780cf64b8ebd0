"""``python -m gateway.tests.crash``: as many crash images as asked; ends with 1 at the first finding."""

from __future__ import annotations

import logging
import sys
import time

import click

from gateway.tests.compiled import refuse_interpreted
from gateway.tests.crash.exploration import Exploration, Finding, Progress
from gateway.tests.crash.workload import WORKLOADS
from wire.compiled import IS_COMPILED


@click.command()
@click.option("--seed", default=1, show_default=True, help="Of the first round; each further round adds one.")
@click.option("--images", default=50_000, show_default=True, help="Judge at least so many.")
@click.option("--rounds", default=0, help="Play so many rounds instead, whatever the number of images.")
@click.option(
    "--workload", "names", multiple=True, type=click.Choice(list(WORKLOADS)), help="Only this one; repeatable."
)
@click.option("--sample", type=int, help="Judge only about so many images of each workload and seed.")
@click.option("--compiled", "must_be_compiled", is_flag=True, help="Refuse to run interpreted.")
def main(
    seed: int, images: int, rounds: int, names: tuple[str, ...], sample: int | None, must_be_compiled: bool
) -> None:
    """Cut the power of a broker at every write and see what is left."""
    if must_be_compiled:
        refuse_interpreted()
    logging.disable(logging.CRITICAL)  # every recovery of a torn log has something to tell
    started = time.monotonic()
    done = Progress()
    number = 0
    while number < rounds if rounds else done.images < images:
        for name in names or WORKLOADS:
            _explore(name, seed + number, sample, done)
            rate = done.images / (time.monotonic() - started) * 60
            _line(f"seed {seed + number} {name}: {done.images:,} images, {rate:,.0f} a minute")
        number += 1
    seconds = time.monotonic() - started
    click.echo(
        f"\n{done.images:,} images ({done.again:,} of them cut during or after a recovery) at {done.changes:,} changes "
        f"of {done.lives:,} lives, seeds {seed} … {seed + number - 1}, {'compiled' if IS_COMPILED else 'interpreted'}: "
        "every promise kept "
        f"({seconds:.0f} s, {done.images / seconds * 60:,.0f} a minute)"
    )


def _explore(name: str, seed: int, sample: int | None, done: Progress) -> None:
    exploration = Exploration(WORKLOADS[name], seed, images=sample)
    try:
        found = exploration.run()
    except Finding as finding:
        click.echo(f"\n{finding}", err=True)
        sys.exit(1)
    done.images += found.images
    done.again += found.again
    done.changes += found.changes
    done.lives += found.lives


def _line(text: str) -> None:
    """One line that is written over on a terminal."""
    click.echo(f"\r{text:<79}" if sys.stdout.isatty() else text, nl=not sys.stdout.isatty())


if __name__ == "__main__":
    main()
