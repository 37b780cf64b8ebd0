"""The comparison of our log with that of another broker, which is asked for single records by request 33."""

from __future__ import annotations

from typing import Protocol

from gateway.replication.prefix import Compared, difference
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address
from wire.codes import RequestCode, ResponseCode
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


async def compared(
    ours: ComparedLog,
    around: ReplicationSurroundings,
    peer: Address,
    place: int,
    *,
    begin: int = 0,
    hidden_from: int | None = None,
) -> str | None:
    """Return why our log and a peer's are not equal up to ``place``; None if they are.

    :param begin: the offset before which the peer's log may have nothing.
    :param hidden_from: the offset from which on the peer shows no record yet: a master of ours shows a message once
        enough slaves have it, and compares the logs itself before it counts a slave.
    :raises CallFailed: the peer does not answer.
    """
    records = await around.off_reactor(lambda: compared_records(ours, place, begin))
    if hidden_from is not None:
        shown = [(offset, record) for offset, record in records if offset < hidden_from]
        if records and not shown:
            return None
        records = shown
    found: list[Compared] = []
    for offset, record in records:
        theirs = await _record_of(peer, offset, around)
        found.append(Compared(offset, record, theirs))
        if theirs != record:
            break
    return difference(place, found) or await _difference_inside(ours, around, peer, place, records)


async def _difference_inside(
    ours: ComparedLog, around: ReplicationSurroundings, peer: Address, place: int, records: list[tuple[int, bytes]]
) -> str | None:
    """Return how the peer's log differs behind the last compared record, if ``place`` is inside our next one.

    A filler reaches to the end of its file, so another log may have a record that fits where ours has a filler. No
    broker of ours shows a filler. Apache RocketMQ's shows its bytes, and a slave of it may end inside a record.
    """
    end = records[0][0] + len(records[0][1]) if records else place
    if end >= place:
        return None
    inside = (await around.off_reactor(lambda: ours.log_bytes(end, 0)) or b"")[: place - end]
    theirs = await _record_of(peer, end, around)
    if theirs is None or theirs.startswith(inside):
        return None
    return difference(place, [Compared(end, inside, theirs)])


async def _record_of(peer: Address, offset: int, around: ReplicationSurroundings) -> bytes | None:
    header = ViewMessageRequest(offset=offset, hidden_too=True)
    answer = await around.call(peer, RequestCode.VIEW_MESSAGE_BY_ID, header)
    return bytes(answer.body) if answer.code == ResponseCode.SUCCESS else None


def compared_records(ours: ComparedLog, place: int, begin: int) -> list[tuple[int, bytes]]:
    """Return the records to compare, the last one first, with their offsets; blocks."""
    begins = ours.record_begins(place, max(begin, ours.min_commit_log_offset))
    found = ((offset, ours.log_bytes(offset, 0)) for offset in begins)
    return [(offset, record) for offset, record in found if record]
