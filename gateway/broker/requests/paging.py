"""Pages of a table sorted by name, as tools since 5.5 ask for them: a number of entries from the n-th on."""

from __future__ import annotations

from collections.abc import Iterable


def page(names: Iterable[str], first: int | None, count: int | None) -> list[str]:
    """Return the names of one page, sorted; all names if no page was asked for."""
    ordered = sorted(names)
    if first is None or count is None:
        return ordered
    first = max(first, 0)
    return ordered[first : first + max(count, 0)]
