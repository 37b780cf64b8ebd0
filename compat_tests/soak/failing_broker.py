"""The ordinary broker on a disk that fails on order: `rocketmq-gateway serve` with another ``FileLayer``.

    python -m compat_tests.soak.failing_broker ORDER_FILE serve --data DIR …

See ``failing_files`` for the order. Only the message store writes through it: the JSON tables have files of their
own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from compat_tests.soak.failing_files import FailingFiles
from gateway.cli.main import ToolCommands
from gateway.cli.options import Sources, load_options, settings_options
from gateway.cli.serving.run import run
from gateway.settings.files.load import Role

ORDER = Path(sys.argv[1])


@click.group(cls=ToolCommands)
def cli() -> None:
    """Run one command, as the command line of the gateway does."""


@cli.command()
@settings_options("--port", "--nameserver-port", "--nameserver", "--advertise")
def serve(sources: Sources, **options: str | None) -> None:
    """Run a name server and a broker in one process."""
    run(Role.SERVE, load_options(Role.SERVE, sources, **options), files=FailingFiles(ORDER))


if __name__ == "__main__":
    cli(sys.argv[2:], prog_name="rocketmq-gateway")
