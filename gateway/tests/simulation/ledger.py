"""What was promised, and to whom; every broken promise raises ``Violation``.

    a place names one message     an offset of a queue never names two messages, at any broker, over the whole history
    acknowledged, so stored       SEND_OK means as many disks as asked for, at once, and for ever at its place
    once                          no message is in its topic twice
    delayed                       an acknowledged message with a delay level is in its topic in the end
    outcomes                      the answered outcome of a transaction stays
    offsets                       a consumer's offset goes back by no more than the last second, or what a kill may lose

    hidden after a start          a master that was none before its start shows nothing then that too few disks have

Two things are not promised (docs/replication.md). A promoted slave shows everything that is on its disk, and an old
master that returns as a slave shows its log until it is found to differ. What they show at their start is *weak*, until
a broker shows it that knows it to be replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from gateway.store.put_result import PutOutcome, each_result
from gateway.tests.simulation.machine import Machine
from gateway.tests.simulation.process import Process
from gateway.tests.simulation.world import US_PER_S, World
from wire.message.properties import PropertyName
from wire.message.record import END_OF_FILE_BYTES, build_blank, parse_records
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

GROUP = "readers"
SAVED_AFTER_US = 7 * US_PER_S
"""Consumer offsets are saved every 5 s; a kill loses those of so long."""
MOST_READ = 10_000


class Place(NamedTuple):
    """An offset of a queue."""

    topic: str
    queue_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A message that was answered SEND_OK."""

    place: Place
    log_offset: int
    identity: str


@dataclass(slots=True)
class Offsets:
    """What a machine has of the consumers' offsets.

    :param taken: each with its time: what the table had.
    """

    floor: dict[tuple[str, int], int] = field(default_factory=dict)
    taken: list[tuple[int, dict[tuple[str, int], int]]] = field(default_factory=list)


class Ledger:
    """The promises of one history.

    :param copies: how many other machines must have what is acknowledged.
    """

    def __init__(self, world: World, machines: list[Machine], copies: int) -> None:
        self._world = world
        self._machines = machines
        self.copies = copies
        self.shown: dict[Place, tuple[str, bool]] = {}
        self.stored: dict[str, Stored] = {}
        self.outcomes: dict[str, str] = {}
        self.delayed: set[str] = set()
        """The keys of messages with a delay level: a kill may repeat them."""
        self.due: dict[str, str] = {}
        """The topics of the acknowledged ones among them."""
        self.lineage = 0
        """The number of promotions."""
        self.log_end = 0
        """The end of the last message that was answered SEND_OK."""
        self.values: dict[tuple[str, int], int] = {}
        """The consumer's offsets as the present master has them."""
        self._offsets = [Offsets() for _ in machines]
        self.places_shown = 0
        self._promoted: set[Place] = set()
        """The places that a promoted slave showed at its start; it shows them after a restart, too."""
        self.is_current: Callable[[Process], bool] = lambda _: True
        """Returns whether a master is the last one that was made; with a controller an earlier one may still run."""

    # -- what is seen -------------------------------------------------------------------------------------------

    def watch(self, process: Process) -> None:
        """Look at everything that becomes visible."""
        number = process.machine.number

        def visible(outcomes: list[PutOutcome]) -> None:
            # At its orderly stop a broker that holds messages lets everything pass, when nobody reads any more.
            is_weak = process.is_stopping and (not process.is_slave or process.parts.group is not None)
            for result in each_result(outcomes):
                if result.queue is not None:
                    message = result.message
                    place = Place(result.queue.topic, result.queue.queue_id, result.queue_offset)
                    key = message.property_map.get(PropertyName.UNIQ_KEY, "")
                    self._not_early(process, place, result.commit_log_offset)
                    self._show(number, place, _identity(key, message.body), is_weak=is_weak)

        store: Any = process.parts.store
        store.listen(visible)
        honest = store.show_to

        def show_to(place: int, *, is_all: bool) -> list[Any]:
            shown: list[Any] = honest(place, is_all=is_all)
            if shown:  # nobody is told of what a start hid
                self.look(process)
            return shown

        store.show_to = show_to

    def _not_early(self, process: Process, place: Place, log_offset: int) -> None:
        """Check that a slave does not show before its master what more than the two of them have to have."""
        if self.copies < 2 or not process.is_slave or process.is_stopping or process.parts.group is not None:
            return
        others = (machine.process for machine in self._machines)
        masters = (other for other in others if other is not None and other.is_ready and not other.is_slave)
        if place not in self.shown and all(master.parts.store.shown_end <= log_offset for master in masters):
            self._world.break_promise(f"machine {process.machine.number}, a slave, shows {place} before its master")

    def look(self, process: Process, *, is_start: bool = False) -> dict[Place, tuple[str, str]]:
        """Read every queue of a broker; return key and identity of each message."""
        found = read_all(process)
        is_weak = is_start and (process.takes_over or process.machine.lineage != self.lineage)
        for place, (_, identity) in found.items():
            self._show(process.machine.number, place, identity, is_weak=is_weak)
        return found

    def _show(self, number: int, place: Place, identity: str, *, is_weak: bool) -> None:
        known = self.shown.get(place)
        if known is None:
            self.places_shown += 1
            self._world.tell(f"{number} shows {place.topic} {place.queue_id} {place.offset} {identity} {is_weak}")
            self.shown[place] = identity, is_weak
            return
        before, was_weak = known
        if before != identity:
            if is_weak:
                return
            if not was_weak:
                self._world.break_promise(f"machine {number}: {place} named {before}, and now {identity}")
            self.shown[place] = identity, is_weak
        elif was_weak and not is_weak:
            self.shown[place] = identity, False

    # -- what is answered ---------------------------------------------------------------------------------------

    def acknowledge(self, key: str, body: bytes, place: Place, log_offset: int, master: Process) -> None:
        """A sender was answered SEND_OK."""
        self._world.tell(f"SEND_OK {key} {place} at {log_offset}")
        record = master.parts.store.log_bytes(log_offset, 0)
        if not record:
            self._world.break_promise(f"{key} is acknowledged and not on the disk of its master")
            return
        end = log_offset + len(record)
        having = sum(_has(machine, log_offset, record, master) for machine in self._machines)
        if having < self.copies:
            self._world.break_promise(f"{key} at {log_offset} is acknowledged with {having} copies of {self.copies}")
        self.stored[key] = Stored(place, log_offset, _identity(key, body))
        self.log_end = max(self.log_end, end)

    def decide(self, key: str, outcome: str) -> None:
        """An outcome was answered with success."""
        self._world.tell(f"outcome of {key}: {outcome}")
        before = self.outcomes.setdefault(key, outcome)
        if before != outcome:
            self._world.break_promise(f"transaction {key} was answered {before}, and now {outcome}")

    # -- consumer offsets ---------------------------------------------------------------------------------------

    def commit(self, queue: tuple[str, int], offset: int, master: Process) -> None:
        """A consumer's offset was taken."""
        self._world.tell(f"offset of {queue}: {offset}")
        if not self.is_current(master):
            return
        self.values[queue] = offset
        self.took(master.machine, self.values)

    def took(self, machine: Machine, values: Mapping[tuple[str, int], int]) -> None:
        """A machine's table has these offsets."""
        self._offsets[machine.number].taken.append((self._world.now_us, dict(values)))

    def ended(self, machine: Machine, *, is_orderly: bool) -> None:
        """A process has ended: now its machine has what was saved."""
        offsets = self._offsets[machine.number]
        if machine.had_errors:
            offsets.floor = {}
        else:
            until_us = self._world.now_us - (0 if is_orderly else SAVED_AFTER_US + 4 * machine.slow_us)
            until_us -= 0 if is_orderly else machine.pauses_us
            for at_us, values in offsets.taken:
                if at_us <= until_us:
                    offsets.floor = values
        offsets.taken = []

    def emptied(self, machine: Machine) -> None:
        """A machine has nothing any more."""
        self._offsets[machine.number] = Offsets()

    def begun(self, process: Process) -> None:
        """A process has started: compare its offsets, and what it has if it is the master."""
        offsets = self._offsets[process.machine.number]
        actual = {queue: process.parts.offsets.query(GROUP, *queue) for queue in self.values}
        for queue, floor in offsets.floor.items():
            if actual.get(queue, -1) < floor:
                self._world.break_promise(
                    f"machine {process.machine.number}: the offset of {queue} is {actual.get(queue)} after {floor}"
                )
        before = dict(self.shown)
        found = self.look(process, is_start=True)
        if process.is_slave or not self.is_current(process):
            return
        if process.takes_over:
            self._promoted.update(found)
        elif process.parts.group is None:  # of a controller's set a member may be alone
            self._nothing_new(process, before, found)
        found = read_all(process, hidden_too=True)
        self.values = {queue: offset for queue, offset in actual.items() if offset >= 0}
        self.took(process.machine, self.values)
        self._all_there(process, found)

    def _nothing_new(self, master: Process, before: Mapping[Place, tuple[str, bool]], found: Iterable[Place]) -> None:
        """Check that a restarted master shows only what was seen before, or what slaves have."""
        store = master.parts.store
        for place in found:
            _, was_weak = before.get(place, ("", True))
            if was_weak and place not in self._promoted:
                log_offset = log_place(master, place)
                record = store.log_bytes(log_offset, 0) or b""
                having = sum(_has(machine, log_offset, record, master) for machine in self._machines)
                if having < self.copies:
                    self._world.break_promise(
                        f"machine {master.machine.number} shows {place} after its start, and {having} slaves have it"
                    )

    # -- the end ------------------------------------------------------------------------------------------------

    def _all_there(self, master: Process, found: Mapping[Place, tuple[str, str]]) -> None:
        for key, stored in self.stored.items():
            there = found.get(stored.place)
            if there is None or there[1] != stored.identity:
                self._world.break_promise(
                    f"acknowledged {key} is not at {stored.place} of machine {master.machine.number}: {there}"
                )
        counts: dict[str, int] = {}
        for place, (key, _) in found.items():
            is_copy = place.topic in (HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC) or place.topic.startswith(
                RETRY_TOPIC_PREFIX
            )
            if key and not is_copy:
                counts[key] = counts.get(key, 0) + 1
        for key, count in counts.items():
            if count > 1 and key not in self.delayed:
                self._world.break_promise(f"{key} is there {count} times")
        for key, outcome in self.outcomes.items():
            if counts.get(key, 0) != (outcome == "commit"):
                self._world.break_promise(f"transaction {key} was answered {outcome}, and is there {counts.get(key)}")

    def undelivered(self, master: Process) -> str | None:
        """Return an acknowledged message with a delay level that is not in its topic; None if there is none."""
        if not self.due:
            return None
        there = {(key, place.topic) for place, (key, _) in read_all(master).items()}
        return next((key for key, topic in self.due.items() if (key, topic) not in there), None)

    def judge(self, master: Process, slaves: Iterable[Process]) -> None:
        """Compare the healed brokers with everything that was promised, and with each other."""
        found = self.look(master)
        self._all_there(master, found)
        for place, (identity, is_weak) in self.shown.items():
            there = found.get(place)
            if not is_weak and (there is None or there[1] != identity):
                self._world.break_promise(f"{identity} was visible at {place}, and now there is {there}")
        log = log_of(master)
        for slave in slaves:
            number = slave.machine.number
            own_log = log_of(slave)  # a filler at the end is stored with the record that follows
            if own_log != log and not lacks_only_filler(log, own_log):
                self._world.break_promise(f"the log of machine {number} differs from its master's")
            own = self.look(slave)
            if own != found:
                differ = sorted(set(own.items()) ^ set(found.items()))[:3]
                self._world.break_promise(f"the queues of machine {number} differ from its master's: {differ}")
            for table in ("topics", "groups", "offsets"):
                if table_of(slave, table) != table_of(master, table):
                    self._world.break_promise(f"the {table} of machine {number} differ from its master's")


def _identity(key: str, body: bytes) -> str:
    return f"{key}/{crc32(body):08x}"


def _has(machine: Machine, log_offset: int, record: bytes, master: Process) -> bool:
    """Return whether another machine has a record on its disk."""
    if machine is master.machine or machine.durable_end < log_offset + len(record):
        return False
    process = machine.process
    if process is None:
        return machine.lineage == master.machine.lineage
    return bool(process.parts.store.log_bytes(log_offset, 0) == record)


def log_place(process: Process, place: Place) -> int:
    """Return where in the log a message of a queue is."""
    [message] = parse_records(b"".join(process.parts.store.get_messages(*place, 1, 1).parts))
    return message.commit_log_offset


def read_all(process: Process, *, hidden_too: bool = False) -> dict[Place, tuple[str, str]]:
    """Return key and identity of every message that readers see, or with ``hidden_too`` will see."""
    reader = process.parts.store._reader
    hidden = reader._hidden
    if hidden_too:
        reader._hidden = None
    try:
        return _read_all(process)
    finally:
        reader._hidden = hidden


def _read_all(process: Process) -> dict[Place, tuple[str, str]]:
    found: dict[Place, tuple[str, str]] = {}
    store = process.parts.store
    for topic, queue_id in sorted(store.queues()):
        offset = 0
        while True:
            result = store.get_messages(topic, queue_id, offset, MOST_READ, 1 << 30)
            for message in parse_records(b"".join(result.parts)):
                key = message.property_map.get(PropertyName.UNIQ_KEY, "")
                found[Place(topic, queue_id, message.queue_offset)] = key, _identity(key, message.body)
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset
    return found


def lacks_only_filler(log: bytes, copy: bytes) -> bool:
    """Return whether a copy of a log lacks nothing but the filler that ends the log: its size comes first."""
    rest = log[len(copy) :]
    return log.startswith(copy) and len(rest) >= END_OF_FILE_BYTES and rest.startswith(build_blank(len(rest)))


def log_of(process: Process) -> bytes:
    """Return the whole log, as far as it is on disk."""
    store = process.parts.store
    found, offset = bytearray(), store.min_commit_log_offset
    while part := store.log_bytes(offset, 1 << 20):
        found += part
        offset += len(part)
    return bytes(found)


def table_of(process: Process, name: str) -> Any:
    """Return a table of a broker, to be compared."""
    parts = process.parts
    if name == "offsets":
        return {key: dict(queues) for key, queues in parts.offsets.all().items()}
    return dict(parts.topics.table()) if name == "topics" else dict(parts.groups.table())
