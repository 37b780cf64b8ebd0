"""Steps of transactions: half messages, and outcomes for them."""

from __future__ import annotations

from functools import partial

from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.settings.transaction import TransactionStateStore
from gateway.store.put_result import PutResult
from gateway.tests.crash.disk.state_databases import hand_over, wanted_after
from gateway.tests.crash.ledger import Half, Ledger, Outcome, Shown, Waiting
from gateway.tests.crash.messages import QUEUES, outgoing
from gateway.tests.crash.small_broker import ROOT
from gateway.tests.crash.stage import Stage, Steps
from gateway.transaction.records.half_messages import HALF_QUEUE_ID, half_of
from gateway.transaction.replies import Reply
from gateway.transaction.states import Event
from wire.codes import ResponseCode
from wire.message.properties import PropertyName


class TransactionSteps(Steps):
    """The steps of transactional producers, also for half messages of earlier lives."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._halves: list[Shown] = [half.shown for half in stage.ledger.halves.values()]

    def half(self) -> None:
        message = self._stage.message(self._random.choice(QUEUES[:2]))
        properties = {**message.property_map, PropertyName.PGROUP: "producers", PropertyName.TRAN_MSG: "true"}
        half = half_of(outgoing((message.topic, message.queue_id), message.body, self._clock(), properties))
        self._stage.allow(half)
        self._stage.allow(half, (CHECK_MAX_TOPIC, HALF_QUEUE_ID))
        self._broker.store.append(half, self._half_stored)

    def _half_stored(self, result: PutResult) -> None:
        half = self._stage.stored_aside(result)
        if half is not None:
            self._halves.append(half.shown)
            self._stage.fact(partial(_add_half, result.queue_offset, half))

    def end(self) -> None:
        """An outcome for a half message: mostly a new one, sometimes an old one again, or the contrary."""
        if not self._halves:
            return
        index = self._random.choice((0, len(self._halves) - 1, self._random.randrange(len(self._halves))))
        message = self._broker.store.message_at(self._halves[index].place)
        if message is None or message.topic != HALF_TOPIC:
            del self._halves[index]
            return
        outcome = self._random.choice(list(Outcome))
        offset = message.queue_offset
        self._stage.fact(lambda ledger: ledger.ask(offset, outcome))
        event = Event.COMMIT if outcome is Outcome.COMMIT else Event.ROLLBACK
        self._broker.transactions.settling.ask(message, event, ("workload", "-"), partial(self._told, offset, outcome))

    def hand_over(self) -> None:
        """A proper end; then a broker with another state store takes the log over."""
        files = self._stage.files
        now = wanted_after(ROOT, files, self._stage.workload.states)
        self._broker.threads.run()
        self._broker.close()
        self._stage.note_flushed()
        hand_over(ROOT, files, self._random.choice([store for store in TransactionStateStore if store is not now]))
        self._stage.begin()

    def _told(self, offset: int, outcome: Outcome, reply: Reply) -> None:
        if reply.code is ResponseCode.SUCCESS:
            log_end = self._broker.store.stored_end  # what is appended may lie behind the outcome
            self._stage.fact(lambda ledger: ledger.tell(offset, outcome, log_end))
        else:
            self._stage.fact(lambda ledger: ledger.refuse(offset, outcome))


def _add_half(offset: int, waiting: Waiting, ledger: Ledger) -> None:
    ledger.halves[offset] = Half(waiting.shown, waiting.final)
