"""The account of one topic: what its clients were told, against what is stored. The oracle of the soak; no I/O.

A place is a queue and an offset in it. Senders are told places, readers find numbers at places, the live consumer
is given numbers with places; whatever two of them say about the same place or number must agree. Transactions are
told without places: there the number alone says whether it must or must not be found.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from compat_tests.soak.findings import Findings, Wrong

Entry: TypeAlias = tuple[int, int, int]
"""Number, queue, queue offset."""

NOTHING = -1
_OFFSET_BITS = 40


class Account:
    """One topic.

    :param commits: for transactions: whether a number may ever be found.
    :param shards: for orderly sends: numbers equal modulo this were sent one after the other; 0 otherwise.
    """

    def __init__(
        self,
        name: str,
        findings: Findings,
        *,
        queues: int = 4,
        commits: Callable[[int], bool] | None = None,
        shards: int = 0,
    ) -> None:
        self.name = name
        self._findings = findings
        self._commits = commits
        self._shards = shards
        self._stored = [array("i") for _ in range(queues)]
        self._minimum = [0] * queues
        self._told = array("q")
        self._found = array("q")
        self._attempts: dict[int, int] = {}
        self._copies: dict[int, int] = {}
        self._more_copies: list[tuple[int, int, int]] = []
        self._unchecked: list[Entry] = []
        self._delivered = [bytearray() for _ in range(queues)]
        self._undelivered_yet: list[Entry] = []
        self.acknowledged = 0
        self.committed = 0
        self.found = 0
        self.repeated_by_client = 0
        self.redelivered = 0
        self.expired_unread = 0

    # -- what the clients were told ---------------------------------------------------------------------------

    def acknowledge(self, entries: Iterable[Entry]) -> None:
        """SEND_OK, with places, or for half messages without."""
        for entry in entries:
            number, queue, offset = entry
            self.acknowledged += 1
            if self._commits is not None:
                self.committed += self._commits(number)
                _put(self._told, number, 0)
                continue
            if _get(self._told, number) != NOTHING:
                self._wrong(Wrong.DOUBLED, f"message {number} was acknowledged twice")
            _put(self._told, number, _pack(queue, offset))
            self._unchecked.append(entry)

    def attempted(self, number: int, attempts: int) -> None:
        """The client itself has put a message on the wire that often."""
        self._attempts[number] = max(attempts, self._attempts.get(number, 1))

    def deliver(self, entries: Iterable[Entry]) -> None:
        """The live consumer got these."""
        self._undelivered_yet += entries

    def told(self) -> Iterator[Entry]:
        """Every acknowledged message with its place; half messages at 0/0."""
        for number, place in enumerate(self._told):
            if place != NOTHING:
                yield number, place >> _OFFSET_BITS, place & (1 << _OFFSET_BITS) - 1

    def attempts(self, number: int) -> int:
        """Return how often the client has put a message on the wire."""
        return self._attempts.get(number, 1)

    # -- what is stored ---------------------------------------------------------------------------------------

    def end(self, queue: int) -> int:
        """The offset after the last one that was read."""
        return len(self._stored[queue])

    def ends(self) -> list[int]:
        return [len(stored) for stored in self._stored]

    def read(self, queue: int, minimum: int, start: int, end: int, found: Iterable[tuple[int, int]]) -> None:
        """A reader found these (offset, number) from ``start`` to ``end``; afterwards the queue began at ``minimum``.

        Then everything acknowledged before the reading began must be there: see ``check``.
        """
        stored = self._stored[queue]
        known = len(stored)
        if end < known:
            self._wrong(Wrong.BACKWARDS, f"queue {queue} ended at {known}, now at {end}")
            for offset in range(max(end, minimum), known):
                self._wrong(
                    Wrong.LOST, f"message {stored[offset]} was readable at {queue}/{offset}, the queue ends below"
                )
        self._minimum[queue] = max(self._minimum[queue], minimum)
        if end > known:
            stored.extend(array("i", [NOTHING]) * (end - known))
        seen = set()
        for offset, number in found:
            seen.add(offset)
            if 0 <= offset < len(stored):
                self._put_stored(queue, offset, number)
        for offset in range(max(start, minimum), end):
            if offset in seen:
                continue
            if offset < known and stored[offset] != NOTHING:
                self._wrong(Wrong.LOST, f"message {stored[offset]} was readable at {queue}/{offset}, now nothing is")
            else:
                self._wrong(Wrong.HOLE, f"nothing at {queue}/{offset}, though the queue is [{minimum}, {end})")

    def _put_stored(self, queue: int, offset: int, number: int) -> None:
        before = self._stored[queue][offset]
        if before != NOTHING:
            if before != number:
                self._wrong(Wrong.CHANGED, f"{queue}/{offset} held message {before}, now {number}")
            return
        self._stored[queue][offset] = number
        if number < 0:
            self._wrong(Wrong.CORRUPT, f"a message of another topic at {queue}/{offset}")
            return
        if self._commits is not None and not self._commits(number):
            self._wrong(Wrong.FLIPPED, f"transaction {number} was rolled back and is readable at {queue}/{offset}")
        first = _get(self._found, number)
        if first == NOTHING:
            self.found += 1
            _put(self._found, number, _pack(queue, offset))
            return
        self._more_copies.append((number, first, _pack(queue, offset)))

    # -- verdicts ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything acknowledged since the last check must have been read by now at its place."""
        unchecked, self._unchecked = self._unchecked, []
        for number, queue, offset in unchecked:
            there = self._at(queue, offset)
            if there == number:
                continue
            if there == NOTHING and offset < self._minimum[queue]:
                self.expired_unread += 1
                continue
            what = "nothing" if there == NOTHING else f"message {there}"
            self._wrong(Wrong.LOST, f"message {number} was acknowledged at {queue}/{offset}, where there is {what}")
        delivered, self._undelivered_yet = self._undelivered_yet, []
        for entry in delivered:
            self._check_delivery(*entry)

    def check_copies(self) -> None:
        """Check that messages that were read more than once were sent more than once.

        To be called when the clients were asked for their attempts *after* the reading: a client may repeat a send
        while somebody reads, and what it says before that does not count it.
        """
        more, self._more_copies = self._more_copies, []
        for number, first, place in more:
            copies = self._copies[number] = self._copies.get(number, 1) + 1
            if copies > self._attempts.get(number, 1):
                self._wrong(Wrong.DOUBLED, f"message {number} is stored at {_show(first)} and at {_show(place)}")
            else:
                self.repeated_by_client += 1

    def _check_delivery(self, number: int, queue: int, offset: int) -> None:
        if not 0 <= queue < len(self._stored):
            self._wrong(Wrong.PHANTOM, f"message {number} came from queue {queue}, which is not there")
            return
        there = self._at(queue, offset)
        if there == NOTHING and offset >= len(self._stored[queue]):
            self._undelivered_yet.append((number, queue, offset))  # newer than the last reading
            return
        if there not in (number, NOTHING):
            self._wrong(Wrong.PHANTOM, f"message {number} was delivered from {queue}/{offset}, where {there} is stored")
        marks = self._delivered[queue]
        if len(marks) <= offset:
            marks.extend(bytes(offset + 1 - len(marks)))
        self.redelivered += marks[offset]
        marks[offset] = 1

    def settle(self) -> None:
        """At the end, after a last reading: what can only be said when nothing more will happen."""
        self.check()
        self.check_copies()
        for number, queue, offset in self._undelivered_yet:
            self._wrong(Wrong.PHANTOM, f"message {number} was delivered from {queue}/{offset}, behind the queue's end")
        if self._commits is not None:
            self._settle_transactions(self._commits)
        if self._shards:
            self._settle_order()
        for queue, numbers in enumerate(self._stored):
            marks = self._delivered[queue]
            for offset, number in enumerate(numbers):
                if number != NOTHING and (offset >= len(marks) or not marks[offset]):
                    self._wrong(Wrong.MISSED, f"message {number} at {queue}/{offset} never reached the consumer")

    def _settle_transactions(self, commits: Callable[[int], bool]) -> None:
        for number in self._missing_commits(commits):
            self._wrong(Wrong.LOST, f"transaction {number} was committed and is nowhere")

    def _missing_commits(self, commits: Callable[[int], bool]) -> Iterator[int]:
        for number, told in enumerate(self._told):
            if told != NOTHING and commits(number) and _get(self._found, number) == NOTHING:
                yield number

    def _settle_order(self) -> None:
        newest: dict[int, tuple[int, int]] = {}
        for number, place in enumerate(self._told):
            if place == NOTHING:
                continue
            before = newest.get(number % self._shards)
            if before is not None and before[1] >= place and before[1] >> _OFFSET_BITS == place >> _OFFSET_BITS:
                self._wrong(
                    Wrong.DISORDERED,
                    f"message {number} at {_show(place)} was sent after {before[0]} at {_show(before[1])}",
                )
            newest[number % self._shards] = (number, place)

    def is_complete(self) -> bool:
        """Return whether every commit was read, and the consumer got all messages that were read so far."""
        if self._commits is not None and any(self._missing_commits(self._commits)):
            return False
        return all(
            sum(marks) >= sum(number != NOTHING for number in stored)
            for marks, stored in zip(self._delivered, self._stored, strict=True)
        )

    @property
    def told_rolled_back(self) -> int:
        return self.acknowledged - self.committed if self._commits is not None else 0

    def _at(self, queue: int, offset: int) -> int:
        stored = self._stored[queue]
        return stored[offset] if 0 <= offset < len(stored) else NOTHING

    def _wrong(self, kind: Wrong, sentence: str) -> None:
        self._findings.add(kind, f"{self.name}: {sentence}")


def _pack(queue: int, offset: int) -> int:
    return queue << _OFFSET_BITS | offset


def _show(place: int) -> str:
    return f"{place >> _OFFSET_BITS}/{place & (1 << _OFFSET_BITS) - 1}"


def _get(places: array[int], number: int) -> int:
    return places[number] if number < len(places) else NOTHING


def _put(places: array[int], number: int, place: int) -> None:
    if len(places) <= number:
        places.extend(array("q", [NOTHING]) * (number + 1 - len(places) + 1024))
    places[number] = place
