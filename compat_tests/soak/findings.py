"""The faults that were found: counted by kind, with the first few of each kind in words."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

SENTENCES_PER_KIND = 8


class Wrong(StrEnum):
    """The kinds of faults."""

    LOST = "lost"
    """Acknowledged (or read once), and not there."""
    DOUBLED = "doubled"
    """Stored more often than any client sent it."""
    FLIPPED = "flipped"
    """Rolled back, and readable."""
    CHANGED = "changed"
    """A place in a queue holds another message than before."""
    HOLE = "holes"
    """A place below the end of a queue that cannot be read."""
    DISORDERED = "out of order"
    """Sent one after the other, stored the other way round."""
    BACKWARDS = "offsets went backwards"
    """The end of a queue, or a group's saved progress."""
    MISSED = "missed by its consumer"
    """Stored, and never delivered to the consumer that ran all the time."""
    PHANTOM = "delivered, not stored"
    """A consumer got what is not in the store."""
    CORRUPT = "corrupt"
    """Another body than was sent, or a message of another topic."""
    UNSAFE = "acknowledged after a failed write"
    """A send was answered SEND_OK while the store knew that it cannot keep promises."""
    STUCK = "stuck"
    """The clients did not get on though the broker served, or a step of the soak failed."""
    UNCLEAR = "unclear refusals"
    """A refusal, of a send or of a start, that does not say why."""


class Findings:
    """Everything found wrong in one run."""

    def __init__(self) -> None:
        self.counts: Counter[Wrong] = Counter()
        self.sentences: list[str] = []

    def add(self, kind: Wrong, sentence: str) -> None:
        """One more; only the first few of a kind keep their sentence."""
        self.counts[kind] += 1
        if self.counts[kind] <= SENTENCES_PER_KIND:
            self.sentences.append(f"{kind}: {sentence}")

    @property
    def is_serious(self) -> bool:
        """Return whether a continued run would only blur what the store still shows."""
        return any(kind is not Wrong.UNCLEAR for kind in self.counts)

    @property
    def is_clean(self) -> bool:
        return not self.counts
