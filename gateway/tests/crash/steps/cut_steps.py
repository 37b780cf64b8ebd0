"""Steps of a replica that follows another master: the end of its log is cut, and it goes on from there."""

from __future__ import annotations

from functools import partial

from gateway.store.log.log_scan import LogScan
from gateway.store.recovery.log_cut import cut_log
from gateway.tests.crash.ledger import Ledger
from gateway.tests.crash.small_broker import ROOT
from gateway.tests.crash.stage import Steps

NEAR_RECORDS = 12
"""Most cuts are among so many last records."""


class CutSteps(Steps):
    """A proper end, a cut and a new start."""

    def cut(self) -> None:
        """Forget the last records, or nearly everything."""
        store, files = self._broker.store, self._stage.files
        self._broker.threads.run()
        settings = store.deletion.settings
        self._broker.close()
        self._stage.note_flushed()
        log = store._log.files
        begins = [message.commit_log_offset for message in LogScan(log, store.min_commit_log_offset)]
        if begins:
            offset = self._random.choice(begins if self._random.random() < 0.2 else begins[-NEAR_RECORDS:])
            self._stage.fact(partial(_begin_cut, offset))
            cut_log(ROOT, offset, settings, files)
            self._stage.fact(_end_cut)
        self._stage.begin()


def _begin_cut(offset: int, ledger: Ledger) -> None:
    ledger.begin_cut(offset)


def _end_cut(ledger: Ledger) -> None:
    ledger.end_cut()
