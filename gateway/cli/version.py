"""``rocketmq-gateway version``: what is installed.

This module keeps the version, and the package's metadata is made from it. Reading the metadata back would cost more
than the rest of the command.
"""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import click

from gateway.cli.output import say

VERSION = "0.1.0"


@click.command()
def version() -> None:
    """Print the version, that of Python, and whether the hot paths run compiled or interpreted."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    say(f"rocketmq-gateway {VERSION} (Python {python}, {'compiled' if is_compiled() else 'interpreted'})")


def is_compiled() -> bool:
    """Return whether the code that runs for every message is an extension module, without loading any of it."""
    wire = find_spec("wire")
    places = [] if wire is None else wire.submodule_search_locations or []
    return any(Path(place, f"frame{suffix}").exists() for place in places for suffix in EXTENSION_SUFFIXES)
