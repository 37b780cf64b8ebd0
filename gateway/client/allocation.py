"""The strategies of Apache RocketMQ's Java client for sharing the queues of a topic among the members of a group.

Each member computes its own share from the same sorted lists; no member hands out queues. So all members, in every
programming language, must use the same strategy. The results are equal, queue by queue, to the results of upstream's
``AllocateMessageQueueAveragely``, ``…AveragelyByCircle``, ``…ConsistentHash``, ``…ByMachineRoom``, ``…ByConfig`` and
``AllocateMachineRoomNearby``.
Members and queues are found elsewhere: in ``consume/sharing/rebalancing.py``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from gateway.client.errors import ConfigurationError
from gateway.client.message_queue import MessageQueue

VIRTUAL_NODES: Final = 10
"""The number of places of each member on the ring of ``ConsistentHash``: upstream's default. All members must agree."""

T = TypeVar("T")


class AllocationStrategy(Protocol):
    """The rule by which a group shares the queues of a topic.

    A strategy is called with the sorted queues of one topic and the sorted client ids of the group, and returns the
    queues of one client. For equal arguments all members must come to the same division, in which no queue has two
    clients: both would get its messages. A queue without a client is not read: ``MachineRoom`` leaves out the queues of
    other rooms, and with ``Configured`` the lists of all members together have to name each queue once.
    """

    @property
    def name(self) -> str:
        """The name of the strategy in logs: upstream's name."""

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Return the queues of ``client_id``."""


class Averagely:
    """Gives neighbouring queues to one member. If queues are left over, the first members get one queue more."""

    name: Final = "AVG"

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Implement ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        share, left_over = divmod(len(queues), len(client_ids))
        start = index * share + min(index, left_over)
        return list(queues[start : start + share + (index < left_over)])


class AveragelyByCircle:
    """Deals queues like cards: the first to the first member, the second to the second, and round again."""

    name: Final = "AVG_BY_CIRCLE"

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Implement ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class ConsistentHash:
    """Places members and queues on a ring of hashes, and gives each queue to the next member on the ring.

    When a member leaves, only few queues move to other members.

    :param virtual_nodes: the number of places of each member on the ring; equal in all members.
    :param hash_key: turns a text into a number; None: the first four bytes of the MD5 sum, as upstream.
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
        """Implement ``AllocationStrategy``."""
        if client_id not in client_ids:
            return []
        ring = {self._hash(f"{member}-{i}"): member for member in client_ids for i in range(self._virtual_nodes)}
        places = sorted(ring)
        return [queue for queue in queues if ring[self._next_place(places, queue)] == client_id]

    def _next_place(self, places: Sequence[int], queue: MessageQueue) -> int:
        at = bisect_left(places, self._hash(java_text(queue)))
        return places[at] if at < len(places) else places[0]


def md5_hash(key: str) -> int:
    """Return the first four bytes of the MD5 sum, 0 … 2^32−1 (upstream ``ConsistentHashRouter.MD5Hash``)."""
    import hashlib  # few groups share queues by hash, and it loads OpenSSL

    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


def java_text(queue: MessageQueue) -> str:
    """Return the text of upstream's ``MessageQueue.toString()``, which is the key of a queue on the ring."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


class MachineRoom:
    """Shares evenly the queues of brokers in certain rooms. No member gets the other queues.

    The name of such a broker is ``room@name``.

    :param rooms: the rooms that this group reads, equal in all members (upstream ``consumeridcs``).
    """

    name: Final = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        if not rooms or isinstance(rooms, str):
            raise ConfigurationError("rooms", rooms, "a collection of at least one machine room, as {'hz1'}")
        self._rooms = frozenset(rooms)

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Implement ``AllocationStrategy``."""
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
    """Gives this member the listed queues, whatever other members read (upstream ``AllocateMessageQueueByConfig``).

    :param queues: the queues of this member. Nobody checks that each queue is in the list of exactly one member.
    """

    name: Final = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)

    def __call__(
        self, _group: str, _client_id: str, queues: Sequence[MessageQueue], _client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Implement ``AllocationStrategy``."""
        return [queue for queue in queues if queue in self._queues]


class MachineRoomNearby:
    """Shares queues among the members in the room of their broker; if the room has no member, among all members.

    :param inner: the strategy by which these members share.
    :param room_of_queue: returns the room of a queue's broker; not empty.
    :param room_of_client: returns the room of a client id; not empty.
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
        """The name of the strategy in logs, which contains the name of the inner strategy."""
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Implement ``AllocationStrategy``."""
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
