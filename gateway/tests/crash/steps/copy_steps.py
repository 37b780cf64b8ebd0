"""Steps of a replica: what another broker stored is copied, record by record, into this one."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from random import Random

from gateway.settings.store import StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.tests.crash.disk.recording import Image, RecordingFiles
from gateway.tests.crash.ledger import Ledger, QueueName
from gateway.tests.crash.messages import QUEUES, outgoing
from gateway.tests.crash.oracle import Violation
from gateway.tests.crash.small_broker import START_MS, Clock
from gateway.tests.crash.stage import Stage, Steps
from gateway.tests.crash.steps.upkeep_steps import set_deleting
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage, restated

MESSAGES = 160
REMADE = "B"
"""The topic that the other broker deletes in between and makes again."""


class CopySteps(Steps):
    """The steps of a connection to the other broker."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._busy: MessageStore | None = None
        self._compared: MessageStore | None = None

    def copy(self) -> None:
        """Some records, whole or cut off."""
        self._copy(from_begin=True)

    def copy_late(self) -> None:
        """The same from a broker that has deleted its first files."""
        self._copy(from_begin=False)

    def _copy(self, *, from_begin: bool) -> None:
        store = self._broker.store
        if self._busy is store or store.refusal is not None:
            return
        other = other_broker(store.deletion.settings, from_begin)
        if store.max_commit_log_offset < other.min_commit_log_offset:
            self._busy = store
            self._stage.fact(partial(set_deleting, other.min_commit_log_offset))
            store.begin_log_at(other.min_commit_log_offset, self._done)
            return
        if self._compared is not store:
            self._compared = store
            _compare(store, other)
        received = bytearray()
        for _ in range(self._random.randint(1, 3)):
            received += (
                other.log_bytes(store.max_commit_log_offset + len(received), self._random.choice((1, 3000))) or b""
            )
        records = store.copied_records(bytes(received[: len(received) - self._random.choice((0, 0, 20))]))
        assert records.problem is None, records.problem
        again = next((message for message in records.messages[1:] if message.queue_offset == 0), None)
        if again is not None:  # until it comes, the messages before it are promised
            records = store.copied_records(bytes(received[: again.commit_log_offset - records.start]))
        for message in records.messages:
            self._stage.allow(restated(message, message.topic, message.queue_id, message.properties))
            if message.queue_offset == 0:
                self._stage.fact(partial(_begin_again, (message.topic, message.queue_id)))
        self._busy = store
        store.append_copied(records, self._done)

    def _done(self, _result: object) -> None:
        self._busy = None


def _compare(store: MessageStore, other: MessageStore) -> None:
    """What an earlier life copied is equal to the other log, byte for byte."""
    offset = max(store.min_commit_log_offset, other.min_commit_log_offset)
    while part := store.log_bytes(offset, 1 << 20):
        theirs = other.log_bytes(offset, 1 << 20)
        if theirs is None or theirs[: len(part)] != part:
            raise Violation(f"the copy differs from its source from offset {offset} on")
        offset += len(part)


@cache
def other_broker(settings: StoreSettings, from_begin: bool) -> MessageStore:
    """A broker that has stored some messages."""
    clock, random = Clock(START_MS), Random(1)
    files = RecordingFiles(Image({}, {"/": 0, "/data": 0}), clock)
    store = MessageStore(Path("/data/other"), settings, StoreSurroundings(clock_ms=clock, files=files))
    store.open()
    for number in range(MESSAGES):
        if number in (MESSAGES // 3, MESSAGES // 2):
            store.delete_topic(REMADE)
        sent = [_message(number + part / 8, random) for part in range(random.choice((1, 1, 1, 4)))]
        store.append_all(sent, lambda _: None)
        clock.now_ms += random.choice((0, 1, 7))
    if not from_begin:
        store._log.files.take_first()
    return store


def _message(number: float, random: Random) -> OutgoingMessage:
    properties = {PropertyName.KEYS: f"k{number}", PropertyName.UNIQ_KEY: f"u{number}"}
    body = f"{number} ".encode() + random.randbytes(8).hex().encode() * (random.choice((0, 30, 300, 1500)) // 16)
    return outgoing(random.choice(QUEUES), body, START_MS, properties)


def _begin_again(queue: QueueName, ledger: Ledger) -> None:
    ledger.shown.pop(queue, None)
