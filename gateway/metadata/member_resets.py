"""Reset queues of groups whose members keep their own offsets (BROADCASTING).

No commit applies to all members, so each member is notified by the answer to a pull of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

Queue = tuple[str, str, int]
"""A queue: group, topic, queue id."""
Row = tuple[str, str, int, str, int, int]
"""A row of the file: group, topic, queue, client id, offset and number of connections."""

TELL_AT_MOST: Final = 3
"""The number of times that a member is notified while it pulls from another offset.

A 4.9 client may read its old offset from its file once more, and a program may seek to any offset.
"""
DONE: Final = TELL_AT_MOST


class _Waiting:
    """The notifications about one queue for the connections of one client id."""

    __slots__ = ("connections", "offset", "told")

    def __init__(self, offset: int, connections: int) -> None:
        self.offset = offset
        self.connections = connections
        self.told: dict[object, int] = {}


class MemberResets:
    """The members that have to be notified, by queue and client id.

    Programs of one machine may share a client id. A program that connects again keeps its client id, and so does a
    program that starts again and finds the old offset in its file. So the broker remembers the client id, and how many
    connections had it.

    :param limit: the number of queues times client ids; beyond it the oldest are forgotten.
    :param changed: called after a change that has to be written to the file.
    """

    def __init__(self, limit: int, changed: Callable[[], None]) -> None:
        self._limit = limit
        self._changed = changed
        self.waiting: dict[tuple[str, str, int, str], _Waiting] = {}

    def remember(self, queue: Queue, offset: int, client_ids: Iterable[str]) -> None:
        """Remember to notify members of an offset.

        :param client_ids: one for each connection.
        """
        for client_id, connections in Counter(client_ids).items():
            self.waiting.pop((*queue, client_id), None)  # the newest is the last
            self.waiting[*queue, client_id] = _Waiting(offset, connections)
        while len(self.waiting) > self._limit:
            del self.waiting[next(iter(self.waiting))]
        self._changed()

    def peek(self, queue: Queue, client_id: str) -> int | None:
        """Return the offset of which a member has to be notified; None if there is none."""
        waiting = self.waiting.get((*queue, client_id))
        return None if waiting is None else waiting.offset

    def told(self, queue: Queue, client_id: str, connection: object, pulled: int) -> int | None:
        """Return the offset of which a member is notified now; None if it knows, or was notified often enough.

        :param connection: the member's connection; compared only.
        :param pulled: the offset from which the member pulls.
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
        """Change all waiting notifications in a topic to offset 0, because the topic is deleted."""
        for key, waiting in self.waiting.items():
            if key[1] == topic:
                waiting.offset = 0
                waiting.told.clear()

    def forget(self, group: str) -> bool:
        """Forget all waiting notifications for members of a group; return whether there were any."""
        keys = [key for key in self.waiting if key[0] == group]
        for key in keys:
            del self.waiting[key]
        return bool(keys)

    def rows(self) -> list[Row]:
        """Return everything as rows of the file."""
        return [(*key, waiting.offset, waiting.connections) for key, waiting in self.waiting.items()]

    def restore(self, rows: Iterable[Row]) -> None:
        """Take over the rows of the file."""
        for group, topic, queue_id, client_id, offset, connections in rows:
            self.waiting[group, topic, queue_id, client_id] = _Waiting(offset, connections)
