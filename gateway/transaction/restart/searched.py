"""The note that a start must search the log for outcomes that no op record names, and the note's removal.

Such outcomes are in a log that was written with a table or a database. The note is in the file ``state-store`` until
their op records are on disk. Without the note, a kill before that would make settled half messages pending again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gateway.in_thread import Failed, InThread
from gateway.telemetry.logs import EventLog
from gateway.transaction.state_stores.remembered import Remembered, RememberedStore

log = EventLog("transaction")


class SearchedLog:
    """The note of one start, in the file ``state-store``.

    :param has: the content of the file, with the note.
    """

    def __init__(self, remembered: RememberedStore, has: Remembered, in_thread: InThread) -> None:
        self._remembered = remembered
        self._has = has
        self._in_thread = in_thread
        self._is_saving = False
        self._idle: Callable[[], None] | None = None

    def end(self) -> None:
        """Remove the note. Call this when all op records are on disk."""
        self._is_saving = True
        self._in_thread(partial(self._remembered.save, replace(self._has, is_searched=False)), self._saved)

    def _saved(self, result: Failed | None) -> None:
        self._is_saving = False
        if isinstance(result, Failed):
            log.error(
                "state-store not written: the next start searches the log once more",
                path=self._remembered.path,
                error=str(result.error),
            )
        if self._idle is not None:
            self._idle()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when nothing is being written."""
        if self._is_saving:
            self._idle = callback
        else:
            callback()
