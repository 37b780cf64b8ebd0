"""The stage of a workload: one life of a broker on a recorded disk, and the facts that steps make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from gateway.store.put_result import PutOutcome, PutResult, each_result
from gateway.tests.crash.disk.recording import Image, RecordingFiles
from gateway.tests.crash.disk.state_databases import wanted_after
from gateway.tests.crash.ledger import Fact, Ledger, QueueName, Shown, Waiting
from gateway.tests.crash.messages import message
from gateway.tests.crash.small_broker import ROOT, Clock, SmallBroker
from gateway.tests.crash.workload import Workload
from gateway.transaction.records.half_messages import real_place
from wire.message.batch import is_inner_batch, parse_batch
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage


class Stage:
    """The broker, its clock and disk, and the dice that decide everything.

    :param image: the disk it begins with.
    :param ledger: what had been promised before.
    :param number: of the last message sent before.
    """

    def __init__(self, workload: Workload, image: Image, ledger: Ledger, random: Random, number: int) -> None:
        self.workload = workload
        self.random = random
        self.ledger = ledger
        self.number = number
        self.facts: list[tuple[int, Fact]] = []
        """Each with the number of changes that were made before it."""
        self.clock = Clock(ledger.now_ms)
        self.files = RecordingFiles(image, self.clock)
        self.sent = {queue: set(bodies) for queue, bodies in ledger.allowed.items()}
        """Bodies that may be read, by queue."""
        self.has_failed = False
        """The disk was told to refuse something."""
        self._flushed = -1
        self.begin()

    def begin(self) -> None:
        """Start a broker on the disk as it is."""
        workload = self.workload
        states = wanted_after(ROOT, self.files, workload.states)
        self.broker = SmallBroker(self.files, self.clock, workload.settings, states, workload.transactions)
        self.broker.open()
        self.broker.store.listen(self._visible)
        self.broker.start()
        self.note_flushed()

    def fact(self, fact: Fact) -> None:
        """From now on something is promised."""
        self.facts.append((len(self.files.changes), fact))

    def note_flushed(self) -> None:
        """Take down up to where the log is on disk."""
        flushed = self.broker.store.flushed_offset
        if flushed != self._flushed:
            self._flushed = flushed
            self.fact(partial(_set_flushed, flushed))

    def let_pass(self, milliseconds: int) -> None:
        """Time passes that nobody notices yet."""
        self.clock.now_ms += milliseconds
        self.fact(partial(_set_now, self.clock.now_ms))

    # --- messages ------------------------------------------------------------------------------------------------

    def message(self, queue: QueueName) -> OutgoingMessage:
        """The next one."""
        self.number += 1
        return message(self.workload, queue, self.number, self.clock(), self.random)

    def allow(self, message: OutgoingMessage, queue: QueueName | None = None) -> None:
        """A message may be read from its queue, or another one, from now on."""
        queue = queue or (message.topic, message.queue_id)
        self.sent.setdefault(queue, set()).add(message.body)
        self.fact(partial(_allow, queue, message.body))

    def stored(self, result: PutResult) -> None:
        """The store answered."""
        if result.status.is_stored:
            self._show(result)
        else:
            assert self.has_failed, result.status

    def all_stored(self, outcomes: Sequence[PutOutcome]) -> None:
        """The store answered for some that were sent together."""
        for result in each_result(outcomes):
            self.stored(result)

    def stored_aside(self, result: PutResult) -> Waiting | None:
        """The store answered for one that waits before it goes to its queue; None when it refused it."""
        self.stored(result)
        if not result.status.is_stored:
            return None
        place = real_place(result.message.property_map)
        assert place is not None
        start = result.commit_log_offset
        return Waiting(Shown(result.message.body, start, start + result.size, ""), place)

    def _visible(self, outcomes: list[PutOutcome]) -> None:
        for result in each_result(outcomes):
            self._show(result)

    def _show(self, result: PutResult) -> None:
        if result.queue is None:
            return  # evidence of an outcome, in no queue
        message, place = result.message, result.commit_log_offset
        bodies = [message.body] * (1 + len(result.further))
        if is_inner_batch(message.sys_flag):
            bodies = [part.body for part in parse_batch(message.body)]
        key = message.property_map.get(PropertyName.KEYS, "")
        places = (result.queue, result.queue_offset), *result.further
        for (queue, offset), body in zip(places, bodies, strict=True):
            shown = Shown(body, place, place + result.size, key)
            self.fact(partial(_show, (queue.topic, queue.queue_id), offset, shown))
            key = ""  # only the first is found by it


class Steps:
    """A kind of steps that workloads name: its public methods. Each may be played at any time."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._random = stage.random
        self._clock = stage.clock

    @property
    def _broker(self) -> SmallBroker:
        return self._stage.broker


def _allow(queue: QueueName, body: bytes, ledger: Ledger) -> None:
    ledger.allow(queue, body)


def _show(queue: QueueName, offset: int, shown: Shown, ledger: Ledger) -> None:
    ledger.show(queue, offset, shown)


def _set_now(now_ms: int, ledger: Ledger) -> None:
    ledger.now_ms = now_ms


def _set_flushed(flushed: int, ledger: Ledger) -> None:
    ledger.flushed = flushed
