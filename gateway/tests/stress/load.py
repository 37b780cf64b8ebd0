"""One store, and everything that a broker does with it at once: each in its thread, each answer compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread

from gateway.clock import wall_clock_ms
from gateway.in_thread import Failed
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.wanted import Wanted
from gateway.store.space.deletion import Survey
from gateway.tests.stress.account import Account, KnownQueue, QueueName, number_of
from gateway.tests.stress.files import check_index, check_units
from gateway.tests.stress.reactor import Reactor
from wire.disk.index_file import IndexShape
from wire.message.record import parse_records

BATCH = 20
MAX_WAITING = 8
"""Batches on their way to the disk."""
PAUSE_SECONDS = 0.0005
"""Of each thread after a look, or the reactor's thread would hardly get to write."""
HOUR_MS = 3_600_000
KEPT_BYTES = 48 * 1024 * 1024
"""Of the log: what lies before is deleted as expired."""
MOST_BYTES = 256 * 1024 * 1024
"""Of the log: nothing is written beyond, until the deletion has followed. It flushes all queues first."""
SETTINGS = StoreSettings(
    flush_disk_type=FlushDiskType.ASYNC_FLUSH,
    mapped_file_size_commit_log=4 * 1024 * 1024,
    mapped_file_size_consume_queue=2000,
    mapped_file_size_consume_queue_ext=8192,
    max_hash_slot_num=50_000,
    max_index_num=100_000,
    max_message_size=4096,
    file_ahead_bytes=1024 * 1024,
    disk_measured_bytes=0,
    delete_file_batch_max=MOST_BYTES,
)
SHAPE = IndexShape(SETTINGS.max_hash_slot_num, SETTINGS.max_index_num)
EVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run, and its length."""

    seconds: float
    queues: int = 8000
    open_files: int = 512
    readers: int = 3
    seed: int = 1
    extended: bool = False
    """Whether units keep what they have in extensions."""


class Stress:
    """One run in an empty directory."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        self.plan = plan
        self.directory = directory
        per_topic = max(plan.queues // 100, 1)
        names = [(f"T{number // per_topic}", number % per_topic) for number in range(plan.queues)]
        self._short_lived = [topic for topic in dict.fromkeys(topic for topic, _ in names) if topic.endswith("7")]
        self.account = Account(names, plan.seed)
        self._reactor = Reactor(4)
        self._stopped = Event()
        self._waiting = 0
        self._deleting = 0
        self._random = Random(plan.seed)
        self.store = MessageStore(
            directory,
            replace(SETTINGS, max_open_consume_queue_files=plan.open_files, enable_consume_queue_ext=plan.extended),
            StoreSurroundings(
                clock_ms=wall_clock_ms, soon=self._reactor.soon, in_log_thread=self._reactor.in_log_thread
            ),
            bit_map_of=lambda _topic, properties: properties["UNIQ_KEY"].encode(),
        )
        self.store.deletion.keep_from = lambda: self.store.max_commit_log_offset - KEPT_BYTES

    def run(self) -> Account:
        """Fill every queue, do everything at once for the time, stop, and compare every unit and index entry."""
        store, reactor, account = self.store, self._reactor, self.account
        store.open()
        threads = [Thread(target=self._repeat, args=(work, number)) for number, work in enumerate(self._works())]
        try:
            for thread in threads:
                thread.start()
            self._write_for(self.plan.seconds)
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()
        if not reactor.run_until(lambda: not self._waiting, 60):
            account.complain("messages are still on their way after a minute")
        if not reactor.run_until(lambda: not self._deleting, 600):
            account.complain("files are still being deleted after ten minutes")
        idle: list[bool] = []
        store.when_idle(partial(idle.append, True))
        reactor.run_until(lambda: bool(idle), 60)
        for name, queue in account.known.items():
            self._read_whole(name, queue)
        if not store.close():
            account.complain(f"the store could not be closed properly: {store.refusal}")
        reactor.close()
        account.count("units compared", check_units(self.directory, account))
        account.count("index entries compared", check_index(self.directory, SHAPE, account))
        return account

    # --- the reactor's thread --------------------------------------------------------------------------------------

    def _write_for(self, seconds: float) -> None:
        begun = time.monotonic()
        next_deletion = begun + min(seconds / 4, 1)
        while (now := time.monotonic()) < begun + seconds:
            if self._waiting < MAX_WAITING and self._kept_bytes() < MOST_BYTES:
                self._waiting += 1
                self.store.append_all([self.account.new_message() for _ in range(BATCH)], self._stored)
            self._read_now()
            self._reactor.turn(0.001)
            if now >= next_deletion:
                next_deletion = now + min(seconds / 4, 1)
                self._delete()

    def _kept_bytes(self) -> int:
        return self.store.max_commit_log_offset - self.store.min_commit_log_offset

    def _stored(self, results: object) -> None:
        self._waiting -= 1
        for result in results:  # type: ignore[attr-defined]
            self.account.stored(result)

    def _read_now(self) -> None:
        name, queue = self._some_queue(self._random)
        if queue is not None:
            offset = self._some_offset(name, queue, self._random)
            result = self.store.get_messages_now(*name, offset, 8, 1 << 16)
            if result is not None:
                self._compare(name, queue, offset, result)
                self.account.count("read at once")

    def _delete(self) -> None:
        if self._deleting:  # or they would pile up on a slow disk, and the log with them
            return
        self.account.forget(self.store.min_commit_log_offset - KEPT_BYTES)
        self._deleting += 1
        survey = self.store.deletion.survey(wall_clock_ms() + 100 * HOUR_MS, asked=True)
        self._reactor.in_thread(survey, self._surveyed)
        topic = self._random.choice(self._short_lived) if self._short_lived else None
        if topic is not None and not self._waiting_for(topic):
            self.account.delete(topic)
            self._deleting += 1
            self.store.delete_topic(topic, self._reactor.in_thread, self._deleted)

    def _waiting_for(self, topic: str) -> bool:
        """Return whether messages of the topic may be on their way: they would belong to neither life."""
        return not self._reactor.run_until(lambda: not self._waiting, 10)

    def _surveyed(self, survey: Survey | Failed) -> None:
        if isinstance(survey, Failed):
            self.account.complain(f"survey failed: {survey.error!r}")
        elif self.store.deletion.detach(survey):
            self._reactor.in_thread(self._remove, self._deleted)
            return
        self._deleting -= 1

    def _remove(self) -> None:
        while self.store.deletion.remove_log_file(wall_clock_ms()):
            self.account.count("log files deleted")
        self.store.deletion.remove_other_files()

    def _deleted(self, result: object) -> None:
        if isinstance(result, Failed):
            self.account.complain(f"deletion failed: {result.error!r}")
        self._deleting -= 1
        self.account.count("deletions")

    # --- other threads ---------------------------------------------------------------------------------------------

    def _works(self) -> list[Callable[[Random], None]]:
        return [*[self._read] * self.plan.readers, self._search, self._look_up, self._statistics, self._flush]

    def _repeat(self, work: Callable[[Random], None], number: int) -> None:
        random = Random(self.plan.seed * 100 + number)
        while not self._stopped.is_set():
            try:
                work(random)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                self.account.complain(f"{work.__name__}: {error!r}")
            self._stopped.wait(PAUSE_SECONDS)

    def _some_queue(self, random: Random) -> tuple[QueueName, KnownQueue | None]:
        name = random.choice(self.account.names)
        return name, self.account.known.get(name)

    def _some_offset(self, name: QueueName, queue: KnownQueue, random: Random) -> int:
        """Return an offset of a message that readers see: senders may be answered a moment before."""
        count = self.store.max_offset(*name) - queue.first_offset
        return queue.first_offset + random.randrange(max(count, 1))

    def _read(self, random: Random) -> None:
        name, queue = self._some_queue(random)
        if queue is None:
            return
        offset = self._some_offset(name, queue, random)
        filtered = random.random() < 0.2
        wanted = Wanted((lambda _: True) if filtered else None)
        self._compare(name, queue, offset, self.store.get_messages(*name, offset, 16, 1 << 16, wanted))
        self.account.count("read")

    def _compare(self, name: QueueName, queue: KnownQueue, offset: int, result: GetResult) -> None:
        if result.status is GetStatus.FOUND:
            for found in parse_records(b"".join(result.parts)):
                if queue.is_deleted:
                    return
                self.account.compare(name, queue, found, found.queue_offset)
        elif self.store.min_offset(*name) <= offset < self.store.max_offset(*name) and not queue.is_deleted:
            self.account.complain(f"{name} at {offset} of {queue.next_offset}: {result} {result.remark}")

    def _read_whole(self, name: QueueName, queue: KnownQueue) -> None:
        """All that is left of a queue, one message after the other."""
        offset = self.store.min_offset(*name)
        while offset < queue.next_offset:
            result = self.store.get_messages(*name, offset, 32, 1 << 20)
            if result.status is not GetStatus.FOUND:
                self.account.complain(f"{name} at {offset} of {queue.next_offset} in the end: {result} {result.remark}")
                return
            records = parse_records(b"".join(result.parts))
            for number, found in enumerate(records, offset):
                self.account.compare(name, queue, found, number)
            offset += len(records)

    def _search(self, random: Random) -> None:
        """The offset of a time."""
        name, queue = self._some_queue(random)
        if queue is None:
            return
        offset = self._some_offset(name, queue, random)
        stored_ms = self.store.stored_at_ms(*name, offset)
        found = self.store.offset_at_time(*name, stored_ms) if stored_ms >= 0 else offset
        if found > offset and not queue.is_deleted and found > self.store.min_offset(*name):
            self.account.complain(f"{name}: the message of {stored_ms} at {offset} is looked for from {found} on")
        self.account.count("searched")

    def _look_up(self, random: Random) -> None:
        """A message by its unique key."""
        account, store = self.account, self.store
        first = random.choice((0, account.oldest))
        number = random.randrange(first, max(account.made, first + 1))
        topic, queue_id = account.name_of(number)
        place = account.places.get(number)
        if place is None and number >= account.oldest:
            self._stopped.wait(0.01)
            return
        if place is not None and (place[0].is_deleted or place[2] >= store.max_offset(topic, queue_id)):
            return  # its topic was deleted, or readers do not see it yet
        found = [number_of(message.body) for message in store.query_by_key(topic, f"u{number}", 4, 0, EVER)]
        is_kept = place is not None and place[1] >= store.min_commit_log_offset and not place[0].is_deleted
        is_right = (found == [number] and place is not None) or (not found and not is_kept)
        if not is_right:
            account.complain(f"message {number} of {topic}, {place}, is looked up as {found}")
        account.count("looked up")

    def _statistics(self, random: Random) -> None:
        """Ask for the statistics of topics again and again."""
        for name in self.account.names:
            queue = self.account.known.get(name)  # the reactor's thread changes what is known, so nothing walks over it
            if queue is None:
                continue
            if self._stopped.is_set():
                return
            self._stopped.wait(PAUSE_SECONDS)
            first = self.store.min_offset(*name)
            units = self.store.queue_units(*name, first, 3)
            stored_ms = self.store.earliest_stored_at_ms(*name)
            is_there = self.store.min_offset(*name) == first < queue.next_offset
            if stored_ms < 0 and is_there and not queue.is_deleted:
                self.account.complain(f"{name}: no store time of {first}, units {units.hex()}")
            self.account.count("statistics")

    def _flush(self, random: Random) -> None:
        if not self.store.flush():
            self.account.complain(f"flush failed: {self.store.refusal}")
        self.account.count("flushed")
        self._stopped.wait(0.05)


def written_settings(directory: Path) -> Path:
    """The sizes of a directory for ``store verify``."""
    path = directory / "broker.conf"
    path.write_text(
        f"maxMessageSize={SETTINGS.max_message_size}\n"
        f"mappedFileSizeCommitLog={SETTINGS.mapped_file_size_commit_log}\n"
        f"mappedFileSizeConsumeQueue={SETTINGS.mapped_file_size_consume_queue}\n"
        f"mappedFileSizeConsumeQueueExt={SETTINGS.mapped_file_size_consume_queue_ext}\n"
        f"maxHashSlotNum={SETTINGS.max_hash_slot_num}\n"
        f"maxIndexNum={SETTINGS.max_index_num}\n"
    )
    return path
