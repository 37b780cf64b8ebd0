"""Displaced registrations: a later registration, over another connection, took their place.

Anybody may register a broker of somebody else: by mistake, with a copied configuration, or on purpose. The later
registration counts, because a broker that restarts registers over a new connection while its old connection may still
seem open. When the later connection closes, the broker goes back to the registration whose connection is still open.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

from gateway.nameserver.addresses import BrokerAddress

MAX_BEHIND: Final = 8
"""The largest number of displaced registrations that are remembered for one registration in force."""


class OverChannel(Protocol):
    """A registration over a connection, such as a ``LiveBroker``."""

    @property
    def channel_id(self) -> int | None:
        """The id of the connection over which the registration came; None for a broker of this process."""


R = TypeVar("R", bound=OverChannel)


class Displaced(Generic[R]):
    """Displaced registrations, each kept under the address of the registration that is in force instead."""

    def __init__(self) -> None:
        self._behind: dict[BrokerAddress, list[R]] = {}
        self._fronts: dict[int, set[BrokerAddress]] = {}

    def keep(self, front: BrokerAddress, live: R) -> bool:
        """Remember a registration that the one of ``front`` displaced.

        Return False if ``front`` has ``MAX_BEHIND`` already.
        """
        behind = self._behind.get(front, [])
        if len(behind) >= MAX_BEHIND:
            return False
        self._behind[front] = [*behind, live]
        if live.channel_id is not None:
            self._fronts.setdefault(live.channel_id, set()).add(front)
        return True

    def take(self, front: BrokerAddress) -> list[R]:
        """Forget and return the registrations that the one of ``front`` displaced, the oldest first."""
        behind = self._behind.pop(front, [])
        for channel_id in {live.channel_id for live in behind if live.channel_id is not None}:
            fronts = self._fronts[channel_id]
            fronts.discard(front)
            if not fronts:
                del self._fronts[channel_id]
        return behind

    def closed(self, channel_id: int) -> list[R]:
        """Forget and return the displaced registrations that came over a connection which is closed now."""
        forgotten: list[R] = []
        for front in list(self._fronts.get(channel_id, ())):
            for live in self.take(front):
                if live.channel_id == channel_id:
                    forgotten.append(live)
                else:
                    self.keep(front, live)
        return forgotten
