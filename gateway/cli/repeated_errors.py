"""Error lines of a command that handles many things, where the same error is not printed for each thing."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from gateway.cli.output import say

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
