"""The last save when a broker stops: for a table that cannot be written, one log line says what that costs.

The other tables are written nevertheless, and the messages are not affected. But the process must not end with exit
code 0, because whoever restarts or moves the broker relies on that code. The same holds for a store that could not be
closed properly.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from gateway.errors import GatewayError
from gateway.telemetry.logs import EventLog

log = EventLog("broker")


class Table(Protocol):
    """A table with a file."""

    def persist_now(self) -> None:
        """Write the changes; blocks.

        :raises OSError: the file could not be written.
        """


class LastSave(NamedTuple):
    """A table, its file, and the consequences of a start without the last changes."""

    table: Table
    path: Path
    lost: str


class NotAllSaved(GatewayError):  # noqa: N818 (a fact, not a failure of ours)
    """An error: table files are in the state of an earlier save, or the store was not closed properly.

    :param paths: the files of the tables; :param store: the store's directory if it was not closed properly.
    """

    def __init__(self, paths: Iterable[Path], store: Path | None = None) -> None:
        self.paths = tuple(paths)
        self.store = store
        what = []
        if self.paths:
            names = ", ".join(str(path) for path in self.paths)
            what.append(f"not saved at the stop, and as they were saved last: {names}")
        if store is not None:
            what.append(
                f"not everything in {store} could be flushed at the stop (the reason stands above): start a broker on "
                "it, which recovers it from the log, before it is copied or handed over"
            )
        super().__init__("; ".join(what))


def save_all(saves: Iterable[LastSave]) -> list[Path]:
    """Write every table; return the files that could not be written, each of which is logged."""
    failed = []
    for save in saves:
        try:
            save.table.persist_now()
        except OSError as error:
            failed.append(save.path)
            log.error("table not saved", path=save.path, reason=error.strerror or str(error), lost=save.lost)
    return failed
