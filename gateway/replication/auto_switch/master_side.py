"""The master's side of a group: what differs from ``brokerRole`` alone (``GroupLead`` of ``master.lead``)."""

from __future__ import annotations

from collections.abc import Callable

from gateway.clock import Milliseconds
from gateway.replication.auto_switch.counting import GroupCopies
from gateway.replication.auto_switch.group import FoundLog, MasterOfGroup
from gateway.replication.auto_switch.kept_epochs import KeptEpochs
from gateway.replication.auto_switch.slave_talk import GroupSlaveTalk, SentLog
from gateway.replication.master.lead import LedLog
from gateway.replication.master.talk import SlaveTalk


class MasterSide:
    """The epoch, the members and the words of one master."""

    def __init__(self, group: MasterOfGroup, clock_ms: Milliseconds) -> None:
        self._group = group
        self._log: LedLog | None = None
        self.epochs: KeptEpochs | None = None
        """The epochs of the log; None until this broker leads."""
        self.copies = GroupCopies(group.min_in_sync, self._own_end, clock_ms)
        """The copies that senders wait for."""

    @property
    def refusal(self) -> str | None:
        """The reason why the set is too small for messages to be taken; None if it is not."""
        return self.copies.refusal

    def lead(self, log: LedLog, file_bytes: int) -> Callable[[], SlaveTalk]:
        """Begin the epoch of this master, and return what makes the words for each connection; blocks."""
        self._log = log
        end, record_end, hidden_from = log.max_commit_log_offset, log.last_record_end(), log.hidden_from
        self.epochs = epochs = KeptEpochs(self._group.epoch_file, end)
        epochs.promote(self._group.epoch, log.min_commit_log_offset, end)
        found = FoundLog(record_end if hidden_from is None else hidden_from, record_end, end)
        self.copies.count(self._group.make_members(found))
        sent_log = SentLog(epochs, self._own_end, lambda: self.copies.end_everywhere, file_bytes)
        return lambda: GroupSlaveTalk(sent_log)

    def _own_end(self) -> int:
        return 0 if self._log is None else self._log.durable_end
