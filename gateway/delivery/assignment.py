"""Which queues a client of a group is to consume, decided by the broker (5.x clients with client rebalance off).

Pure. Strategies and the sharing of queues among pop consumers are upstream's (``QueryAssignmentProcessor``,
``AllocateMessageQueueAveragely``, ``AllocateMessageQueueAveragelyByCircle``): clients of both brokers of a cluster must
come to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from wire.bodies.message_queue import MessageQueue

ALL_QUEUES: Final = -1
"""The id of an assignment that means every queue of the broker."""


def averagely(clients: Sequence[str], client_id: str, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """A stretch of neighbouring queues for each client."""
    index = clients.index(client_id)
    share, more = divmod(len(queues), len(clients))
    start = index * share + min(index, more)
    return list(queues[start : start + share + (index < more)])


def averagely_by_circle(clients: Sequence[str], client_id: str, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """One queue for each client in turn."""
    return list(queues[clients.index(client_id) :: len(clients)])


STRATEGIES: Final[Mapping[str, Callable[[Sequence[str], str, Sequence[MessageQueue]], list[MessageQueue]]]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
}


def assigned(
    strategy_name: str, clients: Sequence[str], client_id: str, queues: Sequence[MessageQueue]
) -> list[MessageQueue] | None:
    """The queues a client pulls; None for an unknown strategy or a client that is no member."""
    strategy = STRATEGIES.get(strategy_name)
    if strategy is None or client_id not in clients:
        return None
    return strategy(sorted(clients), client_id, _sorted(queues))


def assigned_for_pop(
    strategy_name: str, clients: Sequence[str], client_id: str, queues: Sequence[MessageQueue], share: int
) -> list[MessageQueue] | None:
    """The queues a client pops from.

    :param share: how many other clients each queue is shared with; 0 or less, or all others: every client pops from
        every queue, and a queue of the answer means all of its broker.
    """
    if strategy_name not in STRATEGIES or client_id not in clients:
        return None
    if share <= 0 or share >= len(clients) - 1:
        every = (MessageQueue(queue.topic, queue.broker_name, ALL_QUEUES) for queue in _sorted(queues))
        return list(dict.fromkeys(every))
    members, ordered = sorted(clients), _sorted(queues)
    index = members.index(client_id)
    if len(members) > len(ordered):  # some would have none: they share instead
        return [ordered[index % len(ordered)]] if ordered else []
    strategy = STRATEGIES[strategy_name]
    mine: dict[MessageQueue, None] = {}
    for step in range(share + 1):
        mine.update(dict.fromkeys(strategy(members, members[(index + step) % len(members)], ordered)))
    return list(mine)


def _sorted(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
