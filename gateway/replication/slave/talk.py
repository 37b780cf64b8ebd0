"""The bytes on the connection to a master, for the slave: the one part in which the two protocols differ.

``ClassicMasterTalk`` is that of ``brokerRole``; ``auto_switch`` has that of a group with a controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from wire.replication.auto_switch import LogPart, MasterAnswer
from wire.replication.classic import Stretch, StretchReader, build_report

Heard: TypeAlias = Stretch | MasterAnswer | LogPart


class MasterTalk(Protocol):
    """The words on one connection."""

    def greeting(self) -> bytes:
        """Return what is said first; nothing if the first report is."""

    def receive_data(self, data: bytes) -> Sequence[Heard]:
        """Take the bytes of one read; return what they complete, in order.

        :raises FrameError: the bytes are none of a master.
        """

    def report(self, end: int) -> bytes:
        """Return the report of the offset after the last durable byte."""


class ClassicMasterTalk:
    """The words of ``brokerRole``."""

    def __init__(self) -> None:
        self._stretches = StretchReader()

    def greeting(self) -> bytes:
        """Implement ``MasterTalk.greeting``."""
        return b""

    def receive_data(self, data: bytes) -> Sequence[Heard]:
        """Implement ``MasterTalk.receive_data``."""
        return self._stretches.receive_data(data)

    def report(self, end: int) -> bytes:
        """Implement ``MasterTalk.report``."""
        return build_report(end)
