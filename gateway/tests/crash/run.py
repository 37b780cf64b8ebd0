"""Plays a workload for one life of a broker: steps drawn from a seed, and the facts that each of them makes.

Between two steps nothing happens, so that the seed alone decides how appends, turns of the reactor, threads and flushes
interleave.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gateway.tests.crash.disk.recording import Change, Image
from gateway.tests.crash.ledger import Fact, Ledger
from gateway.tests.crash.stage import Stage
from gateway.tests.crash.steps.copy_steps import CopySteps
from gateway.tests.crash.steps.cut_steps import CutSteps
from gateway.tests.crash.steps.delay_steps import DelaySteps
from gateway.tests.crash.steps.message_steps import MessageSteps
from gateway.tests.crash.steps.table_steps import TableSteps
from gateway.tests.crash.steps.transaction_steps import TransactionSteps
from gateway.tests.crash.steps.upkeep_steps import UpkeepSteps
from gateway.tests.crash.workload import Workload


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a broker, ready to be cut at any place.

    :param image: the disk it began with.
    :param ledger: what had been promised before.
    :param facts: each with the number of changes that were made before it.
    """

    image: Image
    ledger: Ledger
    changes: list[Change]
    facts: list[tuple[int, Fact]]


class Run:
    """The steps that may come, each by the name it has in workloads."""

    def __init__(self, workload: Workload, image: Image, ledger: Ledger, random: Random, first_number: int) -> None:
        self._workload = workload
        self._image = image
        self._stage = Stage(workload, image, ledger, random, first_number)
        kinds = (MessageSteps, CopySteps, CutSteps, TransactionSteps, DelaySteps, TableSteps, UpkeepSteps)
        parts = [kind(self._stage) for kind in kinds]
        self._steps = {name: getattr(part, name) for part in parts for name in workload.weights if hasattr(part, name)}

    @property
    def number(self) -> int:
        """The number of the last message."""
        return self._stage.number

    def play(self) -> Life:
        """All steps."""
        stage, weights = self._stage, self._workload.weights
        for name in stage.random.choices(list(weights), list(weights.values()), k=self._workload.steps):
            stage.let_pass(stage.random.choice((0, 0, 1, 7)))
            self._steps[name]()
            stage.note_flushed()
        return Life(self._image, stage.ledger, stage.files.changes, stage.facts)
