"""The limit of failed attempts: guessing a key gets slow, and nobody with the right key is locked out.

After ``limit`` failures within a minute from one address, each further failure closes its connection, so that each
guess needs a connection of its own. A request with a right signature always passes. An owner cannot be locked out by
somebody who sends the owner's name.
"""

from __future__ import annotations

from typing import Final

from gateway.clock import Milliseconds
from gateway.shares import counted_host

WINDOW_MS: Final = 60_000
MAX_ADDRESSES: Final = 10_000
"""The number of addresses whose failures are counted; the one that failed first is then forgotten."""


class Failures:
    """Counts failed attempts by address.

    :param limit: the failures a minute from one address, or one IPv6 network of 64 bits.
    """

    def __init__(self, limit: int, clock_ms: Milliseconds) -> None:
        self._limit = limit
        self._clock_ms = clock_ms
        self._counts: dict[str, tuple[int, int]] = {}

    def failed(self, host: str) -> bool:
        """Note a failure; return whether its connection has to be closed."""
        now, key = self._clock_ms(), counted_host(host)
        begun, count = self._counts.get(key, (now, 0))
        if not 0 <= now - begun < WINDOW_MS:
            begun, count = now, 0
        if key not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            del self._counts[next(iter(self._counts))]
        self._counts[key] = begun, count + 1
        return count >= self._limit
