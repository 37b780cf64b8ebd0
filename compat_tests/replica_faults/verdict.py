"""The verdict on one stream: what its clients were told, against what a new reader found in the end. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

from compat_tests.soak.account import Entry


@dataclass(frozen=True, slots=True)
class Verdict:
    """The counts of one stream, or of several."""

    acknowledged: int = 0
    """Messages answered SEND_OK, or transactions whose half message was."""
    lost: int = 0
    """Acknowledged, or committed, and nowhere."""
    moved: int = 0
    """Acknowledged at one offset, and only at another."""
    doubled: int = 0
    """At more offsets than the producer sent it."""
    resent: int = 0
    """At several offsets, since the producer sent it several times."""
    flipped: int = 0
    """Transactions that were rolled back and are readable."""

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Verdict)))


def judge(
    told: Iterable[Entry],
    found: Iterable[Entry],
    attempts: Callable[[int], int],
    commits: Callable[[int], bool] | None = None,
) -> Verdict:
    """Judge a stream.

    :param attempts: how often the producer has put a number on the wire.
    :param commits: for transactions, which are told without places: whether a number may be found.
    """
    places: dict[int, set[tuple[int, int]]] = {}
    for number, queue, offset in found:
        places.setdefault(number, set()).add((queue, offset))
    acknowledged = lost = moved = 0
    for number, queue, offset in told:
        acknowledged += 1
        if commits is not None:
            lost += commits(number) and number not in places
        elif number not in places:
            lost += 1
        else:
            moved += (queue, offset) not in places[number]
    several = [number for number, where in places.items() if len(where) > 1]
    doubled = sum(len(places[number]) > attempts(number) for number in several)
    flipped = sum(not commits(number) for number in places) if commits is not None else 0
    return Verdict(acknowledged, lost, moved, doubled, len(several) - doubled, flipped)
