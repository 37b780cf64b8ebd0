"""Offsets of consumer groups before and after a fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from compat_tests.replica_faults.members import PairMember
from compat_tests.soak.load import Load
from compat_tests.soak.streams import QUEUES

WITNESS = "witness"
"""A group without consumers, so that nobody commits again what a broker forgot."""
_POLL_S = 0.05
GroupPlace: TypeAlias = tuple[str, str, int]
"""Topic, group, queue."""


def offsets_now(load: Load, master: PairMember) -> Mapping[GroupPlace, int]:
    """Commit for the witness; the offsets of all groups."""
    offsets = {}
    for stream in load.streams:
        topic, ends = load.topic(stream), load.accounts[stream.name].ends()
        for queue in range(QUEUES):
            master.commit(topic, WITNESS, queue, ends[queue])
            offsets[topic, WITNESS, queue] = ends[queue]
            offsets[topic, load.group(stream), queue] = master.committed(topic, load.group(stream), queue)
    return offsets


def fallen_back(before: Mapping[GroupPlace, int], master: PairMember) -> Iterator[str]:
    """Find the groups whose offset is below the one that it was; a sentence for each."""
    for place, offset in before.items():
        now = master.committed(*place)
        if now < offset:
            yield f"the offset of {place} was {offset}, and is {now}"


def seconds_to_copy(offsets: Mapping[GroupPlace, int], slave: PairMember, timeout_s: float) -> float:
    """Wait until a slave has the offsets, at most for some time; the seconds that it took."""
    begun, pause = time.monotonic(), threading.Event()
    while any(slave.committed(*place) < offset for place, offset in offsets.items()):
        if time.monotonic() - begun > timeout_s:
            break
        pause.wait(_POLL_S)
    return time.monotonic() - begun
