"""The tables' last save when a broker stops: one that cannot be written is told in one line, with what that costs.

The others are written all the same, and the messages are not touched by it; but the process must not end as if all
had gone well (exit code 0): whoever restarts or moves the broker relies on that.
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


class TablesNotSaved(GatewayError):  # noqa: N818 (a fact, not a failure of ours)
    """Files of tables are as they were at an earlier save."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = tuple(paths)
        names = ", ".join(str(path) for path in self.paths)
        super().__init__(f"not saved at the stop, and as they were saved last: {names}")


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
