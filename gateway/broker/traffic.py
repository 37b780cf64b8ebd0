"""Running totals of what the broker took and gave, for the figures that tools ask for."""

from __future__ import annotations


class Traffic:
    """Counts since the start. A plain class: the data path adds to it."""

    __slots__ = ("found_pulls", "given_messages", "missed_pulls", "stored_messages")

    def __init__(self) -> None:
        self.stored_messages = 0
        self.given_messages = 0
        self.found_pulls = 0
        self.missed_pulls = 0
