"""The changes that a member must make after members or queues have changed: values in, values out.

Follows upstream's ``RebalanceImpl.rebalanceByTopic``: queues and client ids are sorted, and the strategy picks. Then
``consume/sharing/rebalancing.py`` acts on the difference. Every member sorts in the same way, so all members agree.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.client.errors import ConfigurationError

if TYPE_CHECKING:
    from gateway.client.allocation import AllocationStrategy
    from gateway.client.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueChanges:
    """The queues to give up and the queues to take, both sorted."""

    removed: tuple[MessageQueue, ...]
    added: tuple[MessageQueue, ...]

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


def share_of(
    strategy: AllocationStrategy,
    group: str,
    client_id: str,
    queues: Collection[MessageQueue],
    client_ids: Collection[str],
) -> tuple[MessageQueue, ...]:
    """Return the queues of this client in one topic; none if there are no queues, or the client is not a member (yet).

    :raises ConfigurationError: the strategy returns queues that do not exist.
    """
    if not queues or client_id not in client_ids:
        return ()
    share = strategy(group, client_id, sorted(queues), sorted(client_ids))
    strange = set(share).difference(queues)
    if strange:
        raise ConfigurationError(
            f"the answer of allocation strategy {strategy.name} for group {group}",
            sorted(strange)[:3],
            "a choice among the queues it is given",
        )
    return tuple(sorted(set(share)))


def changes(current: Collection[MessageQueue], wanted: Collection[MessageQueue]) -> QueueChanges:
    """Return the changes from one set of queues to another."""
    have, want = set(current), set(wanted)
    return QueueChanges(tuple(sorted(have - want)), tuple(sorted(want - have)))
