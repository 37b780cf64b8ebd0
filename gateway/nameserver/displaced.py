"""Registrations of brokers that a later one, over another connection, took the place of.

Anybody may register a broker that is not theirs: by mistake, with a copied configuration, or on purpose. The later
registration counts, since a broker that restarts registers over a new connection while its former one may still seem
open. When the later connection closes, the broker goes back to the registration whose connection is still open.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

from gateway.nameserver.addresses import BrokerAddress

MAX_BEHIND: Final = 8
"""Registrations that are remembered behind one that is in force."""


class OverChannel(Protocol):
    """A registration; ``LiveBroker`` is one."""

    @property
    def channel_id(self) -> int | None:
        """Return what it came over; None for a broker of this process."""


R = TypeVar("R", bound=OverChannel)


class Displaced(Generic[R]):
    """Registrations over open connections, each behind the address of the one that is in force instead."""

    def __init__(self) -> None:
        self._behind: dict[BrokerAddress, list[R]] = {}
        self._fronts: dict[int, set[BrokerAddress]] = {}

    def keep(self, front: BrokerAddress, live: R) -> bool:
        """Remember a registration behind the one of ``front``; False when as many are remembered as may be."""
        behind = self._behind.get(front, [])
        if len(behind) >= MAX_BEHIND:
            return False
        self._behind[front] = [*behind, live]
        if live.channel_id is not None:
            self._fronts.setdefault(live.channel_id, set()).add(front)
        return True

    def take(self, front: BrokerAddress) -> list[R]:
        """Forget and return what is behind the registration of ``front``, the oldest first."""
        behind = self._behind.pop(front, [])
        for channel_id in {live.channel_id for live in behind if live.channel_id is not None}:
            fronts = self._fronts[channel_id]
            fronts.discard(front)
            if not fronts:
                del self._fronts[channel_id]
        return behind

    def closed(self, channel_id: int) -> list[R]:
        """Forget and return what came over a connection that closed."""
        forgotten: list[R] = []
        for front in list(self._fronts.get(channel_id, ())):
            for live in self.take(front):
                if live.channel_id == channel_id:
                    forgotten.append(live)
                else:
                    self.keep(front, live)
        return forgotten
