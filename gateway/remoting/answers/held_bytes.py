"""The bytes that the requests of all peers hold in one process, and the limit of their sum.

Incomplete and waiting requests, long lists in the making and answers that peers have not taken have limits of their
own, and all of these may be filled at once. So all servers of a process share one ``HeldBytes``. From three quarters of
its limit on large answers wait. Beyond the limit a part that holds more than its third closes its largest connections:
who fills one part does not get the few connections of another part closed.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations


class HeldBytes:
    """A sum of bytes with a limit. A plain class for speed: each large answer changes it.

    :param limit_bytes: bytes of all requests; ``is_short`` is true above three quarters of this limit.
    """

    __slots__ = ("limit_bytes", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.total_bytes = 0

    def change(self, by_bytes: int) -> None:
        """Count bytes that are held from now on, or that are held no more if the number is negative."""
        self.total_bytes += by_bytes

    @property
    def most_of_requests(self) -> int:
        """The bytes that incomplete requests may take: with as many, large answers still have some room."""
        return self.limit_bytes // 3 * 2

    @property
    def is_short(self) -> bool:
        """True if what can wait has to wait."""
        return self.total_bytes > self.limit_bytes // 4 * 3

    def must_shrink(self, part_bytes: int) -> bool:
        """Return whether a part of the sum has to close connections: all hold too much, and the part more than a third.

        The third part, the lists, never takes more than its own third: one of the two others is larger then.
        """
        return self.total_bytes > self.limit_bytes and part_bytes > self.limit_bytes // 3

    def __str__(self) -> str:
        return f"gateway.heldBytesTotal: all requests hold {self.total_bytes} bytes, the limit is {self.limit_bytes}"
