"""The queues that a client of a group consumes, if the broker decides (5.x clients with client rebalance off).

Pure. The strategies, and the sharing of queues among pop consumers, are upstream's (``QueryAssignmentProcessor``,
``AllocateMessageQueueAveragely``, ``AllocateMessageQueueAveragelyByCircle``): clients of Apache's broker and of ours in
one cluster must come to the same result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final, overload

from wire.bodies.message_queue import MessageQueue

ALL_QUEUES: Final = -1
"""The queue id of an assignment that means every queue of the broker."""


class OrderedQueues(Sequence[MessageQueue]):
    """The queues of a topic in the order in which clients share them out, by broker and number.

    A queue is made when it is read: a client gets a few of 65,536.

    :param counts: read queues by broker name.
    """

    def __init__(self, topic: str, counts: Mapping[str, int]) -> None:
        self._topic = topic
        self._brokers = sorted(name for name, count in counts.items() if count > 0)
        self._ends = list(accumulate(counts[name] for name in self._brokers))

    @property
    def every_broker(self) -> list[MessageQueue]:
        """The queues that mean all queues of a broker, one for each broker."""
        return [MessageQueue(self._topic, name, ALL_QUEUES) for name in self._brokers]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> MessageQueue: ...

    @overload
    def __getitem__(self, index: slice) -> list[MessageQueue]: ...

    def __getitem__(self, index: int | slice) -> MessageQueue | list[MessageQueue]:
        if isinstance(index, slice):
            return [self._queue(number) for number in range(*index.indices(len(self)))]
        return self._queue(range(len(self))[index])

    def _queue(self, number: int) -> MessageQueue:
        broker = bisect_right(self._ends, number)
        start = self._ends[broker - 1] if broker else 0
        return MessageQueue(self._topic, self._brokers[broker], number - start)


def averagely(index: int, clients: int, queues: OrderedQueues) -> list[MessageQueue]:
    """Return a client's stretch of neighbouring queues; ``index`` is the client's number in their order."""
    share, more = divmod(len(queues), clients)
    start = index * share + min(index, more)
    return queues[start : start + share + (index < more)]


def averagely_by_circle(index: int, clients: int, queues: OrderedQueues) -> list[MessageQueue]:
    """Return a client's queues if each client in turn gets one queue."""
    return queues[index::clients]


STRATEGIES: Final[Mapping[str, Callable[[int, int, OrderedQueues], list[MessageQueue]]]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
}


def assigned(
    strategy_name: str, clients: Sequence[str], client_id: str, queues: OrderedQueues
) -> list[MessageQueue] | None:
    """Return the queues that a client pulls; None for an unknown strategy or a client that is no member."""
    strategy = STRATEGIES.get(strategy_name)
    if strategy is None or client_id not in clients:
        return None
    return strategy(sorted(clients).index(client_id), len(clients), queues)


def assigned_for_pop(
    strategy_name: str, clients: Sequence[str], client_id: str, queues: OrderedQueues, share: int
) -> list[MessageQueue] | None:
    """Return the queues that a client pops from; None for an unknown strategy or a client that is no member.

    :param share: how many other clients each queue is shared with. If 0 or less, or all other clients, every client
        pops from every queue, and a queue of the answer means all queues of its broker.
    """
    if strategy_name not in STRATEGIES or client_id not in clients:
        return None
    if share <= 0 or share >= len(clients) - 1:
        return queues.every_broker
    members = sorted(clients)
    index = members.index(client_id)
    if len(members) > len(queues):  # some would have none: they share instead
        return [queues[index % len(queues)]] if len(queues) else []
    strategy = STRATEGIES[strategy_name]
    mine: dict[MessageQueue, None] = {}
    for step in range(share + 1):
        mine.update(dict.fromkeys(strategy((index + step) % len(members), len(members), queues)))
    return list(mine)
