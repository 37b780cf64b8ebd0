"""Who made the topics or groups of a broker: a host that makes them automatically gets a share of them.

What operators make, what a file brings back and what the broker itself needs counts for nobody, and is refused at the
limit only.
"""

from __future__ import annotations

from gateway.errors import RequestRefused
from gateway.shares import Shares
from wire.codes import ResponseCode

NOBODY = ""
"""The maker of what no client made by the way."""
CLIENTS = "clients"
"""The maker of what clients made whose host is not told."""


class Makers:
    """Counts names, and remembers the host that made each since the start.

    :param limit: names in all; :param what: what they are names of, for refusals.
    """

    def __init__(self, limit: int, what: str) -> None:
        self._what = what
        self._shares: Shares[str] = Shares(limit)
        self._hosts: dict[str, str] = {}

    def check_room(self, host: str, new: int = 1) -> None:
        """Let a host make ``new`` more.

        :raises RequestRefused: SYSTEM_BUSY, the limit or the share of the host is reached.
        """
        shares = self._shares
        if host == NOBODY:
            if new and shares.used + new > shares.total:
                raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"the broker has {shares.total} {self._what}, the limit")
        elif not shares.has_room(host, new):
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, shares.refusal(host, f"{self._what} made automatically for {host}")
            )

    def made(self, name: str, host: str = NOBODY) -> None:
        """A name is there."""
        self._shares.add(host)
        if host != NOBODY:
            self._hosts[name] = host

    def gone(self, name: str) -> None:
        """A name is not there any more."""
        self._shares.give_back(self._hosts.pop(name, NOBODY))
