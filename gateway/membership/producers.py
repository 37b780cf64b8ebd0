"""Producer groups: which connections can be asked about a group's transactions, or be given a reply.

Upstream: ``ProducerManager``. A group exists as long as it has a member.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Container, Sequence

from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.remoting.channel import Channel
from gateway.remoting.declared import Need
from gateway.shares import Shares
from wire.codes import ResponseCode

MAX_PRODUCER_GROUPS = 100_000
"""The number of producer groups that may be connected at the same time."""
MAX_PRODUCERS = 500_000
"""The number of members of all producer groups: connections times the groups of each."""
MAX_GROUPS_PER_PRODUCER = 2_000
"""The number of producer groups of one connection.

Groups that its latest heartbeat left out count until they expire.
"""


class Producers:
    """All producer groups with their members.

    :param max_groups: the largest number of groups; one more is refused.
    :param members: the limits of all members, and of the groups of one client.
    """

    def __init__(
        self, *, max_groups: int = MAX_PRODUCER_GROUPS, members: Shares[ConnectedClient] | None = None
    ) -> None:
        self._max_groups = max_groups
        self._members: Shares[ConnectedClient] = members or Shares(MAX_PRODUCERS, MAX_GROUPS_PER_PRODUCER)
        self._names: dict[str, str] = {}
        self._groups: dict[str, dict[Channel, ConnectedClient]] = {}
        self._turns: dict[str, int] = {}

    def register(self, group: str, client: ConnectedClient, now_ms: int) -> None:
        """Register the client as a producer of the group, as a heartbeat asks.

        :raises RequestRefused: SYSTEM_BUSY: too many groups or members are connected, or the client is in too many
            groups.
        """
        members = self._groups.get(group)
        if members is None or client.channel not in members:
            if not self._members.has_room(client):
                raise RequestRefused(
                    ResponseCode.SYSTEM_BUSY,
                    self._members.refusal(client, f"producer groups of client {client.client_id}"),
                )
            if members is None:
                members = self._new_group(group)
            self._members.add(client)
        members[client.channel] = client
        client.producer_groups[self._names[group]] = now_ms

    def unregister(self, group: str, client: ConnectedClient) -> None:
        """Remove the client from the group; nothing happens if it was no producer of the group."""
        client.producer_groups.pop(group, None)
        members = self._groups.get(group)
        if members is None:
            return
        if members.pop(client.channel, None) is not None:
            self._members.give_back(client)
        if not members:
            del self._groups[group], self._names[group]
            self._turns.pop(group, None)

    def _new_group(self, group: str) -> dict[Channel, ConnectedClient]:
        if len(self._groups) >= self._max_groups:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, f"{self._max_groups} producer groups are connected, the limit"
            )
        self._names[group] = group  # the one copy of the name that all members share
        members = self._groups[group] = {}
        return members

    def leave(self, client: ConnectedClient) -> None:
        """Remove a client whose connection is gone from all its groups."""
        for group in list(client.producer_groups):
            self.unregister(group, client)

    def forget_stale(self, client: ConnectedClient, moment_ms: int) -> None:
        """Remove a connected client from the groups that no heartbeat has named since a moment."""
        for group, named_ms in list(client.producer_groups.items()):
            if named_ms < moment_ms:
                self.unregister(group, client)

    def pick(self, group: str, exclude: Container[Channel] = (), needs: Sequence[Need] = ()) -> Channel | None:
        """Return an open connection of the group, another one at each call; None if there is none.

        :param exclude: connections that were tried already.
        :param needs: the rights that the client must have.
        """
        members = self._groups.get(group)
        clients = [] if members is None else list(members.values())
        turn = self._turns.get(group, 0)
        for step in range(len(clients)):
            client = clients[(turn + step) % len(clients)]
            channel = client.channel
            if channel.closed or channel in exclude:
                continue
            if client.may(needs):
                self._turns[group] = (turn + step + 1) % len(clients)
                return channel
        return None

    def members(self, group: str) -> list[ConnectedClient]:
        """Return the clients of a group in the order in which they joined; empty if the group is not connected."""
        return list(self._groups.get(group, {}).values())

    def groups(self) -> list[str]:
        """Return the names of the connected groups, sorted."""
        return sorted(self._groups)
