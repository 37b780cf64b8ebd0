"""A writer of a table's newest snapshot: it writes in a thread, one write at a time.

The table in memory counts, and the file only follows it. Changes that arrive during a write share the next write, so a
thousand changes at the same moment cost two writes.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.in_thread import Failed, InThread
from gateway.metadata.saved.json_file import JsonFile
from gateway.telemetry.logs import EventLog

log = EventLog("metadata")

Content = bytes | Callable[[], bytes]
"""A file's content, or a function that makes the content, in the thread, from values that no longer change."""

Saved = Callable[[BaseException | None], None]
"""A callback that gets None when a change is on disk, otherwise the error."""


class WriteBehind:
    """A writer that keeps one file up to date with one table.

    :param snapshot: returns the present table; called on the reactor thread. A large table copies itself and returns a
        function that makes the text, so that the reactor does not wait for the text either.
    """

    def __init__(self, file: JsonFile, snapshot: Callable[[], Content], in_thread: InThread) -> None:
        self._file = file
        self._snapshot = snapshot
        self._in_thread = in_thread
        self._sequence = 0
        self._writing = False
        self._again = False
        self._waiting: list[Saved] = []
        self._riding: list[Saved] = []
        self.dirty = False
        self.owed = False
        """True if a change is unwritten whose request waits for the disk; others follow every few seconds."""
        self.failure: str | None = None
        """The reason why the last write did not reach the disk; None if the write reached the disk."""

    def touch(self) -> None:
        """Note that the table changed; a later ``save`` writes the change."""
        self.dirty = True

    def save(self, saved: Saved | None = None) -> None:
        """Write all changes after the write under way; call ``saved`` when they are on disk, or with the error."""
        if self.dirty:
            if saved is not None:
                self._waiting.append(saved)
            if self._writing:
                self._again = True
            else:
                self._start()
        elif saved is not None:
            if self._writing:
                self._riding.append(saved)  # the write under way holds every change
            else:
                saved(None)

    def save_owed(self, saved: Saved) -> None:
        """Do ``save`` if something is owed; otherwise only wait for the write under way."""
        if self.owed:
            self.save(saved)
        elif self._writing:
            self._riding.append(saved)
        else:
            saved(None)

    def owe(self) -> None:
        """Note a change whose request waits for the disk."""
        self.dirty = self.owed = True

    def save_now(self) -> None:
        """Write all changes and wait for the write: for the end of the process.

        :raises OSError: the change is not on disk.
        """
        if self.dirty or self._writing:
            self._sequence += 1
            self._file.write(_text(self._snapshot()), self._sequence)
            self.dirty = self.owed = False

    def _start(self) -> None:
        content = self._snapshot()
        self._sequence += 1
        sequence = self._sequence
        self._riding, self._waiting = self._waiting, []
        self._writing, self._again, self.dirty, self.owed = True, False, False, False
        self._in_thread(lambda: self._file.write(_text(content), sequence), self._written)

    def _written(self, result: object) -> None:
        failure = result.error if isinstance(result, Failed) else None
        self._writing = False
        self.failure = None if failure is None else str(failure)
        if failure is not None:
            self.owe()
            # A full or failing disk is told in one line; a traceback is for what should not happen.
            known = isinstance(failure, OSError)
            log.error(
                "configuration file not written",
                path=self._file.path,
                reason=str(failure),
                failure=None if known else failure,
            )
        waiting, self._riding = self._riding, []
        for saved in waiting:
            saved(failure)
        if self._again and not self._writing:
            self._start()


def _text(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content()
