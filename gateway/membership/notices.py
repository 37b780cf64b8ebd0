"""Notices to the members of a consumer group that changed.

Without limits 1,000 members that join would get 1,000 notices each. Therefore the members are notified at the end of a
turn, of all changes of the turn at once. Then the group pauses for a time that depends on its size, and later changes
are reported at the end of the pause. Notices of large groups go out over several turns. Upstream notifies every member
of every change. Members that get no notice rebalance every 20 s anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.clock import Milliseconds
from gateway.membership.consumers import ConsumerGroup, Notify
from gateway.remoting.turns import ENTRIES_PER_TURN, Work

PROMPT_MEMBERS: Final = 50
"""The largest number of members of a group that is notified of every change at once.

So many notices cost as much as one heartbeat.
"""
MEMBERS_PER_MS: Final = 2
"""The number of members of a larger group for each millisecond of its pause.

A group of 1,000 members is notified twice a second at most.
"""
LONGEST_PAUSE_MS: Final = 2_000


class MemberNotices:
    """Notifies the members of groups that changed.

    :param notify: notifies one member.
    :param soon: runs a function at the end of the turn, after the answers of the requests in that turn.
    :param later: runs a function after a number of milliseconds.
    :param in_turns: starts work that is done piece by piece.
    """

    def __init__(
        self,
        *,
        notify: Notify,
        clock_ms: Milliseconds,
        soon: Callable[[Callable[[], None]], None],
        later: Callable[[int, Callable[[], None]], object],
        in_turns: Callable[[Work[None]], object],
    ) -> None:
        self._notify = notify
        self._clock_ms = clock_ms
        self._soon = soon
        self._later = later
        self._in_turns = in_turns
        self._changed: deque[ConsumerGroup] = deque()
        self._telling = False

    def tell(self, group: ConsumerGroup) -> None:
        """Notify the members of a group that changed, now or after the group's pause."""
        if group.waits_to_tell:
            return
        group.waits_to_tell = True
        pause_ms = _pause_ms(len(group.members))
        rest_ms = min(group.told_ms + pause_ms - self._clock_ms(), pause_ms)
        if rest_ms > 0:
            self._later(rest_ms, partial(self._tell_soon, group))
        else:
            self._tell_soon(group)

    def _tell_soon(self, group: ConsumerGroup) -> None:
        self._changed.append(group)
        if not self._telling:
            self._telling = True
            self._soon(self._begin)

    def _begin(self) -> None:
        self._in_turns(self._tell_all())

    def _tell_all(self) -> Work[None]:
        told = 0
        try:
            while self._changed:
                group = self._changed.popleft()
                group.waits_to_tell = False
                group.told_ms = self._clock_ms()
                for channel in list(group.members):
                    if not channel.closed:
                        self._notify(channel, group.name)
                    told += 1
                    if told % ENTRIES_PER_TURN == 0:
                        yield
        except Exception:
            self._telling = bool(self._changed)
            if self._telling:  # the other groups are notified in another turn
                self._soon(self._begin)
            raise
        self._telling = False


def _pause_ms(members: int) -> int:
    return 0 if members <= PROMPT_MEMBERS else min(members // MEMBERS_PER_MS, LONGEST_PAUSE_MS)
