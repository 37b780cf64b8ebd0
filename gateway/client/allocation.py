"""Which queues of a topic a member of a consumer group reads: the strategies of Apache RocketMQ's Java client.

Each member computes its own share from the same sorted lists, nobody hands queues out; so members agree only while
all of them, in whatever language, use one strategy. Results are equal to those of upstream's
``AllocateMessageQueueAveragely``, ``…AveragelyByCircle``, ``…ConsistentHash``, ``…ByMachineRoom``, ``…ByConfig`` and
``AllocateMachineRoomNearby`` queue by queue.
Not here: finding the members and the queues (``consume/sharing/rebalancing.py``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from gateway.client.errors import ConfigurationError
from gateway.client.message_queue import MessageQueue

VIRTUAL_NODES: Final = 10
"""Places of each member on the ring of ``ConsistentHash``; upstream's default, all members must agree on it."""


T = TypeVar("T")


class AllocationStrategy(Protocol):
    """How a group shares queues.

    Called with the sorted queues of one topic and the sorted client ids of the group; returns this client's queues.
    It must give the same answer in every member for its arguments: no queue twice, none left out.
    """

    @property
    def name(self) -> str:
        """What the strategy is called in logs, upstream's name."""

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """The queues of ``client_id``."""


class Averagely:
    """Neighbouring queues go to one member; the first members get one more when it does not come out even."""

    name: Final = "AVG"

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """See ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        share, left_over = divmod(len(queues), len(client_ids))
        start = index * share + min(index, left_over)
        return list(queues[start : start + share + (index < left_over)])


class AveragelyByCircle:
    """Queues are dealt like cards: the first to the first member, the second to the second, and round again."""

    name: Final = "AVG_BY_CIRCLE"

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """See ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class ConsistentHash:
    """Members and queues stand on a ring of hashes; a queue goes to the next member, so few move when one leaves.

    :param virtual_nodes: places of each member on the ring; the same in all members.
    :param hash_key: text to a number; MD5's first four bytes, as upstream, when left out.
    """

    name: Final = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES, hash_key: Callable[[str], int] | None = None) -> None:
        if virtual_nodes < 1:
            raise ConfigurationError(
                "virtual_nodes", virtual_nodes, "at least 1: every member needs a place on the ring"
            )
        self._virtual_nodes = virtual_nodes
        self._hash = hash_key or md5_hash

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """See ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        ring = {self._hash(f"{member}-{i}"): member for member in client_ids for i in range(self._virtual_nodes)}
        places = sorted(ring)
        return [queue for queue in queues if ring[self._next_place(places, queue)] == client_id]

    def _next_place(self, places: Sequence[int], queue: MessageQueue) -> int:
        at = bisect_left(places, self._hash(java_text(queue)))
        return places[at] if at < len(places) else places[0]


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5 sum (upstream ``ConsistentHashRouter.MD5Hash``); 0 … 2^32−1."""
    import hashlib  # few groups share queues by hash, and it loads OpenSSL

    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


def java_text(queue: MessageQueue) -> str:
    """What upstream's ``MessageQueue.toString()`` says: the key of a queue on the ring."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


class MachineRoom:
    """Queues of brokers named ``room@name`` in some rooms, shared evenly; all others are left alone.

    :param rooms: the rooms this group reads, the same in all members (upstream ``consumeridcs``).
    """

    name: Final = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        if not rooms or isinstance(rooms, str):
            raise ConfigurationError("rooms", rooms, "a collection of at least one machine room, as {'hz1'}")
        self._rooms = frozenset(rooms)

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """See ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        ours = [queue for queue in queues if self._is_ours(queue)]
        index = client_ids.index(client_id)
        share, left_over = divmod(len(ours), len(client_ids))
        result = ours[index * share : (index + 1) * share]
        if index < left_over:
            result.append(ours[share * len(client_ids) + index])
        return result

    def _is_ours(self, queue: MessageQueue) -> bool:
        room, separator, rest = queue.broker_name.partition("@")
        return bool(separator and rest) and "@" not in rest and room in self._rooms


class Configured:
    """The queues one is told, whatever the others do (upstream ``AllocateMessageQueueByConfig``)."""

    name: Final = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)

    def __call__(
        self, _group: str, _client_id: str, queues: Sequence[MessageQueue], _client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """See ``AllocationStrategy``."""
        return [queue for queue in queues if queue in self._queues]


class MachineRoomNearby:
    """Queues are shared among the members in their broker's room; without any there, among all members.

    :param inner: how those members share.
    :param room_of_queue: the room of a queue's broker; not empty.
    :param room_of_client: the room of a client id; not empty.
    """

    def __init__(
        self,
        inner: AllocationStrategy,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
    ) -> None:
        self._inner = inner
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client

    @property
    def name(self) -> str:
        """With the inner strategy's."""
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """See ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        queues_of = self._by_room(queues, self._room_of_queue)
        clients_of = self._by_room(client_ids, self._room_of_client)
        here = self._room_of_client(client_id)
        result: list[MessageQueue] = []
        if here in queues_of:
            result += self._inner(group, client_id, queues_of.pop(here), clients_of[here])
        for room in sorted(queues_of):
            if room not in clients_of:
                result += self._inner(group, client_id, queues_of[room], client_ids)
        return result

    @staticmethod
    def _by_room(items: Sequence[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
        rooms: dict[str, list[T]] = {}
        for item in items:
            room = room_of(item)
            if not room:
                raise ConfigurationError(
                    f"the machine room of {item}", room, "a name: the resolver has to know every queue and client"
                )
            rooms.setdefault(room, []).append(item)
        return rooms
