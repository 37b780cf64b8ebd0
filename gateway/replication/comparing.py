"""The comparison of our log with that of another broker, which is asked for single records by request 33."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.replication.prefix import Compared, difference
from gateway.settings import Address
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.pull import ViewMessageRequest


class ComparedLog(Protocol):
    """Our log, as far as a comparison needs it; ``MessageStore`` is one."""

    @property
    def min_commit_log_offset(self) -> int:
        """The offset of the first byte that the log still has."""

    def log_bytes(self, start: int, limit: int) -> bytes | None:
        """Return the record at ``start`` if the limit is 0; blocks."""

    def record_begins(self, place: int, begin: int) -> list[int]:
        """Return where the records to compare start; blocks."""


Call = Callable[[Address, int, Header], Awaitable[RemotingCommand]]
"""A function that calls another broker; it raises ``CallFailed`` if the broker does not answer."""


async def compared(
    ours: ComparedLog,
    in_thread: Callable[[Callable[[], list[tuple[int, bytes]]]], Awaitable[list[tuple[int, bytes]]]],
    call: Call,
    peer: Address,
    place: int,
) -> str | None:
    """Return why our log and a peer's are not equal up to ``place``; None if they are.

    :raises CallFailed: the peer does not answer.
    """
    found: list[Compared] = []
    for begin, record in await in_thread(lambda: _records(ours, place)):
        answer = await call(peer, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=begin))
        theirs = bytes(answer.body) if answer.code == ResponseCode.SUCCESS else None
        found.append(Compared(begin, record, theirs))
        if theirs != record:
            break
    return difference(place, found)


def _records(ours: ComparedLog, place: int) -> list[tuple[int, bytes]]:
    """Return the records to compare, with their offsets; blocks."""
    found = ((begin, ours.log_bytes(begin, 0)) for begin in ours.record_begins(place, ours.min_commit_log_offset))
    return [(begin, record) for begin, record in found if record]
