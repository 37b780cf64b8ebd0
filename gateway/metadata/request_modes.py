"""How groups consume topics when the broker shares out the queues: by pulling or by popping.

Upstream: ``MessageRequestModeManager`` and its file ``messageRequestMode.json``. What was not set is as
``defaultMessageRequestMode`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gateway.errors import RequestRefused
from gateway.metadata.json_file import JsonFile
from gateway.metadata.write_behind import InThread, Saved, WriteBehind, in_this_thread
from wire.bodies.pop import MessageRequestMode
from wire.codes import ResponseCode
from wire.disk.config_json import MessageRequestModesFile

if TYPE_CHECKING:
    from gateway.metadata.config_disk import ConfigDisk

MAX_MODES = 100_000
"""Pairs of topic and group."""


class RequestModes:
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
        self.path = path
        self._max_modes = max_modes
        self._table: dict[str, dict[str, MessageRequestMode]] = {}
        self._extra: Mapping[str, Any] = {}
        self._file = JsonFile(path, disk)
        self._writer = WriteBehind(self._file, self._frozen, in_thread)

    def get(self, topic: str, group: str) -> MessageRequestMode | None:
        """What was set, or None."""
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

    def all(self) -> Mapping[str, Mapping[str, MessageRequestMode]]:
        """Topic to group to mode; a view that changes with the table."""
        return MappingProxyType(self._table)

    def load(self) -> None:
        """Read the file; blocks, so only before the broker serves.

        :raises GatewayError: there is a file but neither it nor its backup can be read.
        """
        content = self._file.load(MessageRequestModesFile.parse)
        if content is not None:
            self._table = {topic: dict(groups) for topic, groups in content.modes.items()}
            self._extra = content.extra

    def persist(self, saved: Saved | None = None) -> None:
        """Write what is not written yet; ``saved`` is told when everything up to now is on disk."""
        self._writer.save(saved)

    def persist_now(self) -> None:
        """The same, waiting for it: for the end of the process."""
        self._writer.save_now()

    def _frozen(self) -> Callable[[], bytes]:
        modes = {topic: dict(groups) for topic, groups in self._table.items()}
        return MessageRequestModesFile(modes, self._extra).build
