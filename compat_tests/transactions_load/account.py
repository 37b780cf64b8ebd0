"""The account of one run: what producers saw, against what is stored at the end. The oracle; no I/O, no clock.

Times are milliseconds since the run began, as the producers' machine tells them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum

from compat_tests.transactions_load.fate import Fate, fate

SENTENCES_PER_KIND = 5
CROSSING_MS = 2000
"""A check may be under way, or wait in the client, while the outcome leaves."""

BEFORE_STALL_MS = 1000
"""What was noted so shortly before may not have left any more, or not have been read."""

_EVENT_BITS = 3
_NUMBER_BITS = 31


class Event(IntEnum):
    """The event that a producer notes, by the numbers of `RandomTransactions.java`, which knows the first five."""

    STORED = 0
    COMMIT_SENT = 1
    ROLLBACK_SENT = 2
    UNKNOWN_SENT = 3
    CHECKED = 4
    STALLED = 5
    """It did not get to run; the number is for how many milliseconds, the time is that of their end."""


class End(StrEnum):
    """The end of a half message; each has exactly one."""

    DELIVERED = "delivered once"
    ROLLED_BACK = "rolled back"
    DISCARDED = "discarded"
    PENDING = "pending"


class Wrong(StrEnum):
    """The kinds of faults."""

    LOST = "committed and lost"
    DOUBLED = "delivered twice"
    FLIPPED = "rolled back, yet delivered"
    BOTH = "delivered and discarded"
    UNEXPECTED = "unexpected checks"
    """Of a transaction whose outcome the producer had sent."""
    DUPLICATED = "duplicated checks"
    """Two of one transaction sooner than the interval allows."""


class Account:
    """One run.

    :param check_interval_ms: the shortest time between two checks of one transaction.
    """

    def __init__(self, check_interval_ms: int) -> None:
        self._check_interval_ms = check_interval_ms
        self._events = array("Q")
        self._uncertain: list[tuple[int, int]] = []
        self._stalls: list[tuple[int, int]] = []
        self.excused = 0
        """Checks whose times say nothing, because somebody did not get to run."""
        self._stored: set[int] = set()
        self._delivered: Counter[int] = Counter()
        self._discarded: Counter[int] = Counter()
        self.checks = 0
        self.ends: Counter[End] = Counter()
        self.wrong: Counter[Wrong] = Counter()
        self.sentences: list[str] = []
        self._pending: list[int] = []

    def note(self, entries: Iterable[tuple[int, int, int]]) -> None:
        """Note the events that producers saw, in any order: number, event, time."""
        for number, event, at_ms in entries:
            if event == Event.STALLED:
                self.stall(at_ms - number, at_ms)
                continue
            self._events.append((max(at_ms, 0) << _NUMBER_BITS | number) << _EVENT_BITS | event)
            if event == Event.STORED:
                self._stored.add(number)
            elif event == Event.CHECKED:
                self.checks += 1

    def uncertain(self, begin_ms: int, end_ms: int) -> None:
        """Note the time of a kill: a producer that sent an outcome then cannot know whether it arrived."""
        self._uncertain.append((begin_ms, end_ms))

    def stall(self, begin_ms: int, end_ms: int) -> None:
        """A producer or the machine stood still in this time: it says nothing about when a check was sent.

        What is stored is judged all the same.
        """
        self._stalls.append((begin_ms, end_ms))

    @property
    def stalled_ms(self) -> int:
        """Return the total time in milliseconds for which anybody stood still."""
        total, reached = 0, 0
        for begin, end in sorted(self._stalls):
            total += max(0, end - max(begin, reached))
            reached = max(reached, end)
        return total

    def deliver(self, numbers: Iterable[int]) -> None:
        """The copies in the topic of the transactions."""
        self._delivered.update(numbers)

    def discard(self, numbers: Iterable[int]) -> None:
        """The copies in the topic of those that were given up."""
        self._discarded.update(numbers)

    @property
    def stored(self) -> int:
        """Return how many half messages were acknowledged."""
        return len(self._stored)

    @property
    def is_clean(self) -> bool:
        return not self.wrong

    def settle(self) -> None:
        """The verdict, once; when nothing more happens."""
        decided = self._walk()
        for number in sorted({*self._stored, *decided, *self._delivered, *self._discarded}):
            self._settle(number, decided.get(number))
        self.sentences += [
            f"{End.PENDING}: {number}, of which producers saw {self._seen(number)}"
            for number in self._pending[:SENTENCES_PER_KIND]
        ]

    def _settle(self, number: int, decided: Event | None) -> None:
        copies, given_up, wanted = self._delivered[number], self._discarded[number], fate(number)
        if copies and wanted is not Fate.COMMIT:
            self._add(Wrong.FLIPPED, f"{number} is to be {wanted} and was delivered")
        if copies and given_up:
            self._add(Wrong.BOTH, f"{number} was delivered and discarded")
        if max(copies, given_up) > 1:
            self._add(Wrong.DOUBLED, f"{number} is there {max(copies, given_up)} times")
        if copies:
            self.ends[End.DELIVERED] += copies == 1
        elif given_up:
            self.ends[End.DISCARDED] += 1
        elif decided is Event.COMMIT_SENT:
            self._add(Wrong.LOST, f"{number} was committed and is nowhere")
        elif decided is Event.ROLLBACK_SENT or (wanted is Fate.ROLLBACK and self._may_be_untold(number)):
            self.ends[End.ROLLED_BACK] += 1
        elif number in self._stored:
            self.ends[End.PENDING] += 1
            self._pending.append(number)

    def _may_be_untold(self, number: int) -> bool:
        """Return whether somebody was killed after the last that is known of it: the outcome may have left untold."""
        last_ms = max((_unpack(packed)[0] for packed in self._events if _unpack(packed)[1] == number), default=0)
        return any(last_ms <= end for _, end in self._uncertain)

    def _seen(self, number: int) -> str:
        """All events of one transaction."""
        numbered = sorted(packed for packed in self._events if _unpack(packed)[1] == number)
        return ", ".join(f"{_unpack(packed)[2].name} at {_unpack(packed)[0]}" for packed in numbered)

    def _walk(self) -> dict[int, Event]:
        """Through all events in the order of their times: the outcomes sent, and checks that should not have been."""
        decided: dict[int, tuple[Event, int]] = {}
        checked: dict[int, int] = {}
        for packed in sorted(self._events):
            at_ms, number, event = _unpack(packed)
            if event in (Event.COMMIT_SENT, Event.ROLLBACK_SENT):
                before = decided.get(number)
                if before is None or self._is_uncertain(before[1]):
                    decided[number] = (event, at_ms)
            elif event is Event.CHECKED:
                self._check(number, at_ms, decided.get(number), checked.get(number))
                checked[number] = at_ms
        return {number: event for number, (event, _) in decided.items()}

    def _check(self, number: int, at_ms: int, decided: tuple[Event, int] | None, checked_ms: int | None) -> None:
        if decided is not None and at_ms - decided[1] > CROSSING_MS and not self._is_uncertain(decided[1]):
            late_ms = at_ms - decided[1]
            sentence = f"{number} was checked {late_ms} ms after its {decided[0].name} at {decided[1]}"
            self._blame(Wrong.UNEXPECTED, sentence, decided[1], at_ms)
        if (
            checked_ms is not None
            and at_ms - checked_ms < self._check_interval_ms // 2
            and not self._is_uncertain(checked_ms)
        ):
            self._blame(Wrong.DUPLICATED, f"{number} was checked at {checked_ms} and at {at_ms}", checked_ms, at_ms)

    def _blame(self, kind: Wrong, sentence: str, begin_ms: int, end_ms: int) -> None:
        """A check looks wrong by its times; unless somebody stood still just then."""
        if any(begin <= end_ms and end >= begin_ms - BEFORE_STALL_MS for begin, end in self._stalls):
            self.excused += 1
        else:
            self._add(kind, sentence)

    def _is_uncertain(self, at_ms: int) -> bool:
        return _is_within(at_ms, self._uncertain)

    def _add(self, kind: Wrong, sentence: str) -> None:
        self.wrong[kind] += 1
        if self.wrong[kind] <= SENTENCES_PER_KIND:
            self.sentences.append(f"{kind}: {sentence}")


def _unpack(packed: int) -> tuple[int, int, Event]:
    """Time, number and event."""
    number = packed >> _EVENT_BITS & (1 << _NUMBER_BITS) - 1
    return packed >> _EVENT_BITS + _NUMBER_BITS, number, Event(packed & (1 << _EVENT_BITS) - 1)


def _is_within(at_ms: int, times: Sequence[tuple[int, int]]) -> bool:
    return any(begin <= at_ms <= end for begin, end in times)
