"""The half messages without an outcome: the place of each, when its check is due, how often it was checked.

A half message takes about 46 bytes, in small pages of arrays indexed by queue offset. A page is deleted after its last
half message is settled. A half message that stays open for days thus does not keep millions of settled ones in memory.
``base`` is the oldest open half message, and moves up.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from librt.vecs import vec
from mypy_extensions import i32, i64

PAGE_BITS: Final = 7
PAGE: Final = 1 << PAGE_BITS
"""The number of entries of a page. A half message that stays alone in its page for days takes no more than 5 KiB."""
_MASK: Final = PAGE - 1
_ZEROS: Final = [0] * PAGE  # a list, because a vec made of another sequence takes twice the memory


class _Page:
    """128 entries, column by column. An entry is open while its size is not 0."""

    __slots__ = ("checks", "due_at_ms", "group", "log_offset", "open", "size", "stored_at_ms", "topic")

    def __init__(self) -> None:
        self.log_offset = vec[i64](_ZEROS)
        self.stored_at_ms = vec[i64](_ZEROS)
        self.due_at_ms = vec[i64](_ZEROS)
        self.size = vec[i32](_ZEROS)
        self.group = vec[i32](_ZEROS)
        self.checks = vec[i32](_ZEROS)
        self.topic = vec[i32](_ZEROS)
        self.open = 0


class Pending:
    """The open half messages. Asking for a half message that is not open is a mistake (KeyError).

    ``end`` is the offset after the newest half message seen. ``base`` is the oldest open half message, or ``end``.
    """

    def __init__(self, start: int = 0) -> None:
        self._pages: dict[int, _Page] = {}
        self.base = start
        self.end = start
        self.count = 0

    def __contains__(self, offset: int) -> bool:
        page = self._pages.get(offset >> PAGE_BITS)
        return page is not None and page.size[offset & _MASK] != 0

    def __iter__(self) -> Iterator[int]:
        for number in sorted(self._pages):
            page = self._pages.get(number)
            if page is None:
                continue
            first = number << PAGE_BITS
            for index in range(PAGE):
                if page.size[index]:
                    yield first + index

    def behind(self, after: int) -> Iterator[int]:
        """Return the open half messages with a higher offset than ``after``, in order.

        The pages are chosen at the call.
        """
        first = after + 1
        return _behind(sorted(page for page in self._pages.copy().items() if page[0] >= first >> PAGE_BITS), first)

    def add(
        self, offset: i64, place: tuple[i64, i32], stored_at_ms: i64, due_at_ms: i64, group: i32, topic: i32 = 0
    ) -> None:
        """Add a half message that is open from now on.

        :param place: the commit log offset and size of its record.
        :param group: the number of its producer group (``CheckTurns``).
        :param topic: the number of its real topic (``TransactionCounts``).
        """
        number, index = offset >> PAGE_BITS, offset & _MASK
        page = self._pages.get(number) or self._new_page(number)
        page.log_offset[index], page.size[index] = place
        page.stored_at_ms[index] = stored_at_ms
        page.due_at_ms[index] = due_at_ms
        page.group[index] = group
        page.topic[index] = topic
        page.checks[index] = 0
        page.open += 1
        if self.count == 0 or offset < self.base:
            self.base = offset
        self.count += 1
        if offset >= self.end:
            self.end = offset + 1

    def _new_page(self, number: i64) -> _Page:
        page = self._pages[number] = _Page()
        return page

    def reach(self, end: int) -> None:
        """Note that every half message below ``end`` was seen, the settled ones too."""
        if end > self.end:
            self.end = end
        if self.count == 0:
            self.base = self.end

    def remove(self, offset: i64) -> tuple[i64, i32, i32]:
        """Remove a settled half message; return when it was stored (ms) and the numbers of its group and its topic.

        :raises KeyError: the half message is not open.
        """
        number = offset >> PAGE_BITS
        page = self._pages[number]
        index = offset & _MASK
        if not page.size[index]:
            raise KeyError(offset)
        page.size[index] = 0
        page.open -= 1
        self.count -= 1
        if page.open == 0:
            del self._pages[number]
        if offset == self.base:
            self._move_base()
        return page.stored_at_ms[index], page.group[index], page.topic[index]

    def _move_base(self) -> None:
        if self.count == 0:
            self.base = self.end
            return
        base = self.base + 1
        while True:
            page = self._pages.get(base >> PAGE_BITS)
            if page is None:
                base = self._next_page(base >> PAGE_BITS) << PAGE_BITS
                continue
            sizes = page.size
            for index in range(base & _MASK, PAGE):
                if sizes[index]:
                    self.base = base - (base & _MASK) + index
                    return
            base = ((base >> PAGE_BITS) + 1) << PAGE_BITS

    def _next_page(self, number: int) -> int:
        # Under steady traffic the next page exists; after a longer gap, search for the nearest page.
        return number + 1 if number + 1 in self._pages else min(page for page in self._pages if page > number)

    # -- one half message -----------------------------------------------------------------------------------

    def _page(self, offset: int) -> _Page:
        page = self._pages[offset >> PAGE_BITS]
        if not page.size[offset & _MASK]:
            raise KeyError(offset)
        return page

    def place(self, offset: int) -> tuple[int, int]:
        """Return the commit log offset and size of a half message's record."""
        page = self._page(offset)
        return page.log_offset[offset & _MASK], page.size[offset & _MASK]

    def stored_at_ms(self, offset: int) -> int:
        """Return when the broker stored a half message."""
        return self._page(offset).stored_at_ms[offset & _MASK]

    def due_at_ms(self, offset: int) -> int:
        """Return when a half message may be checked next."""
        return self._page(offset).due_at_ms[offset & _MASK]

    def checks(self, offset: int) -> int:
        """Return how many checks of a half message reached a producer."""
        return self._page(offset).checks[offset & _MASK]

    def group(self, offset: int) -> int:
        """Return the number of a half message's producer group."""
        return self._page(offset).group[offset & _MASK]

    def topic(self, offset: int) -> int:
        """Return the number of a half message's real topic."""
        return self._page(offset).topic[offset & _MASK]

    def checked(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield offset, commit log offset, due time and checks of each half message that was checked.

        The pages are chosen at the call. The iteration may run in another thread while entries change.
        """
        return _checked(sorted(self._pages.copy().items()))

    def schedule(self, offset: int, due_at_ms: int, checks: int) -> None:
        """Set when a half message may be checked next, and how often it was checked."""
        page = self._page(offset)
        page.due_at_ms[offset & _MASK] = due_at_ms
        page.checks[offset & _MASK] = checks


def _behind(pages: list[tuple[int, _Page]], first: int) -> Iterator[int]:
    for number, page in pages:
        start = number << PAGE_BITS
        for index in range(max(first - start, 0), PAGE):
            if page.size[index]:
                yield start + index


def _checked(pages: list[tuple[int, _Page]]) -> Iterator[tuple[int, int, int, int]]:
    for number, page in pages:
        for index in range(PAGE):
            if page.size[index] and page.checks[index]:
                offset = (number << PAGE_BITS) + index
                yield offset, page.log_offset[index], page.due_at_ms[index], page.checks[index]
