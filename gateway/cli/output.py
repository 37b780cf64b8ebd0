"""The output of commands: text of a broker, a message or a file cannot move the cursor, hide a line or forge one.

Commands write to a terminal only here, except lines that redraw themselves.
"""

from __future__ import annotations

import click

from wire.safe_text import safe_json, safe_lines, safe_text


def say(line: str, *, err: bool = False) -> None:
    r"""Print one line, on standard error if ``err``; a line break inside the line is shown as ``\u000a``."""
    click.echo(safe_text(line), err=err)


def say_lines(text: str, *, err: bool = False) -> None:
    """Print text of several lines, such as an error with its advice."""
    click.echo(safe_lines(text), err=err)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Print a value as JSON, on one line if there is no ``indent``."""
    click.echo(safe_json(value, indent))
