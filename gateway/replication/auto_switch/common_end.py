"""The place up to which our log and another broker's are equal, found by comparing single records (request 33).

Logs of a group are equal up to a place and differ after it, because each grew as a copy of proven beginnings. So the
first difference counts, and a record that is equal after one that differs proves nothing.
"""

from __future__ import annotations

from functools import partial

from gateway.errors import GatewayError
from gateway.replication.comparing import ComparedLog, compared_records
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address
from wire.codes import RequestCode, ResponseCode, response_code_name
from wire.headers.pull import ViewMessageRequest


class NoAnswerAboutRecord(GatewayError):  # noqa: N818 (a fact about an answer)
    """The other broker neither shows a record nor says that it has none."""


async def common_end(ours: ComparedLog, around: ReplicationSurroundings, peer: Address, place: int, begin: int) -> int:
    """Return up to where our log and a peer's are equal: ``place``, the end of an earlier record, or ``begin``.

    :param place: the end that is looked at; a record that does not end there or before is not compared.
    :param begin: the offset before which nothing can be compared.
    :returns: ``begin`` if no record is equal.
    :raises CallFailed: the peer does not answer.
    :raises NoAnswerAboutRecord: the peer refuses to answer.
    """
    equal_end, bound = begin, place
    while True:
        records = await around.off_reactor(partial(compared_records, ours, bound, equal_end))
        differing = [offset for offset, record in records if await _record_of(peer, offset, around) != record]
        bound = min(differing, default=bound)
        equal_end = max((offset + len(record) for offset, record in records if offset < bound), default=equal_end)
        if not differing or equal_end >= bound:
            return equal_end


async def _record_of(peer: Address, offset: int, around: ReplicationSurroundings) -> bytes | None:
    """Return a record of the peer, also if it is not visible there; None if there is none."""
    header = ViewMessageRequest(offset=offset, hidden_too=True)
    answer = await around.call(peer, RequestCode.VIEW_MESSAGE_BY_ID, header)
    if answer.code == ResponseCode.SUCCESS:
        return bytes(answer.body)
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return None
    raise NoAnswerAboutRecord(
        f"the master does not show the record at {offset}: {response_code_name(answer.code)} {answer.remark}"
    )
