"""The makers of a broker's topics or groups: a host that makes names automatically gets a share of them.

Names that operators make, that a file brings back, or that the broker itself needs count for no host. These names are
refused only at the limit.
"""

from __future__ import annotations

from gateway.errors import RequestRefused
from gateway.shares import Shares
from wire.codes import ResponseCode

NOBODY = ""
"""The maker of names that no client made automatically."""
CLIENTS = "clients"
"""The maker of names that clients of an unknown host made."""


class Makers:
    """A counter of names, which remembers the host that made each name since the start.

    :param limit: the number of names in all.
    :param what: the kind of names, for refusals.
    """

    def __init__(self, limit: int, what: str) -> None:
        self._what = what
        self._shares: Shares[str] = Shares(limit)
        self._hosts: dict[str, str] = {}

    def check_room(self, host: str, new: int = 1) -> None:
        """Check that a host may make ``new`` more names.

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
        """Count a new name."""
        self._shares.add(host)
        if host != NOBODY:
            self._hosts[name] = host

    def gone(self, name: str) -> None:
        """Stop counting a name that does not exist any more."""
        self._shares.give_back(self._hosts.pop(name, NOBODY))
