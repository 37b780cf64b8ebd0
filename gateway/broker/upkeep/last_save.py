"""The last save when a broker stops: a table that cannot be written is told in one line, with what that costs.

The others are written all the same, and the messages are not touched by it; but the process must not end as if all
had gone well (exit code 0): whoever restarts or moves the broker relies on that. The same holds for the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from gateway.errors import GatewayError
from gateway.telemetry.logs import EventLog

log = EventLog("broker")


class Table(Protocol):
    """Something with a file."""

    def persist_now(self) -> None:
        """Write what changed; blocks.

        :raises OSError: it could not be written.
        """


class LastSave(NamedTuple):
    """A table, its file, and what a start without the last changes does."""

    table: Table
    path: Path
    lost: str


class NotAllSaved(GatewayError):  # noqa: N818 (a fact, not a failure of ours)
    """Files of tables are as they were at an earlier save, or the store was not closed properly.

    :param paths: the tables' files; :param store: the store's directory, if it is the one.
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
    """Write every table; the files of those that could not be written, each told in the log."""
    failed = []
    for save in saves:
        try:
            save.table.persist_now()
        except OSError as error:
            failed.append(save.path)
            log.error("table not saved", path=save.path, reason=error.strerror or str(error), lost=save.lost)
    return failed
