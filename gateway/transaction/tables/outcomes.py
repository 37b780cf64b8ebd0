"""The state of every half message by queue offset, in a byte while its page has open ones, a quarter later.

Half-queue offsets are dense, so states are pages of 4096 bytes. A full page in which all is settled is kept
compressed; only so many outcomes are remembered. Of an older half message the state is NONE: it is settled,
and the log knows how (``settling``).
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, u8

from gateway.transaction.states import OPEN_STATES, State

PAGE_BITS: Final = 12
PAGE: Final = 1 << PAGE_BITS
_MASK: Final = PAGE - 1
_STATES: Final = tuple(State)
_ALL_NONE: Final = bytes(PAGE)
_IS_OPEN: Final = tuple(state in OPEN_STATES for state in State)


class _Page:
    """The states of 4096 half messages, and how many of them are open."""

    __slots__ = ("open", "states")

    def __init__(self, states: bytes) -> None:
        self.states = vec[u8](states)
        self.open = 0


class Outcomes:
    """States by half-queue offset.

    :param remembered: how many settled half messages are kept at most, in steps of 4096.
    """

    __slots__ = ("_end", "_max_sealed", "_pages", "_sealed")

    def __init__(self, remembered: int) -> None:
        self._max_sealed = max(1, remembered // PAGE)
        self._pages: dict[int, _Page] = {}
        self._sealed: dict[int, bytes] = {}
        self._end = 0

    def state(self, offset: i64) -> State:
        """The state of a half message; NONE when it was never seen or is forgotten."""
        number = offset >> PAGE_BITS  # negative when there is no such half message
        page = self._pages.get(number)
        if page is not None:
            return _STATES[page.states[offset & _MASK]]
        sealed = self._sealed.get(number)
        return State.NONE if sealed is None else _STATES[zlib.decompress(sealed)[offset & _MASK]]

    def put(self, offset: i64, state: State) -> None:
        """Change the state of a half message."""
        number = offset >> PAGE_BITS
        page = self._pages.get(number) or self._unsealed(number)
        states, index = page.states, offset & _MASK
        was_open = _IS_OPEN[states[index]]
        states[index] = state
        if offset >= self._end:
            self._end = offset + 1
        if _IS_OPEN[state] == was_open:
            return
        page.open += -1 if was_open else 1
        if page.open == 0 and self._end >> PAGE_BITS > number:
            self._seal(number)

    def put_pending(self, offsets: Iterable[int]) -> None:
        """``put`` for many half messages that are pending and were not known before."""
        number, page = -1, _Page(b"")
        for offset in offsets:
            if offset >> PAGE_BITS != number:
                number = offset >> PAGE_BITS
                page = self._pages.get(number) or self._unsealed(number)
            index = offset & _MASK
            if not _IS_OPEN[page.states[index]]:
                page.states[index] = State.PENDING
                page.open += 1
            if offset >= self._end:
                self._end = offset + 1

    def seal(self) -> None:
        """Compress every full page without open half messages; for after the start."""
        for number in sorted(self._pages):
            if self._pages[number].open == 0 and self._end >> PAGE_BITS > number:
                self._seal(number)

    @property
    def end(self) -> int:
        """Nothing was put at this offset or behind it."""
        return self._end

    def _unsealed(self, number: int) -> _Page:
        sealed = self._sealed.get(number)
        page = self._pages[number] = _Page(_ALL_NONE if sealed is None else zlib.decompress(sealed))
        self._sealed.pop(number, None)  # last: threads look, too, and find the page in one of the two
        return page

    def _seal(self, number: int) -> None:
        self._sealed[number] = zlib.compress(self._pages[number].states, 1)
        del self._pages[number]
        if len(self._sealed) > self._max_sealed:
            del self._sealed[next(iter(self._sealed))]
