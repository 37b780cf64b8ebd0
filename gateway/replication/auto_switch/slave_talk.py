"""The bytes on the connection of a slave of the group, for the master."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.replication.auto_switch.kept_epochs import KeptEpochs
from wire.disk.epoch_file import EpochEntry
from wire.errors import FrameError
from wire.replication.auto_switch import MAX_PART_BODY_BYTES, Greeting, GroupReportReader, build_answer, build_part_head


@dataclass(frozen=True, slots=True)
class SentLog:
    """The facts about the master's log that travel beside its bytes.

    :param end: returns the offset up to which the log may be sent.
    :param confirmed: returns the offset up to which all members have the log.
    """

    epochs: KeptEpochs
    end: Callable[[], int]
    confirmed: Callable[[], int]
    file_bytes: int


BEFORE_EPOCHS = EpochEntry(0, 0)
"""The epoch of bytes that were stored before the log had a controller."""


class GroupSlaveTalk:
    """Implementation of ``SlaveTalk``: a greeting is answered once, and parts of the log end with their epoch."""

    def __init__(self, sent_log: SentLog) -> None:
        self._log = sent_log
        self._reader = GroupReportReader()
        self._greeting: Greeting | None = None
        self._owes_reply = False
        self._told_confirmed = 0

    @property
    def claimed_id(self) -> int | None:
        """Implement ``SlaveTalk.claimed_id``."""
        return None if self._greeting is None else self._greeting.broker_id

    @property
    def has_news(self) -> bool:
        """Implement ``SlaveTalk.has_news``: the slave may show more."""
        return self._log.confirmed() > self._told_confirmed

    def receive_data(self, data: bytes) -> list[int]:
        """Implement ``SlaveTalk.receive_data``."""
        reports: list[int] = []
        for heard in self._reader.receive_data(data):
            if isinstance(heard, Greeting):
                self._greet(heard)
            elif self._greeting is None or self._owes_reply:
                raise FrameError("a replica reports before its greeting was answered")
            else:
                reports.append(heard.end)
        return reports

    def _greet(self, greeting: Greeting) -> None:
        if self._greeting is None:
            self._greeting, self._owes_reply = greeting, True
        elif greeting != self._greeting:  # upstream's slaves repeat the same one until it is answered
            raise FrameError(f"a replica greets as {greeting} after {self._greeting}")

    def reply(self) -> bytes:
        """Implement ``SlaveTalk.reply``."""
        if not self._owes_reply:
            return b""
        self._owes_reply = False
        return build_answer(self._log.end(), self._log.epochs.current.entries)

    def start_of(self, report: int, log_begin: int) -> int:
        """Implement ``SlaveTalk.start_of``."""
        if report or self._greeting is None or not self._greeting.from_last_file:
            return report or log_begin
        end = self._log.end()
        return max(end - end % self._log.file_bytes, log_begin)

    def head(self, offset: int, available_bytes: int) -> tuple[bytes, int]:
        """Implement ``SlaveTalk.head``."""
        epochs = self._log.epochs.current
        epoch = epochs.at(offset) or BEFORE_EPOCHS
        epoch_end = epochs.end_at(offset)
        left = available_bytes if epoch_end is None else epoch_end - offset
        count = min(available_bytes, left, MAX_PART_BODY_BYTES)
        self._told_confirmed = self._log.confirmed()
        return build_part_head(offset, count, epoch, self._told_confirmed), count

    def sign_of_life(self, offset: int) -> bytes:
        """Implement ``SlaveTalk.sign_of_life``."""
        return self.head(offset, 0)[0]
