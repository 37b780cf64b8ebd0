"""What rounds of small and costly requests showed, and the verdict: waits, memory, descriptors, growth.

Memory is that of the server without pages of files, above that of the idle server before the first request. Growth is
that of the memory in use: free pieces between objects come and go with the order of the requests, below a fixed limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from compat_tests.unread_answers import MIB, Longest

LONGEST_S: Final = 0.5
LONGEST_BESIDE_LARGEST_S: Final = 1.0
"""An honest wait beside a frame of the largest allowed size."""
WITH_LARGEST_FRAMES: Final = {"numbers", "lenient", "registrations", "large_outcomes", "large_commits"}
MOST_BYTES: Final = 400_000_000
SHARE: Final = 10
"""Memory is back if it is at most one part of so many above what it was."""
NOISE_BYTES: Final = 4 * MIB
"""What the same server shows more or less without any peer: pieces of 1 MiB that Python takes, files being written."""
NOISE_BLOCKS: Final = 20_000
"""What the same server uses more or less: answers being made, messages not yet in a file."""
OPEN_QUEUE_FILES: Final = 512
"""The files of queues that the server keeps open (``gateway.maxOpenConsumeQueueFiles``)."""
OPEN_TWICE: Final = 2
"""The files of the log and of the key index that may be open twice for a moment: each is open once for good."""


class Stays(NamedTuple):
    """What a kind may leave, in MiB: objects, and pieces of free memory that a few objects keep from the system."""

    objects: int = 0
    pieces: int = 0


STAYS: Final[Mapping[str, Stays]] = {
    "statistics": Stays(2, 2),
    "transaction_pages": Stays(2),
    "pops": Stays(6),
    "lists_together": Stays(3),
    "held_pulls": Stays(pieces=75),
    "heartbeats_together": Stays(21, 22),
    "registrations": Stays(pieces=60),
    "lite_changes": Stays(1, 60),
    "light_queues": Stays(12),
    "new_queues": Stays(12),
}
"""The kinds that leave memory by design, as ``docs/limits.md`` says; all others leave nothing."""


class InUse(NamedTuple):
    """Memory that the server's objects use, as its metrics tell: blocks of small objects, bytes of large ones."""

    blocks: int = 0
    heap_bytes: int = 0

    def growth(self, before: InUse) -> Iterator[str]:
        """Yield what is more than a tenth above that before, with by how much."""
        heap_before = before.heap_bytes / MIB
        yield from _over("in use", self.blocks, _grown(before.blocks, NOISE_BLOCKS), "blocks")
        yield from _over("in use of the heap", self.heap_bytes / MIB, _grown(heap_before, NOISE_BYTES / MIB), "MiB")


@dataclass(frozen=True)
class Descriptors:
    """Open descriptors: those of files of queues, those of files of the log or key index that are open more than once,
    and all others, such as connections.
    """

    others: int = 0
    queue_files: int = 0
    log_files: int = 0

    def __sub__(self, before: Descriptors) -> Descriptors:
        return Descriptors(
            self.others - before.others, self.queue_files - before.queue_files, self.log_files - before.log_files
        )

    def __str__(self) -> str:
        return f"{self.others:+d} descriptors, {self.queue_files:+d} queue files, {self.log_files:+d} log files twice"


@dataclass(frozen=True)
class Seen:
    """The results of one kind in one round: memory and descriptors above those of the idle server, longest waits."""

    kind: str
    waits: tuple[Longest, ...]
    peak_bytes: int
    after_bytes: int
    in_use: InUse
    descriptors: Descriptors
    answers: Counter[str]

    @property
    def own_wait_s(self) -> float:
        """The longest wait of an honest client, less the machine's part of it."""
        return max(wait.own_s for wait in self.waits)

    def __str__(self) -> str:
        waits = " ".join(map(str, self.waits))
        answers = ", ".join(f"{name} {count}" for name, count in self.answers.most_common(4))
        memory = f"at most {self.peak_bytes / MIB:+.0f} MiB, {self.after_bytes / MIB:+.1f} after"
        memory += f", {self.in_use.blocks:,} blocks and {self.in_use.heap_bytes / MIB:.1f} MiB in use"
        return f"{self.kind:19} send, pull, route waited {waits} s; {memory}; {self.descriptors}; {answers}"


@dataclass(frozen=True)
class Trial:
    """Everything that one run showed.

    :param idle_bytes: memory of the server before the first request.
    :param rounds: the results of each whole round, with the same kinds in the same order.
    :param refusals: what went wrong for honest clients.
    """

    idle_bytes: int
    rounds: Sequence[Sequence[Seen]]
    refusals: Sequence[str] = ()

    def faults(self) -> list[str]:
        """Return what does not hold, each with by how much."""
        return [*self.refusals, *self._of_kinds(), *self._of_rounds()]

    def _of_kinds(self) -> Iterator[str]:
        for seen in zip(*self.rounds, strict=True):
            kind, first, last = seen[0].kind, seen[0], seen[-1]
            yield from _over(f"{kind}: others waited", max(one.own_wait_s for one in seen), longest_s(kind), "s")
            yield from _over(f"{kind}: at most", max(one.peak_bytes for one in seen) / MIB, MOST_BYTES / MIB, "MiB")
            others = max(one.descriptors.others for one in seen)
            yield from _over(f"{kind}: descriptors left open", others, 0, "more than before")
            added = first.after_bytes - self._before(first)
            yield from _over(f"{kind}: left in the first round", added / MIB, self._may_leave_mib(kind), "MiB")
            if len(seen) > 2:
                # What all kinds leave once was there from the second round on.
                yield from (f"{kind}: {grown}" for grown in last.in_use.growth(seen[1].in_use))

    def _of_rounds(self) -> Iterator[str]:
        first, last = self.rounds[0][-1], self.rounds[-1][-1]
        yield from (f"all: {grown}" for grown in last.in_use.growth(first.in_use))
        stays = [STAYS.get(one.kind, Stays()) for one in self.rounds[0]]
        # Pieces that one kind leaves are used by the next one.
        may_stay = sum(one.objects for one in stays) + max(one.pieces for one in stays) + self._idle_share_mib
        yield from _over("all: above idle after a round", max(self.rests) / MIB, may_stay, "MiB")
        for one in (seen[-1].descriptors for seen in self.rounds[-1:]):
            yield from _over("all: files of queues left open", one.queue_files, OPEN_QUEUE_FILES, "files")
            yield from _over("all: files of the log open twice", one.log_files, OPEN_TWICE, "files")

    @property
    def rests(self) -> list[int]:
        """The memory above idle after each round."""
        return [seen[-1].after_bytes for seen in self.rounds]

    def _before(self, first: Seen) -> int:
        """Return the memory before a kind of the first round."""
        return next((left.after_bytes for left, one in pairwise(self.rounds[0]) if one is first), 0)

    def _may_leave_mib(self, kind: str) -> float:
        return sum(STAYS.get(kind, Stays())) + self._idle_share_mib

    @property
    def _idle_share_mib(self) -> float:
        """What any server shows more at one time than at another."""
        return max(NOISE_BYTES, self.idle_bytes / SHARE) / MIB

    def table(self) -> str:
        """Return one line for each kind and one for all, over all rounds."""
        title = f"{'kind':19} {'wait s':>7} {'limit':>5} {'peak MiB':>9} {'left MiB: first':>16} {'last':>6} {'fds':>4}"
        lines = [title]
        for seen in zip(*self.rounds, strict=True):
            kind, first, last = seen[0].kind, seen[0], seen[-1]
            lines.append(
                f"{kind:19} {max(one.own_wait_s for one in seen):7.2f} {longest_s(kind):5.1f} "
                f"{max(one.peak_bytes for one in seen) / MIB:9.0f} {first.after_bytes / MIB:16.1f} "
                f"{last.after_bytes / MIB:6.1f} {max(one.descriptors.others for one in seen):4d}"
            )
        everything = [one for seen in self.rounds for one in seen]
        rests = " ".join(f"{rest / MIB:.1f}" for rest in self.rests)
        used = " ".join(f"{seen[-1].in_use.blocks:,}/{seen[-1].in_use.heap_bytes / MIB:.1f}" for seen in self.rounds)
        lines.append(
            f"{'all':19} {max(one.own_wait_s for one in everything):7.2f} {'':5} "
            f"{max(one.peak_bytes for one in everything) / MIB:9.0f} above idle ({self.idle_bytes / MIB:.1f} MiB) "
            f"after each of {len(self.rounds)} rounds: {rests}; blocks/MiB in use: {used}"
        )
        return "\n".join(lines)


def longest_s(kind: str) -> float:
    """Return how long others may wait beside a kind."""
    return LONGEST_BESIDE_LARGEST_S if kind in WITH_LARGEST_FRAMES else LONGEST_S


def _grown(before: float, noise: float) -> float:
    """Return the most that counts as no growth."""
    return before + max(noise, before / SHARE)


def _over(what: str, value: float, limit: float, unit: str) -> Iterator[str]:
    if value > limit:
        yield f"{what} {value:.2f} {unit}, {value - limit:.2f} over the limit of {limit:.2f}"
