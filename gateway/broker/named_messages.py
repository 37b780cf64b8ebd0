"""Messages that a peer names by their place in the log, read only as far as the request needs.

Most requests that name a message are decided by the message's head and properties. A body may have 4 MB and may lie on
the disk. Therefore the reactor's thread reads only what is short and in memory. A thread reads everything else, and
connections take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from gateway.broker.cold_reads import ColdReads
from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.remoting.dispatch import Request, answer_failures
from gateway.store.queues.extended_units import NotInMemory
from gateway.telemetry.logs import EventLog
from gateway.transaction.needs import LogAccess
from gateway.transaction.records.half_reader import Found, find_whole
from wire.codes import ResponseCode
from wire.message.record import StoredMessage

log = EventLog("broker")

GoOn: TypeAlias = "Callable[[StoredMessage | None], None]"
"""A function that gets the message at the place, or None; an exception that it raises becomes the answer."""
MAX_BEHIND: Final = 64
"""The number of requests, the first included, that may wait for one place in the log while a thread reads there."""


class NamedMessages:
    """The reads of messages that requests to one broker name."""

    def __init__(self, store: LogAccess, cold_reads: ColdReads) -> None:
        self._store = store
        self._cold_reads = cold_reads
        self._reads: dict[int, list[tuple[Request, GoOn]]] = {}

    def is_read(self, commit_log_offset: int) -> bool:
        """Return whether a thread reads the head at this place.

        Later requests for the place go on after earlier ones.
        """
        return commit_log_offset in self._reads

    def head(self, request: Request, commit_log_offset: int, go_on: GoOn) -> None:
        """Call ``go_on`` with the message at a place, or with None; at once if it is in memory.

        The message may lack its body. Requests that name the same place go on in the order of their arrival, because
        the first outcome of a half message counts.

        :raises RequestRefused: too many disk reads wait, or too many requests wait for this place.
        """
        behind = self._reads.get(commit_log_offset)
        if behind is not None:
            if len(behind) >= MAX_BEHIND:
                what = f"{len(behind)} requests wait for the message at {commit_log_offset} already"
                raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{what}; try again later")
            behind.append((request, go_on))
            return
        try:
            found = self._store.head_now(commit_log_offset)
        except NotInMemory:
            read = partial(self._store.head_at, commit_log_offset)
            self._reads[commit_log_offset] = [(request, go_on)]
            try:
                self._cold_reads.read(read, partial(self._have_head, commit_log_offset), request.channel)
            except RequestRefused:
                del self._reads[commit_log_offset]
                raise
            return
        go_on(found)

    def _have_head(self, commit_log_offset: int, found: Found) -> None:
        for request, go_on in self._reads.pop(commit_log_offset):
            _have_read(request, go_on, found)

    def whole(self, request: Request, head: StoredMessage, go_on: GoOn) -> None:
        """Call ``go_on`` with a message whose head was read, body included; at once if it is short and in memory.

        :raises RequestRefused: too many disk reads wait.
        """
        if head.has_body:
            go_on(head)
        else:
            place = head.commit_log_offset, head.total_size
            find_whole(self._store, self._cold_reads.read, place, request.channel, partial(_have_read, request, go_on))


def _have_read(request: Request, go_on: GoOn, found: Found) -> None:
    if isinstance(found, Failed):
        log.error("message not read", code=request.command.code, remote=request.channel.remote, error=str(found.error))
        request.answer(ResponseCode.SYSTEM_ERROR, remark=f"reading the store failed: {found.error}")
    else:
        answer_failures(request, partial(go_on, found))
