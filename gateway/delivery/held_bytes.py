"""The bytes that held requests keep in memory: long texts of their headers, and their filters.

A tag expression of 65,536 characters becomes a set of ten times as many bytes, and the cache of SQL92 filters does not
keep what only a held request still uses. So each large filter counts, and one that many requests share counts once: for
the connection that brought it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.delivery.filters.message_filter import MessageFilter
from gateway.shares import Shares
from gateway.store.reading.wanted import WantedCodes

SHORT_BYTES: Final = 1_024
"""The bytes up to which a text or a set of tags codes does not count: the number of held requests is limited, too."""
MAX_HELD_BYTES: Final = 64 << 20
"""The bytes of the texts and filters of all held pulls, pops and notifications; a connection gets a share."""


@dataclass(slots=True)
class _HeldFilter:
    """A part of filters that held requests share."""

    part: object
    """The part, whose id is used for nothing else while it is kept here."""
    owner: object
    count: int
    size: int


class WaitingBytes:
    """The bytes of all held requests of a broker.

    :param limit: how many bytes may be held; a connection gets a share.
    """

    def __init__(self, limit: int = MAX_HELD_BYTES) -> None:
        self._shares: Shares[object] = Shares(limit)
        self._filters: dict[int, _HeldFilter] = {}

    @property
    def used(self) -> int:
        """The bytes that are held."""
        return self._shares.used

    def take(self, owner: object, accepts: MessageFilter, text_bytes: int) -> bool:
        """Count a request that is held; return False, and count nothing, if its connection has too much.

        :param text_bytes: the bytes of the texts that the request keeps, beside its filter.
        """
        parts = _parts(accepts)
        size = text_bytes if text_bytes > SHORT_BYTES else 0
        size += sum(each for part, each in parts if id(part) not in self._filters)
        if size and not self._shares.take(owner, size):
            return False
        for part, each in parts:
            known = self._filters.get(id(part))
            if known is None:
                self._filters[id(part)] = _HeldFilter(part, owner, 1, each)
            else:
                known.count += 1
        return True

    def give_back(self, owner: object, accepts: MessageFilter, text_bytes: int) -> None:
        """Count a request no longer that was taken with the same arguments."""
        if text_bytes > SHORT_BYTES:
            self._shares.give_back(owner, text_bytes)
        for part, _ in _parts(accepts):
            known = self._filters[id(part)]
            known.count -= 1
            if not known.count:
                del self._filters[id(part)]
                if known.size:
                    self._shares.give_back(known.owner, known.size)


def _parts(accepts: MessageFilter) -> list[tuple[object, int]]:
    """Return the parts of a filter that count, each with its bytes of now."""
    by_code, by_properties = accepts.accepts_code, accepts.by_properties
    found: list[tuple[object, int]] = []
    if isinstance(by_code, WantedCodes) and by_code.kept_bytes > SHORT_BYTES:
        found.append((by_code.codes, by_code.kept_bytes))
    if by_properties is not None:
        found.append((by_properties, by_properties.kept_bytes))
    return found
