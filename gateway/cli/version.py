"""``rocketmq-gateway version``: what is installed.

The number is kept here, and the package's metadata is made from it: reading that metadata back would
cost more than the rest of the command.
"""

from __future__ import annotations

import sys

import click

VERSION = "0.1.0"


@click.command()
def version() -> None:
    """Print the version."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    click.echo(f"rocketmq-gateway {VERSION} (Python {python})")
