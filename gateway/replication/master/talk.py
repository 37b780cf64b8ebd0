"""The bytes on the connection of one slave, for the master: the one part in which the two protocols differ.

``ClassicTalk`` is that of ``brokerRole``; ``auto_switch`` has that of a group with a controller.
"""

from __future__ import annotations

from typing import Protocol

from wire.replication.classic import MAX_STRETCH_BODY_BYTES, ReportReader, build_stretch_head


class SlaveTalk(Protocol):
    """The words on one connection."""

    @property
    def claimed_id(self) -> int | None:
        """The broker id that the slave says it has; None if slaves of this protocol do not say it."""

    @property
    def has_news(self) -> bool:
        """True if a sign of life would tell the slave something new."""

    def receive_data(self, data: bytes) -> list[int]:
        """Take the bytes of one read; return the reports that they complete.

        :raises FrameError: the bytes are none of a slave.
        """

    def reply(self) -> bytes:
        """Return what has to be sent before the slave reports, and has not been returned yet."""

    def start_of(self, report: int, log_begin: int) -> int:
        """Return the offset from which on the log is sent to a slave with this first report."""

    def head(self, offset: int, available_bytes: int) -> tuple[bytes, int]:
        """Return the head before a part of the log, and how many of the available bytes follow it."""

    def sign_of_life(self, offset: int) -> bytes:
        """Return a head that nothing follows."""


class ClassicTalk:
    """The words of ``brokerRole``: no greeting, and nobody says who he is."""

    claimed_id = None
    has_news = False

    def __init__(self) -> None:
        self._reports = ReportReader()
        self.receive_data = self._reports.receive_data

    def reply(self) -> bytes:
        """Implement ``SlaveTalk.reply``."""
        return b""

    def start_of(self, report: int, log_begin: int) -> int:
        """Implement ``SlaveTalk.start_of``."""
        return report or log_begin

    def head(self, offset: int, available_bytes: int) -> tuple[bytes, int]:
        """Implement ``SlaveTalk.head``."""
        count = min(available_bytes, MAX_STRETCH_BODY_BYTES)
        return build_stretch_head(offset, count), count

    def sign_of_life(self, offset: int) -> bytes:
        """Implement ``SlaveTalk.sign_of_life``."""
        return build_stretch_head(offset, 0)
