"""The step before a slave connects: its log has to be the beginning of the master's, or it begins where that does.

A log without a record gets the master's first record by request 33, because a master of Apache RocketMQ sends only its
last file to a slave that reports 0. A master of ours sends all of its log then. The broker that is asked has to be a
master: at the address of a lost master its machine may have come back as a slave, whose log may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred

from gateway.errors import GatewayError
from gateway.replication.comparing import ComparedLog, compared
from gateway.replication.prefix import refused_place
from gateway.replication.slave.asking import check_role
from gateway.replication.slave.intake import CopyingLog
from gateway.replication.surroundings import Call, ReplicationSurroundings
from gateway.settings import Address
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode, ResponseCode, response_code_name
from wire.headers.pull import ViewMessageRequest

VISIBLE_END = "commitLogVisibleOffset"
"""The figure of a master of ours that says from where on its messages are not shown yet."""
MAX_LOG_OFFSET = 2**63 - 1
"""The largest offset of a log, which is a signed 64-bit number."""


class MasterAddresses(NamedTuple):
    """The addresses of a master."""

    remoting: Address
    """The address for requests."""
    ha: Address
    """The address of the port for slaves."""


class BeginningLog(CopyingLog, ComparedLog, Protocol):
    """The log that follows a master; ``MessageStore`` is one."""

    def flush_stored(self) -> bool:
        """Bring the log to the disk up to the last stored record; blocks."""

    def begin_log_at(self, offset: int, done: Callable[[BaseException | None], None]) -> None:
        """Let a log without a record begin at an offset."""


class CannotFollow(GatewayError):  # noqa: N818 (a fact about two logs)
    """The log cannot go on as a copy of the master's."""


async def begin(store: BeginningLog, master: MasterAddresses, around: ReplicationSurroundings) -> None:
    """Return when the log may grow by what the master sends.

    :raises CannotFollow: it may not; the text says why.
    :raises CallFailed: the master does not answer.
    """
    await bring_to_disk(store, around)
    first, end, hidden_from = await span_of_master(master, around.call)
    place, own_first = store.max_commit_log_offset, store.min_commit_log_offset
    if place == own_first:
        await _begin_empty(store, master, around.call, first, end)
        await bring_to_disk(store, around)
        return
    fault = refused_place(place, first, end)
    if fault is None:
        fault = await compared(
            store,
            around,
            master.remoting,
            place,
            begin=max(first, own_first),
            hidden_from=hidden_from,
        )
    if fault is not None:
        raise CannotFollow(fault)


async def bring_to_disk(store: BeginningLog, around: ReplicationSurroundings) -> None:
    """Make everything durable: with ASYNC_FLUSH the last records may not be."""
    if store.durable_end < store.max_commit_log_offset and not await around.off_reactor(store.flush_stored):
        raise CannotFollow("the log cannot be brought to the disk, see the errors of the store")


async def _begin_empty(store: BeginningLog, master: MasterAddresses, call: Call, first: int, end: int) -> None:
    if first == end:
        return  # the master has nothing either
    answer = await call(master.remoting, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=first))
    await check_role(master.remoting, call)  # asked last: who is a master now has had this record before, too
    await begin_where_master_does(store, first)
    if answer.code != ResponseCode.SUCCESS:
        return  # a master of ours does not show it before a slave has it
    records = store.copied_records(bytes(answer.body))
    if not records.data:
        raise CannotFollow(f"the master's first record at {first} is none: {records.problem or 'it is cut off'}")
    copied: Deferred[bool] = Deferred()
    store.append_copied(records, copied.callback)
    if not await copied:
        raise CannotFollow("the first record cannot be stored now, see the errors of the store")


async def begin_where_master_does(store: BeginningLog, first: int) -> None:
    """Let a log without a record begin at an offset.

    :raises CannotFollow: it cannot.
    """
    if store.max_commit_log_offset == first:
        return
    begun: Deferred[BaseException | None] = Deferred()
    store.begin_log_at(first, begun.callback)
    error = await begun
    if error is not None:
        raise CannotFollow(f"the log cannot begin at {first}: {error}")


async def span_of_master(master: MasterAddresses, call: Call) -> tuple[int, int, int | None]:
    """Return where the master's log begins and ends, and from where on it is hidden; None if it shows everything."""
    answer = await call(master.remoting, RequestCode.GET_BROKER_RUNTIME_INFO, None)
    if answer.code != ResponseCode.SUCCESS:
        raise CannotFollow(f"the master does not tell its figures: {response_code_name(answer.code)} {answer.remark}")
    return log_figures(KVTable.parse(answer.body).table)


def log_figures(table: Mapping[str, str]) -> tuple[int, int, int | None]:
    """Return where a master's log begins and ends, and from where on it is hidden; None if it shows everything.

    :raises CannotFollow: a figure is missing, or is no offset of a log.
    """
    try:
        first, end = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        hidden_from = int(table[VISIBLE_END]) if VISIBLE_END in table else None
    except (KeyError, ValueError):
        raise CannotFollow("the master does not tell where its log begins and ends") from None
    for figure in (first, end, hidden_from or 0):
        if not -1 <= figure <= MAX_LOG_OFFSET:
            raise CannotFollow(f"the master tells a figure of its log that is no offset: {str(figure)[:32]}")
    return max(first, 0), max(end, 0), hidden_from  # an empty log of upstream's says that it begins at -1
