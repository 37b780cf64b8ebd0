"""The turns in which half messages are checked: fair between producer groups, with a limit on checks in flight.

Each group has a queue of half messages that are due, and a window: the number of checks that may be unanswered. The
window grows by one with each answer and halves with each check that stays unanswered. A silent or overloaded group thus
soon holds one place and leaves the other places to the rest.

A group without a live producer is parked: the group takes no turn and loses nothing. A group that often answers without
an outcome is asked at longer intervals (``ProducerGroup.patience``). Pure; times are arguments.

The groups have a limit, of which each host has a share, because a client may name another group in each half message.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from gateway.shares import Shares
from gateway.transaction.limits import MAX_OPEN_GROUPS
from wire.message.message_id import HOST_V4_BYTES, unpack_host

ADMITTED_MS: Final = 60_000
"""The least time for which a group that was admitted keeps its place, until its first half message is visible.

The half message may never come: the disk is full, or nothing is written. While what was written at that time is hidden,
because slaves lack it, the group keeps its place.
"""
NOBODY: Final = b""
"""The maker of groups that no host has made: they were found by a start, or an operator resumed a half message."""
FIRST_WINDOW = 16
PATIENCE = ((64, 4), (16, 2))
"""Pairs of a number of answers in a row without an outcome, and the number of usual intervals until the next check.

Asking at full speed would help neither a group whose database is down nor its broker.
"""


class ProducerGroup:
    """One group with open half messages. A plain class for speed, because it changes with every check.

    ``maker`` is the packed host, without its port, whose half message was the group's first one.
    ``open`` counts the group's half messages without outcome, and ``ready`` has those that are due now. ``in_flight``
    counts the checks that were sent and not answered, and ``held`` the places for checks about to be sent. ``unknowns``
    counts the answers without an outcome since the last answer with an outcome.
    """

    __slots__ = (
        "held",
        "in_flight",
        "maker",
        "name",
        "number",
        "open",
        "parked",
        "queued",
        "ready",
        "unknowns",
        "window",
    )

    def __init__(self, name: str, number: int, maker: bytes = NOBODY) -> None:
        self.name = name
        self.maker = maker
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
        """True if the window allows one more check."""
        return self.in_flight + self.held < self.window

    @property
    def patience(self) -> int:
        """The number of check intervals between two checks of one half message."""
        for unknowns, intervals in PATIENCE:
            if self.unknowns >= unknowns:
                return intervals
        return 1


class CheckTurns:
    """The groups, their turns and the checks in flight.

    :param max_in_flight: the largest number of checks in flight, over all groups.
    :param answer_timeout_ms: the longest time for which a check counts as in flight.
    :param max_groups: the most groups with open half messages that ``admit`` lets come.
    """

    def __init__(self, *, max_in_flight: int, answer_timeout_ms: int, max_groups: int = MAX_OPEN_GROUPS) -> None:
        self._max_in_flight = max_in_flight
        self._answer_timeout_ms = answer_timeout_ms
        self._numbers: dict[str, int] = {}
        self._groups: dict[int, ProducerGroup] = {}
        self._next_number = 0
        self._round: deque[ProducerGroup] = deque()
        self._in_flight: dict[int, tuple[int, ProducerGroup]] = {}
        self._parked: dict[int, ProducerGroup] = {}
        self._held = 0
        self._makers: Shares[bytes] = Shares(max_groups)
        self._admitted: dict[str, bytes] = {}
        self._admitted_before: dict[str, bytes] = {}
        self._admitted_since_ms = 0
        self._admitted_before_end = 0
        """The log offset before which the half messages of ``_admitted_before`` lie, if they came."""

    # -- groups ---------------------------------------------------------------------------------------------

    def admit(self, name: str, born_host: bytes, now_ms: int, log_end: int = 0, shown_end: int = 0) -> str | None:
        """Keep a place for a group that gets its first open half message soon.

        :param born_host: the packed address of the client that sent the half message.
        :param log_end: the end of the log, and ``shown_end`` the offset up to which its messages are visible.
        :return: the reason, as a sentence, why the group gets no place; None if it has one.
        """
        if name in self._numbers or name in self._admitted or name in self._admitted_before:
            return None
        if now_ms - self._admitted_since_ms >= ADMITTED_MS and shown_end >= self._admitted_before_end:
            for maker in self._admitted_before.values():
                self._makers.give_back(maker)
            self._admitted_before = self._admitted
            self._admitted = {}
            self._admitted_since_ms = now_ms
            self._admitted_before_end = log_end
        host = _host_of(born_host)
        if not self._makers.take(host):
            return self._makers.refusal(
                host, f"producer groups with open half messages, made by {unpack_host(born_host)[0]}"
            )
        self._admitted[name] = host
        return None

    def join(self, name: str) -> int:
        """Count one more open half message of a group; return the group's number."""
        return self.join_many(name, 1)

    def join_many(self, name: str, count: int) -> int:
        """Count more open half messages of a group; return the group's number."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._next_number
            self._next_number += 1
            maker = self._admitted.pop(name, None)
            if maker is None:
                maker = self._admitted_before.pop(name, None)
            if maker is None:
                maker = NOBODY
                self._makers.add(maker)
            self._groups[number] = ProducerGroup(name, number, maker)
        self._groups[number].open += count
        return number

    def leave(self, number: int, offset: int) -> None:
        """Note that a half message of the group is settled."""
        self.answered(offset)
        group = self._groups[number]
        group.open -= 1
        if group.open == 0:
            del self._groups[number]
            del self._numbers[group.name]
            self._parked.pop(number, None)
            self._makers.give_back(group.maker)
            group.ready.clear()

    def name(self, number: int) -> str:
        """Return the name of a group."""
        return self._groups[number].name

    def group(self, number: int) -> ProducerGroup:
        """Return a group with open half messages."""
        return self._groups[number]

    def number(self, name: str) -> int | None:
        """Return the number of a group; None if it has no open half message."""
        return self._numbers.get(name)

    def groups(self) -> list[ProducerGroup]:
        """Return the groups with open half messages."""
        return list(self._groups.values())

    @property
    def group_count(self) -> int:
        """The number of groups with open half messages."""
        return len(self._groups)

    @property
    def is_any_parked(self) -> bool:
        """True if a group waits for a producer to connect."""
        return bool(self._parked)

    def parked(self, most: int) -> list[ProducerGroup]:
        """Return up to ``most`` of the groups that wait for a producer to connect, others at the next call."""
        parked = self._parked
        groups = list(islice(parked.values(), most))
        if len(groups) < len(parked):
            for group in groups:
                parked[group.number] = parked.pop(group.number)
        return groups

    # -- turns ----------------------------------------------------------------------------------------------

    def push(self, number: int, offset: int) -> None:
        """Note that a half message is due."""
        group = self._groups[number]
        group.ready.append(offset)
        self._queue(group)

    def next_turn(self) -> tuple[ProducerGroup, int] | None:
        """Return the next half message to check, from another group each time; None if the limits allow no more now.

        The caller then calls ``sent`` or ``park``, or neither if the half message needs no check any more. A caller
        that needs time to decide calls ``hold`` before and ``release`` after.
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
        """Reserve a place in flight for the half message whose turn it is."""
        group.held += 1
        self._held += 1

    def release(self, group: ProducerGroup) -> None:
        """Give the reserved place back, after the check was sent or is no longer needed."""
        group.held -= 1
        self._held -= 1
        self._queue(group)

    def park(self, group: ProducerGroup, offset: int) -> None:
        """Park a group without a producer that can be asked. The half message goes back to the front of the group."""
        group.ready.appendleft(offset)
        group.parked = True
        if self._groups.get(group.number) is group:
            self._parked[group.number] = group

    def unpark(self, group: ProducerGroup) -> None:
        """Let a group take turns again, because it has a producer."""
        group.parked = False
        self._parked.pop(group.number, None)
        self._queue(group)

    @property
    def is_waiting(self) -> bool:
        """True if a group could take a turn now within the limits."""
        return bool(self._round) and len(self._in_flight) + self._held < self._max_in_flight

    # -- in flight ------------------------------------------------------------------------------------------

    def sent(self, group: ProducerGroup, offset: int, now_ms: int) -> None:
        """Note that a check was sent to a producer."""
        self.answered(offset)
        self._in_flight[offset] = now_ms, group
        group.in_flight += 1

    def answered(self, offset: int, *, knows: bool | None = None) -> bool:
        """Note an answer to a check; return False if no check was in flight.

        :param knows: True if the answer has an outcome; None if the group did not answer, but the half message was
            settled otherwise.
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
        """Stop waiting for overdue answers; return their number."""
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
        """The number of checks that were sent and not answered."""
        return len(self._in_flight)

    def _queue(self, group: ProducerGroup) -> None:
        if group.ready and not group.queued and not group.parked and group.has_room:
            group.queued = True
            self._round.append(group)


def _host_of(born_host: bytes) -> bytes:
    """Return a packed host without its port; of an IPv6 address 64 bits, because one peer has many of these."""
    return born_host[:4] if len(born_host) == HOST_V4_BYTES else born_host[:8]
