"""The files of the timer: ``timerlog/``, ``timerwheel`` and ``config/timercheck``, as Apache RocketMQ has them.

The order of saving is entries, wheel, checkpoint, so that the checkpoint never claims more than is on disk. The wheel
file is for Apache RocketMQ alone: a start of the gateway makes the wheel from the entries. (Upstream:
``TimerFlushService``.)
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.schedule.timer_check import TimerCheckFile, TimerMarks
from gateway.schedule.timer_log import TimerLog
from gateway.schedule.timer_schedule import TimerSchedule
from gateway.schedule.timer_wheel import TimerWheel
from gateway.store.disk.files import FileLayer
from gateway.store.message_store import MessageStore
from gateway.telemetry.logs import EventLog
from wire.disk.timer_log import NONE

log = EventLog("schedule")

SCAN_BYTES = 64 << 20
"""The bytes of the log that a start may have to scan before the checkpoint is saved, with nothing more to save."""
OLDEST_MS = 60_000
"""The milliseconds between two searches for the oldest waiting message.

The oldest waiting message keeps the commit log and the timer log from deletion.
"""


class TimerFiles:
    """All files of the timer.

    :param root: the store directory.
    :param log_file_bytes: the size of a timer log file, in bytes.
    :param wheel: a wheel of another size than the file's.
    """

    def __init__(
        self, root: Path, log_file_bytes: int, files: FileLayer | None = None, wheel: TimerWheel | None = None
    ) -> None:
        self._files = FileLayer() if files is None else files
        self._wheel_path = root / "timerwheel"
        self.wheel = TimerWheel() if wheel is None else wheel
        self.log = TimerLog(self._files, root / "timerlog", log_file_bytes)
        self.check = TimerCheckFile(self._files, root / "config" / "timercheck")
        self.keep_from: int | None = None
        self._saved: TimerMarks | None = None
        self._saved_changes = -1
        """The schedule's ``changes`` at the last save; −1 if the schedule was not settled at that time.

        A schedule that is not settled can settle without another change, and then a save is worth it.
        """
        self._candidate: tuple[TimerMarks, int, int] | None = None
        """The marks of the next save; the place up to which the commit log has to be on disk first; the ``changes``."""
        self._is_saving = False
        self._oldest_at_ms = 0

    def load(self) -> TimerMarks:
        """Return the marks of the checkpoint; blocks.

        :raises OSError: the checkpoint cannot be read.
        """
        return self.check.load()

    def entered(self, commit_log_offset: int) -> None:
        """Note that a message began to wait."""
        if self.keep_from is None:
            self.keep_from = commit_log_offset

    def save(self, schedule: TimerSchedule, store: MessageStore, now_ms: int) -> Callable[[], object] | None:
        """Implement ``TimerService.save``."""
        if self._is_saving or self.log.written < self.log.end:
            return None
        looks = schedule.waiting and not schedule.is_behind and not 0 <= now_ms - self._oldest_at_ms < OLDEST_MS
        if self.log.is_doubtful:
            return self._looking(schedule, now_ms) if looks else None
        if self._candidate is None:
            marks, needed = schedule.marks(store.stored_end)
            changes = schedule.changes if schedule.is_settled else -1
            self._candidate = marks, max(needed, marks.scan_from), changes
        marks, needed, changes = self._candidate
        if needed > store.flushed_offset:  # with ASYNC_FLUSH: the log first
            return None
        self._candidate = None
        if not (looks or self._is_worth(marks, schedule.changes)):
            return None
        self._saved_changes = changes
        look = self._looking(schedule, now_ms) if looks else None
        # As long as a slot is partly done, what was delivered of it may be lost, and its entries count again.
        if not schedule.waiting and schedule.is_settled:
            self.keep_from = None
            schedule.waits_from = marks.log_end
        expired = self.log.take_below(marks.waits_from)
        pages = self.wheel.take_changed()
        self._is_saving = True

        def write() -> None:
            try:
                self._write(marks, pages, now_ms)
                self.log.remove(expired)
                if look is not None:
                    look()
            except OSError as error:
                self.wheel.changed_again(pages)
                log.error("timer files not saved", error=str(error), until=self._until())
            finally:
                self._is_saving = False

        return write

    def close(self, schedule: TimerSchedule, store: MessageStore) -> None:
        """Save everything; blocks.

        If the store could not be flushed, the checkpoint stays unchanged: the next start repeats everything done since.

        :raises OSError: a file cannot be saved.
        """
        marks, needed = schedule.marks(store.stored_end)
        if max(needed, marks.scan_from) > store.flushed_offset:
            log.error("timer files not saved", error="the commit log is not on disk")
            return
        if self.log.is_doubtful:
            raise OSError(errno.EIO, "a sync of the timer log failed before")
        self.log.write_all()
        self.log.cut(self.log.end)  # a file that was made ahead
        if self.log.end or self._saved is not None or self.check.newest.counter:
            self._write(marks, self.wheel.take_changed(), self.check.newest.changed_at_ms)

    def _until(self) -> str:
        """Return, for a line of the log, when an unsaved state will be saved."""
        if not self.log.is_doubtful:
            return "the next attempt"
        return "the next start, which takes what waits, and what went already, from the commit log"

    def _is_worth(self, marks: TimerMarks, changes: int) -> bool:
        if not self.log.end:  # there was never a timer message
            return False
        saved = self._saved
        return saved is None or self._saved_changes != changes or marks.scan_from - saved.scan_from >= SCAN_BYTES

    def _write(self, marks: TimerMarks, pages: list[int], now_ms: int) -> None:
        self.log.sync(marks.log_end)
        self._write_wheel(pages)
        self.check.save(marks, now_ms)
        self._saved = marks

    def _write_wheel(self, pages: list[int]) -> None:
        if not pages:
            return
        fd = self._files.open(self._wheel_path, create=True)
        try:
            if self._files.size(fd) != self.wheel.file_bytes:
                self._files.truncate(fd, self.wheel.file_bytes)
            for number in pages:
                page = self.wheel.page(number)
                self._files.pwrite(fd, page.data, page.position)
        finally:
            self._files.close(fd)

    def _looking(self, schedule: TimerSchedule, now_ms: int) -> Callable[[], None]:
        """Return a function that searches for the oldest waiting message; the function blocks.

        The search does not depend on saving the checkpoint: it has to continue after saving has failed for good.
        Otherwise the commit log would be kept for ever.
        """
        self._oldest_at_ms = now_ms
        return partial(self._look_for_oldest, schedule, schedule.read_slot, schedule.slots_ahead(now_ms))

    def _look_for_oldest(self, schedule: TimerSchedule, slot: int, slots: int) -> None:
        position = self.wheel.oldest(slot, slots)
        try:
            entry = None if position == NONE or position >= self.log.written else self.log.entry_at(position)
        except OSError as error:
            log.error("oldest timer message not found, the commit log is kept", error=str(error))
            return
        if entry is not None:
            self.keep_from = entry.commit_log_offset
            schedule.waits_from = position
