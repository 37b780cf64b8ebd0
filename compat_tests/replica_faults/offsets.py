"""Offsets of consumer groups before and after a fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from compat_tests.replica_faults.members import GroupPlace, PairMember
from compat_tests.soak.load import Load

WITNESS = "witness"
"""A group without consumers, so that nobody commits again what a broker forgot."""
_POLL_S = 0.05


def offsets_now(load: Load, master: PairMember) -> Mapping[GroupPlace, int]:
    """Commit for the witness; the offsets of all groups."""
    for stream in load.streams:
        for queue, end in enumerate(load.accounts[stream.name].ends()):
            master.commit(load.topic(stream), WITNESS, queue, end)
    topics = {load.topic(stream) for stream in load.streams}
    return {place: offset for place, offset in master.offsets().items() if place[0] in topics}


def fallen_back(before: Mapping[GroupPlace, int], master: PairMember) -> list[str]:
    """Find the groups whose offset is below the one that it was; a sentence for each."""
    now = master.offsets()
    return [
        f"the offset of {place} was {offset}, and is {now.get(place)}"
        for place, offset in before.items()
        if now.get(place, -1) < offset
    ]


def seconds_to_copy(offsets: Mapping[GroupPlace, int], slave: PairMember, timeout_s: float) -> float:
    """Wait until a slave has the offsets, at most for some time; the seconds that it took."""
    begun, pause = time.monotonic(), threading.Event()
    while fallen_back(offsets, slave) and time.monotonic() - begun < timeout_s:
        pause.wait(_POLL_S)
    return time.monotonic() - begun
