"""The place of every message that the store keeps: every answer of the store is compared with it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from random import Random
from threading import Lock

from gateway.store.put_result import PutResult
from gateway.tests.store.small_store import message
from wire.message.record import OutgoingMessage, StoredMessage

QueueName = tuple[str, int]
MAX_KEPT = 20
"""Complaints that are kept; all are counted."""


class KnownQueue:
    """One life of a queue: where it begins and ends, and the numbers of its messages by their offsets."""

    def __init__(self, first_offset: int) -> None:
        self.first_offset = self.next_offset = first_offset
        self.numbers: dict[int, int] = {}
        self.is_deleted = False


Place = tuple[KnownQueue, int, int]
"""Queue, commit log offset, and offset in the queue."""


class Account:
    """Filled on the reactor's thread; any thread may compare and complain."""

    def __init__(self, queues: Iterable[QueueName], seed: int) -> None:
        self.names = list(queues)
        self.known: dict[QueueName, KnownQueue] = {}
        self.places: dict[int, Place] = {}
        """By the number of the message."""
        self.oldest = 0
        """All messages with smaller numbers are forgotten."""
        self.counts: dict[str, int] = {}
        self.complaints: list[str] = []
        self.complaint_count = 0
        self.made = 0
        self._seed = seed
        self._lock = Lock()

    def new_message(self) -> OutgoingMessage:
        """The next message, to a queue by chance; it says itself where it belongs."""
        number, self.made = self.made, self.made + 1
        topic, queue_id = self.name_of(number)
        body = b"%s %d %d " % (topic.encode(), queue_id, number)
        return message(
            body.ljust(Random(number).randrange(40, 400), b"."),
            topic=topic,
            queue_id=queue_id,
            UNIQ_KEY=f"u{number}",
            KEYS=f"k{number} all{number % 1000}",
            TAGS=f"t{number % 3}",
        )

    def name_of(self, number: int) -> QueueName:
        """The queue of a message, forgotten ones included."""
        return Random(self._seed << 40 | number).choice(self.names)

    def stored(self, result: PutResult) -> None:
        """A message was acknowledged, or refused."""
        if not result.status.is_stored:
            self.complain(f"refused: {result.status}")
            return
        name = (result.topic, result.queue_id)
        queue = self.known.get(name)
        if queue is None:
            queue = self.known[name] = KnownQueue(result.queue_offset)
        if result.queue_offset != queue.next_offset:
            self.complain(f"{name} got offset {result.queue_offset} in place of {queue.next_offset}")
        number = number_of(result.message.body)
        queue.numbers[result.queue_offset] = number
        queue.next_offset = result.queue_offset + 1
        self.places[number] = (queue, result.commit_log_offset, result.queue_offset)
        self.count("stored")

    def forget(self, log_offset: int) -> None:
        """Forget messages before an offset of the log, which the store deleted so long ago that nobody reads them."""
        gone = list(takewhile(lambda item: item[1][1] < log_offset, self.places.items()))
        for number, (queue, _, offset) in gone:
            self.oldest = number + 1
            del self.places[number], queue.numbers[offset]
        self.count("forgotten", len(gone))

    def delete(self, topic: str) -> None:
        """A topic is being deleted: what is stored from now on is of another life."""
        for name in self.names:
            if name[0] == topic and (queue := self.known.pop(name, None)) is not None:
                queue.is_deleted = True

    def compare(self, name: QueueName, queue: KnownQueue, found: StoredMessage, offset: int) -> None:
        """Compare what was read at an offset of a queue."""
        topic, queue_id = name
        is_own = found.body.startswith(b"%s %d " % (topic.encode(), queue_id))
        is_known = queue.first_offset <= offset < queue.next_offset  # looked at first: senders are told at any moment
        number = queue.numbers.get(offset)
        if not is_own or (found.topic, found.queue_id, found.queue_offset) != (topic, queue_id, offset):
            self.complain(
                f"{name} at {offset}: {found.topic} {found.queue_id} {found.queue_offset} {found.body[:40]!r}"
            )
        elif is_known and number != number_of(found.body) and not queue.is_deleted:
            self.complain(f"{name} at {offset}: message {number_of(found.body)} in place of {number}")

    def count(self, what: str, times: int = 1) -> None:
        """Count work that was done, so that a run that did none of a kind is noticed."""
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + times

    def complain(self, text: str) -> None:
        """Something is wrong."""
        with self._lock:
            self.complaint_count += 1
            if len(self.complaints) < MAX_KEPT:
                self.complaints.append(text)


def number_of(body: bytes) -> int:
    """The number that a message says it has."""
    return int(body.split(b" ", 3)[2])
