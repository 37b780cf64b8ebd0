"""The place of every stored message: every answer of the store is compared with it."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from threading import Lock

from gateway.store.put_result import PutResult
from gateway.tests.store.small_store import message
from wire.message.record import OutgoingMessage, StoredMessage

QueueName = tuple[str, int]
MAX_KEPT = 20
"""Complaints that are kept; all are counted."""


class KnownQueue:
    """One life of a queue: the numbers of its messages from the first offset on."""

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.numbers: list[int] = []
        self.is_deleted = False

    def number_at(self, offset: int) -> int | None:
        """The number of the message at an offset; None when it is not known yet."""
        at = offset - self.first_offset
        return self.numbers[at] if 0 <= at < len(self.numbers) else None


class Account:
    """Filled on the reactor's thread; any thread may compare and complain."""

    def __init__(self, queues: Iterable[QueueName], random: Random) -> None:
        self.names = list(queues)
        self.known: dict[QueueName, KnownQueue] = {}
        self.places: dict[int, tuple[QueueName, int, int]] = {}
        """Queue, commit log offset and offset in the queue of each message by its number."""
        self.counts: dict[str, int] = {}
        self.complaints: list[str] = []
        self.complaint_count = 0
        self._random = random
        self._next = 0
        self._lock = Lock()

    def new_message(self) -> OutgoingMessage:
        """The next message, to a queue by chance; it says itself where it belongs."""
        number, self._next = self._next, self._next + 1
        topic, queue_id = self._random.choice(self.names)
        body = b"%s %d %d " % (topic.encode(), queue_id, number)
        return message(
            body.ljust(self._random.randrange(40, 400), b"."),
            topic=topic,
            queue_id=queue_id,
            UNIQ_KEY=f"u{number}",
            KEYS=f"k{number} all{number % 1000}",
            TAGS=f"t{number % 3}",
        )

    def stored(self, result: PutResult) -> None:
        """A message was acknowledged, or refused."""
        if not result.status.is_stored:
            self.complain(f"refused: {result.status}")
            return
        name = (result.topic, result.queue_id)
        queue = self.known.get(name)
        if queue is None:
            queue = self.known[name] = KnownQueue(result.queue_offset)
        if result.queue_offset != queue.first_offset + len(queue.numbers):
            self.complain(f"{name} got offset {result.queue_offset} after {len(queue.numbers)} messages")
        number = number_of(result.message.body)
        queue.numbers.append(number)
        self.places[number] = (name, result.commit_log_offset, result.queue_offset)
        self.count("stored")

    def delete(self, topic: str) -> None:
        """A topic is being deleted: what is stored from now on is of another life."""
        for name in self.names:
            if name[0] == topic and (queue := self.known.pop(name, None)) is not None:
                queue.is_deleted = True

    def compare(self, name: QueueName, queue: KnownQueue, found: StoredMessage, offset: int) -> None:
        """Compare what was read at an offset of a queue."""
        topic, queue_id = name
        is_own = found.body.startswith(b"%s %d " % (topic.encode(), queue_id))
        number = queue.number_at(offset)
        if not is_own or (found.topic, found.queue_id, found.queue_offset) != (topic, queue_id, offset):
            self.complain(
                f"{name} at {offset}: {found.topic} {found.queue_id} {found.queue_offset} {found.body[:40]!r}"
            )
        elif number not in (None, number_of(found.body)) and not queue.is_deleted:
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
