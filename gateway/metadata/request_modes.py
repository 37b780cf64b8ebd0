"""The way groups consume topics when the broker shares out the queues: by pulling or by popping.

Upstream: ``MessageRequestModeManager`` and its file ``messageRequestMode.json``. A pair without a mode uses
``defaultMessageRequestMode``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gateway.errors import RequestRefused
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.saved.saved_table import SavedTable
from wire.bodies.pop import MessageRequestMode
from wire.codes import ResponseCode
from wire.disk.config_json import MessageRequestModesFile

if TYPE_CHECKING:
    from gateway.metadata.saved.config_disk import ConfigDisk

MAX_MODES = 100_000
"""The number of pairs of topic and group."""


class RequestModes(SavedTable[MessageRequestModesFile]):
    """The modes that were set, by topic and group.

    :param path: ``config/messageRequestMode.json`` of the data directory.
    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    """

    def __init__(
        self,
        *,
        path: Path,
        in_thread: InThread = in_this_thread,
        max_modes: int = MAX_MODES,
        disk: ConfigDisk | None = None,
    ) -> None:
        super().__init__(path, MessageRequestModesFile.parse, in_thread, disk)
        self._max_modes = max_modes
        self._table: dict[str, dict[str, MessageRequestMode]] = {}
        self._extra: Mapping[str, Any] = {}

    def get(self, topic: str, group: str) -> MessageRequestMode | None:
        """Return the mode that was set, or None."""
        return self._table.get(topic, {}).get(group)

    def put(self, mode: MessageRequestMode) -> None:
        """Set a mode.

        :raises RequestRefused: SYSTEM_BUSY, the limit is reached.
        """
        groups = self._table.get(mode.topic, {})
        if mode.consumer_group not in groups and sum(map(len, self._table.values())) >= self._max_modes:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{self._max_modes} request modes are set, the limit")
        self._table.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self._writer.touch()

    def follow(self, master: Mapping[str, Mapping[str, MessageRequestMode]]) -> None:
        """Become the table of a master.

        :raises RequestRefused: SYSTEM_BUSY, the master has more modes than fit here; nothing is changed.
        """
        if master == self._table:
            return
        if sum(map(len, master.values())) > self._max_modes:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"the master has more than {self._max_modes} request modes")
        self._table = {topic: dict(groups) for topic, groups in master.items()}
        self._writer.touch()
        self._writer.save()

    def all(self) -> Mapping[str, Mapping[str, MessageRequestMode]]:
        """Return topic to group to mode; a view that changes with the table."""
        return MappingProxyType(self._table)

    def _restore(self, content: MessageRequestModesFile) -> None:
        self._table = {topic: dict(groups) for topic, groups in content.modes.items()}
        self._extra = content.extra

    def _frozen(self) -> Callable[[], bytes]:
        modes = {topic: dict(groups) for topic, groups in self._table.items()}
        return MessageRequestModesFile(modes, self._extra).build
