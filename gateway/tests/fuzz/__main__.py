"""``python -m gateway.tests.fuzz``: fuzz a server for some minutes, or send a journal again and make it smaller."""

from __future__ import annotations

import sys
from pathlib import Path
from random import SystemRandom

import click

from gateway.tests.fuzz.accounts.party import Kind
from gateway.tests.fuzz.journal import load, save
from gateway.tests.fuzz.run import Plan, errors_of, least, run
from gateway.tests.fuzz.verdict import Limits

MAX_SHOWN_BYTES = 2_000


@click.command()
@click.option("--minutes", type=float, default=1.0, help="How long (default 1).")
@click.option("--seed", type=int, help="The same requests as in another run, as far as the answers are the same.")
@click.option("--rate", type=float, default=150.0, help="Requests a second (default 150).")
@click.option("--compiled/--interpreted", default=False, help="Which packages the server loads.")
@click.option("--accounts", type=click.Choice([*map(str, Kind)]), default="none", help="With access control (none).")
@click.option("--longest-ms", type=float, default=1_000.0, help="The longest wait of an honest client (default 1000).")
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/fuzz"), help="For journal and log.")
@click.option("--replay", "journal", type=click.Path(exists=True, path_type=Path), help="Send this journal instead.")
@click.option("--shrink/--no-shrink", default=False, help="With --replay: look for the least that brings an error.")
def main(
    minutes: float,
    seed: int | None,
    rate: float,
    compiled: bool,
    accounts: str,
    longest_ms: float,
    out: Path,
    journal: Path | None,
    shrink: bool,
) -> None:
    """Fuzz the name server and the broker beside honest clients that are judged."""
    if journal is not None:
        _replay(journal, out, Kind(accounts), compiled=compiled, shrink=shrink)
    chosen = SystemRandom().randrange(10**6) if seed is None else seed
    click.echo(f"seed {chosen}, {minutes:g} minutes, {'compiled' if compiled else 'interpreted'}, accounts: {accounts}")
    plan = Plan(minutes, chosen, rate, out, compiled, Limits(longest_ms), Kind(accounts))
    found = run(plan, _say)
    for sentence in found:
        click.echo(f"WRONG: {sentence}")
    click.echo(f"{len(found)} wrong" if found else "all is well")
    sys.exit(1 if found else 0)


def _replay(journal: Path, out: Path, accounts: Kind, *, compiled: bool, shrink: bool) -> None:
    entries = load(journal)
    if shrink:
        entries = least(entries, _say, compiled=compiled, accounts=accounts)
        save(out / "least.jsonl", entries)
        for entry in entries:
            click.echo(f"{entry.connection} {entry.server} {(entry.data or b'closed')[:MAX_SHOWN_BYTES]!r}")
    errors = errors_of(entries, compiled=compiled, accounts=accounts)
    for line in errors:
        click.echo(line.replace("\\n", "\n"))
    click.echo(f"{len(entries)} writes, {len(errors)} errors")
    sys.exit(1 if errors else 0)


def _say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
