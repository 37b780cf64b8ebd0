"""``python -m gateway.tests.stress``: threads on one store for some time; ends with 1 when anything was wrong."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.tests.compiled import refuse_interpreted
from gateway.tests.stress.load import Plan, Stress, written_settings
from wire.compiled import IS_COMPILED


@click.command()
@click.option("--minutes", default=1.0, show_default=True, help="Of load; the comparison afterwards comes on top.")
@click.option("--queues", default=8000, show_default=True)
@click.option("--open-files", default=512, show_default=True, help="gateway.maxOpenConsumeQueueFiles.")
@click.option("--readers", default=3, show_default=True, help="Threads that read old messages.")
@click.option("--seed", default=1, show_default=True)
@click.option("--extended/--plain", help="Consume queues with extensions.")
@click.option("--compiled", "must_be_compiled", is_flag=True, help="Refuse to run interpreted.")
@click.option("--directory", type=click.Path(path_type=Path), help="Empty; removed unless something was wrong.")
def main(
    minutes: float,
    queues: int,
    open_files: int,
    readers: int,
    seed: int,
    extended: bool,
    must_be_compiled: bool,
    directory: Path | None,
) -> None:
    """Write, read, search, flush and delete in many threads, and compare every unit and index entry afterwards."""
    if must_be_compiled:
        refuse_interpreted()
    root = Path(tempfile.mkdtemp(prefix="stress-")) if directory is None else directory
    plan = Plan(minutes * 60, queues, open_files, readers, seed, extended)
    click.echo(f"{'compiled' if IS_COMPILED else 'interpreted'}: {plan}")
    account = Stress(root, plan).run()
    click.echo(", ".join(f"{count:,} {what}" for what, count in sorted(account.counts.items())))
    verified = CliRunner().invoke(cli, ["store", "verify", str(root), "-c", str(written_settings(root))])
    click.echo(verified.output.strip())
    for complaint in account.complaints:
        click.echo(complaint, err=True)
    if account.complaint_count or verified.exit_code:
        click.echo(f"{account.complaint_count} complaints; the directory is kept: {root}", err=True)
        sys.exit(1)
    shutil.rmtree(root)
    click.echo("every unit and every index entry is right")


if __name__ == "__main__":
    main()
