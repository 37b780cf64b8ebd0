"""``consumerOrderInfo.json``: the ordered pops as they were saved last.

The revive topic has what came after it. Upstream: ``ConsumerOrderInfoManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.metadata.json_file import JsonFile
from gateway.metadata.write_behind import InThread, Saved, WriteBehind, in_this_thread
from wire.disk.config_json import ConsumerOrderInfoFile

if TYPE_CHECKING:
    from gateway.delivery.pop.order import OrderTable
    from gateway.metadata.config_disk import ConfigDisk

FILE_NAME = "consumerOrderInfo.json"


class OrderFile:
    """The file of an order table.

    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    """

    def __init__(
        self, path: Path, orders: OrderTable, in_thread: InThread = in_this_thread, disk: ConfigDisk | None = None
    ) -> None:
        self._orders = orders
        self._extra: Mapping[str, Any] = {}
        self._saved = 0
        self._file = JsonFile(path, disk)
        self._writer = WriteBehind(self._file, self._frozen, in_thread)

    def load(self) -> None:
        """Read the file; blocks, so only before the broker serves.

        :raises GatewayError: there is a file but neither it nor its backup can be read.
        """
        content = self._file.load(ConsumerOrderInfoFile.parse)
        if content is not None:
            self._orders.load(content.table)
            self._extra = content.extra
        self._saved = self._orders.changes

    def persist(self, saved: Saved | None = None) -> None:
        """Write what changed; ``saved`` is told when everything up to now is on disk."""
        self._note_changes()
        self._writer.save(saved)

    def persist_now(self) -> None:
        """The same, waiting for it: for the end of the process."""
        self._note_changes()
        self._writer.save_now()

    def _note_changes(self) -> None:
        if self._orders.changes != self._saved:
            self._writer.touch()

    def _frozen(self) -> Callable[[], bytes]:
        self._saved = self._orders.changes
        return ConsumerOrderInfoFile(self._orders.entries(), self._extra).build
