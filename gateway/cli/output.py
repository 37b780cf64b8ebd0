"""The output of commands: text of a broker, a message or a file cannot move the cursor, hide a line or forge one.

Commands write to a terminal only here, except lines that redraw themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

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


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their headings, in columns; an empty cell is a hyphen."""
    table = [list(head), *([safe_text(cell) or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


SHOWN = 5
"""The number of errors of one kind that are printed in full."""
MAX_RANGES = 20
"""The most ranges of places that a summary lists."""

Place = int | str


@dataclass(slots=True)
class _Kind:
    first: Place
    count: int = 0
    ranges: list[tuple[Place, Place]] = field(default_factory=list)
    is_cut: bool = False

    def add(self, place: Place) -> None:
        """Remember a place that is not printed in full."""
        if self.ranges and isinstance(place, int) and self.ranges[-1][1] == place - 1:
            self.ranges[-1] = self.ranges[-1][0], place
        elif len(self.ranges) < MAX_RANGES:
            self.ranges.append((place, place))
        else:
            self.is_cut = True

    def places(self) -> str:
        """Return the remembered places, such as ``6-166, 170``."""
        texts = [str(first) if first == last else f"{first}-{last}" for first, last in self.ranges]
        return ", ".join([*texts, "…"] if self.is_cut else texts)


class RepeatedErrors:
    """A printer of the first errors of each kind, which counts the others and prints a summary of each kind.

    :param noun: the word for a place: ``"line"``.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._kinds: dict[Hashable, _Kind] = {}

    def tell(self, kind: Hashable, place: Place, text: str) -> None:
        """Print an error, or count it if enough errors of its kind were printed.

        :param place: the number or the name of the failed thing.
        """
        found = self._kinds.setdefault(kind, _Kind(place))
        found.count += 1
        if found.count <= SHOWN:
            say(f"Error: {text}", err=True)
            return
        found.add(place)
        if found.count == SHOWN + 1:
            say(f"Error: more {self._noun}s fail like {self._noun} {found.first}; they are counted only", err=True)

    def end(self) -> None:
        """Print the summaries."""
        for kind in self._kinds.values():
            more = kind.count - SHOWN
            if more > 0:
                nouns = self._noun if more == 1 else f"{self._noun}s"
                places = kind.places()
                say(f"Error: {more} more {nouns} failed like {self._noun} {kind.first}: {places}", err=True)
        self._kinds.clear()
