"""The bytes on the connection to the master of the group, for a slave."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.replication.slave.talk import Heard
from wire.replication.auto_switch import Greeting, PartReader, build_greeting, build_progress


class GroupMasterTalk:
    """Implementation of ``MasterTalk``: it greets with the id that the controller gave."""

    def __init__(self, own_id: int) -> None:
        self._own_id = own_id
        self._reader = PartReader()

    def greeting(self) -> bytes:
        """Implement ``MasterTalk.greeting``."""
        return build_greeting(Greeting(self._own_id))

    def receive_data(self, data: bytes) -> Sequence[Heard]:
        """Implement ``MasterTalk.receive_data``."""
        return self._reader.receive_data(data)

    def report(self, end: int) -> bytes:
        """Implement ``MasterTalk.report``."""
        return build_progress(end)
