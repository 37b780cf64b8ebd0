"""The file ``consumerOrderInfo.json``: the ordered pops as they were last saved.

The revive topic has all later changes; a promoted slave finds all ordered pops there. Upstream:
``ConsumerOrderInfoManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.delivery.pop.order import OrderTable, entries_of
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.saved_table import SavedTable
from gateway.metadata.saved.write_behind import Saved
from wire.disk.config_json import ConsumerOrderInfoFile

FILE_NAME = "consumerOrderInfo.json"
APPLIED_END = "gatewayAppliedEnd"
"""The name of ``applied_end`` in the file; Apache brokers drop it. Never change: it is on disk."""

WHOLE_LOG: Final = 1 << 63
"""An offset beyond every log."""


class OrderFile(SavedTable[ConsumerOrderInfoFile]):
    """The file of an order table, which counts its changes.

    :param log_end: returns the offset up to which the log's ordered pops are in the table.
    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    """

    def __init__(
        self,
        path: Path,
        orders: OrderTable,
        log_end: Callable[[], int],
        in_thread: InThread = in_this_thread,
        disk: ConfigDisk | None = None,
    ) -> None:
        super().__init__(path, ConsumerOrderInfoFile.parse, in_thread, disk)
        self._orders = orders
        self._log_end = log_end
        self.applied_end = -1
        """The commit log offset up to which the log's records are in the loaded file: -1 if there is no file, beyond
        every log if Apache RocketMQ wrote the file."""
        self._extra: Mapping[str, Any] = {}
        self._saved = orders.changes

    def persist(self, saved: Saved | None = None) -> None:
        """Write all changes; call ``saved`` when everything up to now is on disk, or with the error."""
        self._note_changes()
        super().persist(saved)

    def persist_now(self) -> None:
        """Write all changes and wait for the write: for the end of the process.

        :raises OSError: the change is not on disk.
        """
        self._note_changes()
        super().persist_now()

    def replace(self) -> None:
        """Write the table whatever the file holds, and wait for the write.

        :raises OSError: the file is the old one.
        """
        self._writer.touch()
        super().persist_now()

    def _note_changes(self) -> None:
        if self._orders.changes != self._saved:
            self._writer.touch()

    def _restore(self, content: ConsumerOrderInfoFile) -> None:
        self._orders.load(content.table)
        self._extra = content.extra
        applied_end = content.extra.get(APPLIED_END)
        self.applied_end = applied_end if isinstance(applied_end, int) else WHOLE_LOG
        self._saved = self._orders.changes

    def _frozen(self) -> Callable[[], bytes]:
        self._saved = self._orders.changes
        extra = {**self._extra, APPLIED_END: self._log_end()}
        table = self._orders.frozen()
        return lambda: ConsumerOrderInfoFile(entries_of(table), extra).build()
