"""Messages that a peer names by their place in the log: read no further than the request needs, and never in its way.

Most requests that name a message are decided by its head and its properties. A body may have 4 MB, and may lie on the
disk: the reactor's thread reads what is short and in memory, a thread everything else, the connections in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from gateway.remoting.dispatch import answer_failures
from gateway.store.queues.extended_units import NotInMemory
from gateway.transaction.half_reader import Found, WholeMessages
from wire.codes import ResponseCode

if TYPE_CHECKING:
    from gateway.broker.cold_reads import ColdReads
    from gateway.remoting.dispatch import Request
    from gateway.transaction.log_access import LogAccess
    from wire.message.record import StoredMessage

GoOn: TypeAlias = "Callable[[StoredMessage | None], None]"
"""Told what lies there, or None; what it raises becomes the answer."""


class NamedMessages:
    """Reads for the requests of one broker."""

    def __init__(self, store: LogAccess, cold_reads: ColdReads) -> None:
        self._store = store
        self._cold_reads = cold_reads
        self._whole = WholeMessages(store, cold_reads.read)

    def head(self, request: Request, commit_log_offset: int, go_on: GoOn) -> None:
        """Go on with the message at a place, body or not, or with None; now if it is in memory.

        :raises RequestRefused: too many reads of the disk wait.
        """
        try:
            found = self._store.head_now(commit_log_offset)
        except NotInMemory:
            read = partial(self._store.head_at, commit_log_offset)
            self._cold_reads.read(read, partial(_have_read, request, go_on), request.channel)
            return
        go_on(found)

    def whole(self, request: Request, head: StoredMessage, go_on: GoOn) -> None:
        """Go on with a message of which the head was read, body included; now if it is short and in memory.

        :raises RequestRefused: too many reads of the disk wait.
        """
        if head.has_body:
            go_on(head)
        else:
            place = head.commit_log_offset, head.total_size
            self._whole.read(place, request.channel, partial(_have_read, request, go_on))


def _have_read(request: Request, go_on: GoOn, found: Found) -> None:
    if isinstance(found, BaseException):
        request.answer(ResponseCode.SYSTEM_ERROR, remark=f"reading the store failed: {found}")
    else:
        answer_failures(request, partial(go_on, found))
