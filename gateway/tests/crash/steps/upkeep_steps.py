"""Steps of the broker itself and of its disk: threads, flushes, retention, faults."""

from __future__ import annotations

import errno
from functools import partial

from gateway.tests.crash.disk.recording import Fault
from gateway.tests.crash.ledger import Ledger
from gateway.tests.crash.stage import Steps


class UpkeepSteps(Steps):
    """The steps that happen without a client."""

    def turn(self) -> None:
        self._broker.threads.turn()

    def work(self) -> None:
        self._broker.threads.work(self._random)

    def settle(self) -> None:
        self._broker.threads.run()

    def flush(self) -> None:
        self._broker.store.flush()

    def flush_due(self) -> None:
        self._clock.now_ms += self._random.choice((500, 1_000, 10_000))
        self._broker.store.flush_due(self._clock())

    def progress(self) -> None:
        self._broker.reactor.advance(1)

    def age(self) -> None:
        self._clock.now_ms += self._random.choice((24, 100)) * 3_600_000

    def delete_expired(self) -> None:
        """Step by step, as a broker does it; the survey flushes what the deletion relies on."""
        store, deletion = self._broker.store, self._broker.store.deletion
        survey = deletion.survey(self._clock(), asked=True)()
        self._stage.note_flushed()
        if deletion.detach(survey):
            self._stage.fact(partial(set_deleting, store.min_commit_log_offset))
            while deletion.remove_log_file(self._clock()):
                pass
            deletion.remove_other_files()

    def fail_write(self) -> None:
        self._fail("pwrite", self._random.choice(("/commitlog/", "/commitlog/", "/consumequeue/", "/index/")))

    def fail_sync(self) -> None:
        self._fail("fdatasync", self._random.choice(("/commitlog/", "/commitlog/", "/consumequeue/", "/checkpoint")))

    def fail_timer_file(self) -> None:
        """Fail a timer file, but never half a write of the timer check, which is one sector."""
        operation, parts = self._random.choice(
            (
                ("pwrite", ("/commitlog/", "/timerlog/", "/timerwheel")),
                ("fdatasync", ("/commitlog/", "/timerlog/", "/timercheck")),
            )
        )
        self._fail(operation, self._random.choice(parts))

    def fill_disk(self) -> None:
        self._fail("pwrite", "/commitlog/", errno.ENOSPC)

    def free_disk(self) -> None:
        """Somebody deletes other files, and the broker looks."""
        self._broker.store.look_at_space(self._broker.store.deletion.look())

    def _fail(self, operation: str, part: str, code: int = errno.EIO) -> None:
        """The disk refuses something soon; what is not acknowledged then is not promised."""
        if not self._stage.has_failed:
            self._stage.has_failed = True
            self._stage.files.fault = Fault(operation, part, code)


def set_deleting(end: int, ledger: Ledger) -> None:
    ledger.deleting = end
