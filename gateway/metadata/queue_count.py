"""The number of queues that the topics of a broker have in all, and its limit.

A topic has up to 65,536 queues, and each that had a message takes memory, a directory and a file. Upstream has no such
limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.errors import RequestRefused
from wire.bodies.topics import TopicConfig
from wire.codes import ResponseCode

SMALL_TOPIC_QUEUES: Final = 64
"""The last tenth of the limit is for topics with at most so many queues, such as a group's retry topic."""


class QueueCount:
    """Counts the queues of topics: for each the most that it had since it was made, or since the broker started.

    A queue that a topic does not have any more keeps its messages for as long as they are kept.

    :param table: the topics, as they are before a change.
    """

    def __init__(self, table: Mapping[str, TopicConfig]) -> None:
        self._table = table
        self._had: dict[str, int] = {}
        """The topics that had more queues than they have."""
        self.total = 0

    def check_room(self, fresh: Iterable[TopicConfig], limit: int) -> None:
        """Check that new and changed topics fit; topics that do not grow always do.

        :raises RequestRefused: SYSTEM_BUSY, the limit is reached.
        """
        more = 0
        most = limit
        for config in fresh:
            queues = queues_of(config)
            grows = queues - self._counted(config.topic_name)
            if grows > 0:
                more += grows
                if queues > SMALL_TOPIC_QUEUES:
                    most = limit - limit // 10
        if more and self.total + more > most:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"the topics of this broker have {self.total} queues, {more} more do not fit: the limit is {limit} "
                f"(gateway.queuesLimit), the last {limit // 10} for topics of up to {SMALL_TOPIC_QUEUES} queues",
            )

    def placed(self, config: TopicConfig) -> None:
        """Count a topic that is about to be made or changed."""
        name = config.topic_name
        counted = self._counted(name)
        queues = queues_of(config)
        if queues < counted:
            self._had[name] = counted
        else:
            self._had.pop(name, None)
            self.total += queues - counted

    def gone(self, topic: str) -> None:
        """Stop counting a topic that is about to be removed."""
        self.total -= self._counted(topic)
        self._had.pop(topic, None)

    def _counted(self, topic: str) -> int:
        config = self._table.get(topic)
        return 0 if config is None else self._had.get(topic, queues_of(config))


def queues_of(config: TopicConfig) -> int:
    """Return how many queues of a topic may hold messages."""
    return max(config.read_queue_nums, config.write_queue_nums)
