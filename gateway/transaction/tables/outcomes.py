"""The state of every half message by queue offset: one byte while its page has open ones, about a quarter byte later.

Half-queue offsets are dense, so states are stored in pages of 4096 bytes. A full page without open half messages is
compressed. The number of remembered outcomes is limited. An older half message has the state NONE: it is settled, and
the log knows how (``settling``).
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
    """The states of 4096 half messages, and the number of open half messages among them."""

    __slots__ = ("open", "states")

    def __init__(self, states: bytes) -> None:
        self.states = vec[u8](states)
        self.open = 0


class Outcomes:
    """The states by half-queue offset.

    :param remembered: the largest number of settled half messages that are kept, in steps of 4096.
    """

    def __init__(self, remembered: int) -> None:
        self._max_sealed = max(1, remembered // PAGE)
        self._pages: dict[int, _Page] = {}
        self._sealed: dict[int, bytes] = {}
        self._end = 0

    def state(self, offset: i64) -> State:
        """Return the state of a half message; NONE if it was never seen or is forgotten."""
        number = offset >> PAGE_BITS  # negative when there is no such half message
        page, sealed = self._pages.get(number), None
        if page is None:
            sealed = self._sealed.get(number)
            if sealed is None:
                page = self._pages.get(number)  # another thread may have opened it between the two looks
        if page is not None:
            return _STATES[page.states[offset & _MASK]]
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
        """Do what ``put`` does, for many pending half messages that were not known before."""
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
        """Compress every full page without open half messages; called after the start."""
        for number in sorted(self._pages):
            if self._pages[number].open == 0 and self._end >> PAGE_BITS > number:
                self._seal(number)

    @property
    def end(self) -> int:
        """The offset after the highest offset that was put."""
        return self._end

    def _unsealed(self, number: int) -> _Page:
        sealed = self._sealed.get(number)
        page = self._pages[number] = _Page(_ALL_NONE if sealed is None else zlib.decompress(sealed))
        self._sealed.pop(number, None)  # last, so that other threads find the page in one of the two
        return page

    def _seal(self, number: int) -> None:
        self._sealed[number] = zlib.compress(self._pages[number].states, 1)
        del self._pages[number]
        if len(self._sealed) > self._max_sealed:
            del self._sealed[next(iter(self._sealed))]
