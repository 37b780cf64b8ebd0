"""The proof that two logs are equal up to a place: their records at the last, then exponentially earlier places.

Which records are compared, ``MessageStore.record_begins`` says; the other broker's bytes are the answer to request 33
(view a message by its offset). The proof holds where every earlier connection was proven, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LOOK = "find out which log is right before you empty a directory (docs/replication.md)"


@dataclass(frozen=True, slots=True)
class Compared:
    """One record of this log, and the bytes at the same place of the other log."""

    offset: int
    ours: bytes
    theirs: bytes | None
    """The record at the same offset of the other log; None if the other broker shows none there."""


def difference(place: int, compared: Sequence[Compared]) -> str | None:
    """Return why two logs are not proven to be equal up to ``place``; None if they are.

    :param compared: the records, the last one of the logs first.
    """
    if not compared:
        return f"no record below offset {place} is in both logs, so nothing proves that they are equal: {LOOK}"
    for record in compared:
        if record.theirs is None:
            return (
                f"the other log has no record at offset {record.offset}, this one has {len(record.ours)} bytes there: "
                f"{LOOK}"
            )
        if record.theirs != record.ours:
            return f"the records at offset {record.offset} differ, from byte {_first_difference(record)} on: {LOOK}"
    return None


def _first_difference(record: Compared) -> int:
    ours, theirs = record.ours, record.theirs or b""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((number for number, (our, their) in pairs if our != their), min(len(ours), len(theirs)))


def refused_place(place: int, begin: int, end: int) -> str | None:
    """Return why a copy that ends at ``place`` cannot be continued from a master's log; None if it can.

    :param begin: where the master's log begins; ``end`` is where it ends.
    :param place: 0 for a log without any record, which may begin anywhere.
    """
    if place > end:
        return (
            f"the copy reaches to {place}, and the master's log ends at {end}: a copy that is ahead is of another log, "
            f"or the master's log lost its end: {LOOK}"
        )
    if 0 < place < begin:
        return (
            f"the copy reaches to {place}, and the master's log begins at {begin}: empty the copy's directory and copy "
            "anew"
        )
    return None
