"""The way of a slave of a group: greeting, answer, comparison, and then its first report, or a cut.

The epochs of both brokers say up to where their logs may be equal; their records decide. What this log has after that
place no other member was ever told to wait for, or the controller elected a master without it: the broker is asked to
cut it off, and keeps a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gateway.replication.auto_switch.common_end import common_end
from gateway.replication.auto_switch.group import SlaveOfGroup
from gateway.replication.auto_switch.kept_epochs import KeptEpochs
from gateway.replication.auto_switch.master_talk import GroupMasterTalk
from gateway.replication.slave.beginning import (
    BeginningLog,
    CannotFollow,
    MasterAddresses,
    begin_where_master_does,
    bring_to_disk,
    span_of_master,
)
from gateway.replication.slave.talk import MasterTalk
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.telemetry.logs import EventLog
from wire.replication.auto_switch import LogPart, MasterAnswer

log = EventLog("replication")


class GroupJoining:
    """Implementation of ``Joining`` for a slave of a group.

    :param confirm: called with the offset up to which the log may be shown.
    """

    def __init__(
        self,
        store: BeginningLog,
        around: ReplicationSurroundings,
        group: SlaveOfGroup,
        confirm: Callable[[int], None],
    ) -> None:
        self._store = store
        self._around = around
        self._group = group
        self._epochs = KeptEpochs(group.epoch_file, store.max_commit_log_offset)
        self._confirm = confirm

    async def prepare(self, master: MasterAddresses) -> None:  # noqa: ARG002 (the master is asked later)
        """Implement ``Joining.prepare``."""
        await bring_to_disk(self._store, self._around)

    def talk(self) -> MasterTalk:
        """Implement ``Joining.talk``."""
        return GroupMasterTalk(self._group.own_id)

    async def compare(self, master: MasterAddresses, answer: MasterAnswer) -> None:
        """Implement ``Joining.compare``."""
        store = self._store
        end, own_first = store.max_commit_log_offset, store.min_commit_log_offset
        first, _, _ = await span_of_master(master, self._around.call)
        if end == own_first:
            await begin_where_master_does(store, first)
            return
        begin = max(first, own_first)
        if end < first:
            raise CannotFollow(
                f"the log ends at {end}, and the master's begins at {first}: begin with an empty directory "
                "(docs/controller.md)"
            )
        by_epochs = self._epochs.current.common_end(end, answer.epochs, answer.end)
        place = min(end, answer.end) if by_epochs is None else by_epochs
        equal_end = await common_end(store, self._around, master.remoting, place, begin)
        if equal_end <= begin and (begin > own_first or self._epochs.current.at(own_first) is None):
            raise CannotFollow(
                f"no record between {begin} and {place} is equal in both logs, and the log was not begun in a group "
                "with a controller: find out whether this is the right directory, otherwise begin with an empty one "
                "(docs/controller.md)"
            )
        if place < end or await self._around.off_reactor(partial(self._has_more, equal_end)):
            await self._ask_for_cut(equal_end, end)

    def _has_more(self, offset: int) -> bool:
        """Return whether the log has a record after an offset, and not only a filler; blocks."""
        end = self._store.max_commit_log_offset
        return offset < end and bool(self._store.record_begins(end, offset))

    async def _ask_for_cut(self, offset: int, end: int) -> None:
        log.warning("the log differs from the master's and has to be cut", offset=offset, log_end=end)
        await self._around.off_reactor(partial(self._epochs.keep, self._epochs.current.without_from(offset)))
        self._group.cut(offset)
        raise CannotFollow(f"the log is equal to the master's up to {offset} and ends at {end}: it has to be cut there")

    def is_settled(self, part: LogPart) -> bool:
        """Implement ``Joining.is_settled``."""
        if self._epochs.current.last != part.epoch:
            return False
        self._confirm(part.confirmed)
        return True

    async def settle(self, part: LogPart) -> None:
        """Implement ``Joining.settle``."""
        followed = self._epochs.current.followed(part.epoch)
        await self._around.off_reactor(partial(self._epochs.keep, followed))
        log.info("a new epoch begins", epoch=part.epoch.epoch, start=part.epoch.start)
