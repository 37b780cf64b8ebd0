"""Whose turn it is to be checked: fair between producer groups, bounded in flight.

Each group has a queue of half messages that are due and a window of checks it may have unanswered. The
window grows by one with each answer and halves with each check that stays unanswered, so a group that is
silent or drowning soon holds one place and leaves the others to the rest. A group without a living
producer is parked: it takes no turn and loses nothing. One that answers again and again that it does not know
is asked in longer intervals (``ProducerGroup.patience``). Pure; times are arguments.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import deque

FIRST_WINDOW = 16
PATIENCE = ((64, 4), (16, 2))
"""So many answers without an outcome in a row, and how many times the usual interval passes until the next check of
one of the group's half messages: asking at full speed would not help a group whose database is down, nor its broker.
"""


class ProducerGroup:
    """One group with open half messages. A plain class: it changes with every check.

    ``open`` counts its half messages without outcome, ``ready`` are those due now, ``in_flight`` the checks
    sent and not answered, ``held`` places for checks that are about to be sent, ``unknowns`` the answers without an
    outcome since the last one that had one.
    """

    __slots__ = ("held", "in_flight", "name", "number", "open", "parked", "queued", "ready", "unknowns", "window")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.open = 0
        self.ready: deque[int] = deque()
        self.in_flight = 0
        self.held = 0
        self.window = FIRST_WINDOW
        self.parked = False
        self.queued = False
        self.unknowns = 0

    @property
    def has_room(self) -> bool:
        """Whether the window takes one more check."""
        return self.in_flight + self.held < self.window

    @property
    def patience(self) -> int:
        """How many check intervals pass between two checks of one half message."""
        for unknowns, intervals in PATIENCE:
            if self.unknowns >= unknowns:
                return intervals
        return 1


class CheckTurns:
    """The groups, their turns and the checks in flight.

    :param max_in_flight: checks of all groups together.
    :param answer_timeout_ms: a check counts as in flight for this long at most.
    """

    def __init__(self, *, max_in_flight: int, answer_timeout_ms: int) -> None:
        self._max_in_flight = max_in_flight
        self._answer_timeout_ms = answer_timeout_ms
        self._numbers: dict[str, int] = {}
        self._groups: dict[int, ProducerGroup] = {}
        self._next_number = 0
        self._round: deque[ProducerGroup] = deque()
        self._in_flight: dict[int, tuple[int, ProducerGroup]] = {}
        self._parked: dict[int, ProducerGroup] = {}
        self._held = 0

    # -- groups ---------------------------------------------------------------------------------------------

    def join(self, name: str) -> int:
        """One more open half message of a group; the group's number."""
        return self.join_many(name, 1)

    def join_many(self, name: str, count: int) -> int:
        """More open half messages of a group; the group's number."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._next_number
            self._next_number += 1
            self._groups[number] = ProducerGroup(name, number)
        self._groups[number].open += count
        return number

    def leave(self, number: int, offset: int) -> None:
        """A half message of the group is settled."""
        self.answered(offset)
        group = self._groups[number]
        group.open -= 1
        if group.open == 0:
            del self._groups[number]
            del self._numbers[group.name]
            self._parked.pop(number, None)
            group.ready.clear()

    def name(self, number: int) -> str:
        """The name of a group."""
        return self._groups[number].name

    def group(self, number: int) -> ProducerGroup:
        """A group with open half messages."""
        return self._groups[number]

    def number(self, name: str) -> int | None:
        """The number of a group; None when it has no open half message."""
        return self._numbers.get(name)

    def groups(self) -> list[ProducerGroup]:
        """The groups with open half messages."""
        return list(self._groups.values())

    @property
    def group_count(self) -> int:
        """Groups with open half messages."""
        return len(self._groups)

    def parked(self) -> list[ProducerGroup]:
        """The groups that wait for a producer to connect."""
        return list(self._parked.values())

    # -- turns ----------------------------------------------------------------------------------------------

    def push(self, number: int, offset: int) -> None:
        """A half message is due."""
        group = self._groups[number]
        group.ready.append(offset)
        self._queue(group)

    def next_turn(self) -> tuple[ProducerGroup, int] | None:
        """The next half message to check, of another group each time; None when the limits allow no more now.

        The caller says ``sent`` or ``park``, or neither when the half message needs no check any more; what it cannot
        say at once it says between ``hold`` and ``release``.
        """
        while self.is_waiting:
            group = self._round.popleft()
            group.queued = False
            if group.ready and not group.parked and group.has_room:
                offset = group.ready.popleft()
                self._queue(group)
                return group, offset
        return None

    def hold(self, group: ProducerGroup) -> None:
        """Keep a place in flight for the half message whose turn it was."""
        group.held += 1
        self._held += 1

    def release(self, group: ProducerGroup) -> None:
        """Give the place back: the check was sent, or is not to be."""
        group.held -= 1
        self._held -= 1
        self._queue(group)

    def park(self, group: ProducerGroup, offset: int) -> None:
        """The group has no producer that can be asked; the half message keeps its place."""
        group.ready.appendleft(offset)
        group.parked = True
        if self._groups.get(group.number) is group:
            self._parked[group.number] = group

    def unpark(self, group: ProducerGroup) -> None:
        """The group has a producer again."""
        group.parked = False
        self._parked.pop(group.number, None)
        self._queue(group)

    @property
    def is_waiting(self) -> bool:
        """Whether a group could take a turn now, as far as the limits go."""
        return bool(self._round) and len(self._in_flight) + self._held < self._max_in_flight

    # -- in flight ------------------------------------------------------------------------------------------

    def sent(self, group: ProducerGroup, offset: int, now_ms: int) -> None:
        """A check left for a producer."""
        self.answered(offset)
        self._in_flight[offset] = now_ms, group
        group.in_flight += 1

    def answered(self, offset: int, *, knows: bool | None = None) -> bool:
        """An answer to a check came in; False when none was in flight.

        :param knows: whether it has an outcome; None when it is no answer of the group, but settled otherwise.
        """
        entry = self._in_flight.pop(offset, None)
        if entry is None:
            return False
        group = entry[1]
        if knows is not None:
            group.unknowns = 0 if knows else group.unknowns + 1
        group.in_flight -= 1
        group.window = min(group.window + 1, self._max_in_flight)
        self._queue(group)
        return True

    def expire(self, now_ms: int) -> int:
        """Stop waiting for the answers that are overdue; how many."""
        overdue = 0
        while self._in_flight:
            offset = next(iter(self._in_flight))
            sent_at_ms, group = self._in_flight[offset]
            if now_ms - sent_at_ms < self._answer_timeout_ms:
                break
            del self._in_flight[offset]
            group.in_flight -= 1
            group.window = max(1, group.window // 2)
            self._queue(group)
            overdue += 1
        return overdue

    @property
    def in_flight(self) -> int:
        """Checks sent and not answered."""
        return len(self._in_flight)

    def _queue(self, group: ProducerGroup) -> None:
        if group.ready and not group.queued and not group.parked and group.has_room:
            group.queued = True
            self._round.append(group)
