"""Steps of a replica that follows another master: the end of its log is cut, and it goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from gateway.broker.takeover import cut_directory
from gateway.metadata.names import HALF_TOPIC
from gateway.settings import Settings
from gateway.store.log.log_scan import LogScan
from gateway.tests.crash.ledger import Ledger, Outcome
from gateway.tests.crash.small_broker import ROOT
from gateway.tests.crash.stage import Steps
from gateway.transaction.records.half_messages import HALF_QUEUE_ID
from gateway.transaction.states import OPEN_STATES, State

SETTINGS = replace(Settings(), store_path_root_dir=ROOT)
NEAR_RECORDS = 12
"""Most cuts are among so many last records."""


class CutSteps(Steps):
    """A proper end, a cut and a new start."""

    def cut(self) -> None:
        """Forget the last records, or nearly everything."""
        store, files = self._broker.store, self._stage.files
        self._broker.threads.run()
        size = store.deletion.settings.mapped_file_size_commit_log
        self._broker.close()
        self._stage.note_flushed()
        log = store._log.files
        begins = [message.commit_log_offset for message in LogScan(log, store.min_commit_log_offset)]
        if begins:
            offset = self._random.choice(begins if self._random.random() < 0.2 else begins[-NEAR_RECORDS:])
            self._stage.fact(partial(_begin_cut, offset))
            cut_directory(replace(SETTINGS, mapped_file_size_commit_log=size), offset, files)
            self._stage.fact(_end_cut)
        self._stage.begin()
        broker = self._broker
        halves = range(broker.store.max_offset(HALF_TOPIC, HALF_QUEUE_ID))
        states = {offset: broker.transactions.tables.outcomes.state(offset) for offset in halves}
        self._stage.fact(partial(_decide_again, states))


def _begin_cut(offset: int, ledger: Ledger) -> None:
    ledger.begin_cut(offset)


def _decide_again(states: Mapping[int, State], ledger: Ledger) -> None:
    """Only what the log still says is decided."""
    for offset, half in ledger.halves.items():
        if half.told_at < 0:
            half.open_asks.clear()
            state = states.get(offset, State.NONE)
            half.asked = None
            if state not in (*OPEN_STATES, State.DISCARDED):
                half.asked = Outcome.COMMIT if state is State.COMMITTED else Outcome.ROLL_BACK


def _end_cut(ledger: Ledger) -> None:
    ledger.end_cut()
