"""The shop's knowledge of its orders, which are transactions; it stands for a database."""

from __future__ import annotations

import threading
from dataclasses import dataclass


class Orders:
    """The fate of each order, by the id of its message. Several threads may note it."""

    def __init__(self) -> None:
        self.committed: set[str] = set()
        self.rolled_back: set[str] = set()
        self.forgotten: dict[str, bool] = {}
        """Orders whose outcome the broker was not told, and whether it is to be committed."""
        self.checks = 0
        self._lock = threading.Lock()

    def note(self, msg_id: str, *, is_committed: bool) -> None:
        """Keep what became of an order."""
        with self._lock:
            self._note(msg_id, is_committed=is_committed)

    def forget(self, msg_id: str, *, is_committed: bool) -> None:
        """Keep what the broker is told of an order when it asks, and not before."""
        with self._lock:
            self.forgotten[msg_id] = is_committed

    def asked(self, msg_id: str) -> bool:
        """The broker asks what became of an order; whether it is committed. What nobody knows of is not."""
        with self._lock:
            self.checks += 1
            is_committed = self.forgotten.pop(msg_id, msg_id in self.committed)
            self._note(msg_id, is_committed=is_committed)
        return is_committed

    def _note(self, msg_id: str, *, is_committed: bool) -> None:
        (self.committed if is_committed else self.rolled_back).add(msg_id)

    def summary(self) -> str:
        """Return one line about the producers' work."""
        counts = (len(self.committed), len(self.rolled_back), len(self.forgotten))
        return "{:,} committed, {:,} rolled back, {:,} forgotten".format(*counts)


@dataclass(frozen=True, slots=True)
class Shop:
    """The shop in which orders are placed.

    :param groups: of the producers, one for each.
    """

    nameserver: str
    topic: str
    groups: tuple[str, ...]
    orders: Orders
