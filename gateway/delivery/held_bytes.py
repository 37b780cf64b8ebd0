"""The bytes that held requests keep in memory: long texts of their headers, and their filters.

A tag expression of 65,536 characters becomes a set of ten times as many bytes, and the cache of SQL92 filters does not
keep what only a held request still uses. So each large filter counts, and one that many requests share counts once: for
the connection that brought it first.
"""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class TakenBytes:
    """The bytes that one held request takes; the request keeps this value, and gives it back."""

    owner: object
    text_bytes: int
    filters: Sequence[_HeldFilter]


NOTHING: Final = TakenBytes(None, 0, ())
"""The value for most requests: their texts are short and their filters small."""


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

    def take(self, owner: object, accepts: MessageFilter, text_bytes: int) -> TakenBytes | None:
        """Count a request that is held; return None, and count nothing, if its connection has too much.

        :param text_bytes: the bytes of the texts that the request keeps, beside its filter.
        """
        parts = _parts(accepts)
        counted = text_bytes if text_bytes > SHORT_BYTES else 0
        if not parts and not counted:
            return NOTHING
        size = counted + sum(each for part, each in parts if id(part) not in self._filters)
        if size and not self._shares.take(owner, size):
            return None
        filters = [self._filters.setdefault(id(part), _HeldFilter(part, owner, 0, each)) for part, each in parts]
        for held in filters:
            held.count += 1
        return TakenBytes(owner, counted, filters)

    def give_back(self, taken: TakenBytes) -> None:
        """Stop counting the bytes that a request took."""
        if taken.text_bytes:
            self._shares.give_back(taken.owner, taken.text_bytes)
        for held in taken.filters:
            held.count -= 1
            if not held.count:
                del self._filters[id(held.part)]
                if held.size:
                    self._shares.give_back(held.owner, held.size)


def _parts(accepts: MessageFilter) -> list[tuple[object, int]]:
    """Return the parts of a filter that count, each with its bytes of now."""
    by_code, by_properties = accepts.accepts_code, accepts.by_properties
    found: list[tuple[object, int]] = []
    if isinstance(by_code, WantedCodes) and by_code.kept_bytes > SHORT_BYTES:
        found.append((by_code.codes, by_code.kept_bytes))
    if by_properties is not None:
        found.append((by_properties, by_properties.kept_bytes))
    return found
