"""Queues whose offsets were set elsewhere while members of a group keep them themselves (BROADCASTING).

Nobody commits an offset for all members, so each one has to be told by the answer to a pull of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

Queue = tuple[str, str, int]
"""Group, topic, queue."""
Row = tuple[str, str, int, str, int, int]
"""Group, topic, queue, client id, offset and number of connections, as the file has them."""

TELL_AT_MOST: Final = 3
"""How often a member is told that pulls elsewhere. A 4.9 client may read its old offset from its file once more, a
program may seek where it likes.
"""
DONE: Final = TELL_AT_MOST


class _Waiting:
    """What the connections of one client id are told of one queue."""

    __slots__ = ("connections", "offset", "told")

    def __init__(self, offset: int, connections: int) -> None:
        self.offset = offset
        self.connections = connections
        self.told: dict[object, int] = {}


class MemberResets:
    """The members that are to be told, by queue and client id.

    Programs of one machine may share a client id; a program that connects again, or starts again and finds the old
    offset in its file, keeps it. So the broker remembers the client id, and how many connections had it.

    :param limit: queues times client ids; of more, the oldest are forgotten.
    :param changed: called after a change that has to reach the file.
    """

    def __init__(self, limit: int, changed: Callable[[], None]) -> None:
        self._limit = limit
        self._changed = changed
        self.waiting: dict[tuple[str, str, int, str], _Waiting] = {}

    def remember(self, queue: Queue, offset: int, client_ids: Iterable[str]) -> None:
        """Let members be told of an offset.

        :param client_ids: one for each connection.
        """
        for client_id, connections in Counter(client_ids).items():
            self.waiting.pop((*queue, client_id), None)  # the newest is the last
            self.waiting[*queue, client_id] = _Waiting(offset, connections)
        while len(self.waiting) > self._limit:
            del self.waiting[next(iter(self.waiting))]
        self._changed()

    def peek(self, queue: Queue, client_id: str) -> int | None:
        """Return the offset that a member is to be told; None if there is none."""
        waiting = self.waiting.get((*queue, client_id))
        return None if waiting is None else waiting.offset

    def told(self, queue: Queue, client_id: str, connection: object, pulled: int) -> int | None:
        """Return the offset that a member is told now; None if it knows, or was told often enough.

        :param connection: what the member is connected by; compared, never looked into.
        :param pulled: the offset that it pulls.
        """
        key = (*queue, client_id)
        waiting = self.waiting.get(key)
        if waiting is None or (times := waiting.told.get(connection, 0)) >= DONE:
            return None
        if pulled != waiting.offset and times + 1 < TELL_AT_MOST:
            waiting.told[connection] = times + 1
            return waiting.offset
        waiting.told[connection] = DONE
        waiting.connections -= 1
        if waiting.connections <= 0:
            del self.waiting[key]
        self._changed()
        return None if pulled == waiting.offset else waiting.offset

    def begin_anew(self, topic: str) -> None:
        """Let all that are to be told of an offset in a topic be told of 0: the topic is deleted."""
        for key, waiting in self.waiting.items():
            if key[1] == topic:
                waiting.offset = 0
                waiting.told.clear()

    def forget(self, group: str) -> None:
        """Forget what the members of a group were to be told."""
        for key in [key for key in self.waiting if key[0] == group]:
            del self.waiting[key]

    def rows(self) -> list[Row]:
        """Return everything as the file has it."""
        return [(*key, waiting.offset, waiting.connections) for key, waiting in self.waiting.items()]

    def restore(self, rows: Iterable[Row]) -> None:
        """Take over what the file says."""
        for group, topic, queue_id, client_id, offset, connections in rows:
            self.waiting[group, topic, queue_id, client_id] = _Waiting(offset, connections)
