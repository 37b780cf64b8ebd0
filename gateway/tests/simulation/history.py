"""A history: some steps drawn from a seed, then everything heals, and what is left is compared with the promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from gateway.settings import Settings
from gateway.settings.store import FlushDiskType
from gateway.tests.simulation.chance import from_seed
from gateway.tests.simulation.clients import Clients
from gateway.tests.simulation.faults import Faults
from gateway.tests.simulation.ledger import Ledger, lacks_only_filler, log_of, table_of
from gateway.tests.simulation.machine import Machine
from gateway.tests.simulation.names import NameServers
from gateway.tests.simulation.network import Network
from gateway.tests.simulation.operator import Operator, settings_of_all
from gateway.tests.simulation.world import US_PER_S, Violation, World

HEAL_S = 120
TABLES = "tables differ"
PAUSES_US = 0, 0, 1_000, 5_000, 20_000, 100_000, 300_000, 1_000_000, 6_000_000
PAUSE_WEIGHTS = 3, 3, 6, 6, 6, 4, 3, 1, 0.4
WORK = {
    "send": 10.0,
    "send_hasty": 1.0,
    "send_batch": 2.0,
    "send_delayed": 1.0,
    "half": 2.0,
    "end": 3.0,
    "commit": 2.0,
    "create_topic": 0.2,
}
FAULTS = {
    "kill": 0.8,
    "kill_soon": 1.0,
    "power_failure": 0.8,
    "pause": 0.6,
    "jump": 0.5,
    "slow_disk": 0.6,
    "disk_error": 0.4,
    "fill": 0.3,
    "block": 0.8,
    "isolate": 0.8,
    "drop": 1.0,
    "slow_network": 0.5,
    "forget_names": 0.3,
    "stray": 1.0,
    "stop_one": 0.5,
    "promote": 1.2,
}
"""Each history has some of them only."""
REPAIRS = {"start_one": 3.0, "unblock": 1.0, "free": 0.5, "empty_refused": 0.7}


@dataclass(slots=True)
class Account:
    """What happened in a history."""

    steps: int = 0
    events: int = 0
    sent: int = 0
    acknowledged: int = 0
    without_copy: int = 0
    refused: int = 0
    starts: int = 0
    promotions: int = 0
    emptied: int = 0
    seconds: float = 0.0

    def add(self, other: Account) -> None:
        """Add what happened in another history."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class History:
    """One history.

    :param is_traced: whether to write down everything.
    """

    kind = "replicas"
    option = ""
    """The option of the command that plays histories of this kind."""
    work_of_kind: Mapping[str, float] = WORK
    faults_of_kind: Mapping[str, float] = FAULTS

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.world = world = World(seed, is_traced=is_traced, kind=self.kind)
        self._random = random = world.random
        count = random.choice((2, 2, 2, 3))
        copies = random.choice((1, 1, 2)) if count == 3 else 1
        self._machines = [Machine(world, number) for number in range(count)]
        self._network = Network(world, self._machines)
        names = NameServers(world, self._network)
        self._ledger = Ledger(world, self._machines, copies)
        beat_ms = random.choice((500, 2_000, 5_000))
        common = settings_of_all(
            in_sync_replicas=copies + 1,
            slave_timeout_ms=random.choice((300, 3_000)),
            ha_send_heartbeat_interval_ms=beat_ms,
            ha_housekeeping_interval_ms=4 * beat_ms,
            ha_transfer_batch_bytes=random.choice((1, 500, 3_000, 1 << 20)),
            mapped_file_size_commit_log=random.choice((4_096, 8_192, 32_768)),
            max_unreplicated_bytes=random.choice((3_000, 1 << 20)),
            sync_flush_timeout_ms=random.choice((200, 5_000)),
        )
        settings = []
        for _ in range(count):
            flush = random.choice((FlushDiskType.SYNC_FLUSH, FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH))
            settings.append(replace(common, flush_disk_type=flush))
        self.operator = self._operator(names, settings)
        self.clients = Clients(world, self._ledger, self.operator.asked)
        self.faults = Faults(world, self._machines, names, self.operator)
        self._actors: tuple[object, ...] = (self.clients, self.faults, self.operator)
        chosen = {name: weight for name, weight in self.faults_of_kind.items() if random.random() < 0.5}
        self._weights = {**self.work_of_kind, **chosen, **REPAIRS}
        self._length = random.randint(20, 60)

    def _operator(self, names: NameServers, settings: list[Settings]) -> Operator:
        return Operator(self.world, self._machines, names, self._ledger, settings)

    def play(self) -> Account:
        """Play it.

        :raises Violation: a promise was broken.
        """
        with from_seed(self.world):
            self._begin()
            names = self._random.choices(list(self._weights), list(self._weights.values()), k=self._length)
            for name in names:
                self._step(name)
            self._heal()
        return self._account()

    def _begin(self) -> None:
        for machine in self._machines:
            self.operator.start(machine)
            self.world.run(10_000)
        self.clients.create_topic("A")
        self.clients.create_topic("B")
        if self._random.random() < 0.85:
            self.operator.run_until(lambda: all(machine.lineage == 0 for machine in self._machines), 12)

    def _step(self, name: str) -> None:
        self.world.tell(f"step {name}")
        step: Callable[[], None] = next(getattr(actor, name) for actor in self._actors if hasattr(actor, name))
        step()
        self.world.check()
        self.world.run(self._random.choices(PAUSES_US, PAUSE_WEIGHTS)[0])
        self.operator.look()
        self.world.check()

    # -- healing ------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        operator = self.operator
        self.world.tell("everything heals")
        self.faults.end_all()
        for machine in self._machines:
            process, running = machine.process, machine.running
            if running is not None and running.is_stopping:
                operator.stop_and_wait(machine)
            elif process is not None and (not process.is_ready or process.parts.store.failure is not None):
                operator.end(machine)
        for machine in (operator.master_machine, *self._machines):
            operator.start(machine)
        fault = self._wait_until_healed()
        master = operator.master()
        if fault is not None or master is None:
            raise Violation(f"not healed after {HEAL_S} s: {fault}")
        self._ledger.judge(master, operator.slaves())
        self.world.check()

    def _wait_until_healed(self) -> str | None:
        """Let time pass until everything is as it should be; return what is not after ``HEAL_S``."""
        fault: str | None = None
        for second in range(HEAL_S):
            self.world.run(US_PER_S)
            self.operator.look()
            self.world.check()
            if second % 8 == 7:
                self.operator.empty_refused()
            fault = self._unhealed()
            if fault is None:
                break
            if fault.startswith(TABLES):
                self.operator.copy_tables()
        return fault

    def _unhealed(self) -> str | None:
        """Return what is not as it should be in the end."""
        master = self.operator.master()
        if master is None:
            return "no master"
        store = master.parts.store
        slaves = self.operator.slaves()
        if len(slaves) < len(self._machines) - 1:
            return "a slave does not run"
        for slave in slaves:
            number, end = slave.machine.number, slave.parts.store.durable_end
            # A slave stores the filler that ends a file with the record that follows.
            if end != store.durable_end and not lacks_only_filler(log_of(master), log_of(slave)):
                fault = slave.parts.slave._receiving._last_fault if slave.parts.slave else ""
                return f"machine {number} has {end} of {store.durable_end}: {fault}"
            if end == store.durable_end and log_of(slave) != log_of(master) and not self.operator.copies(slave, master):
                return f"machine {number} has another log, and nobody has compared it yet"
            if slave.parts.store.shown_end < end:
                return f"machine {number} shows {slave.parts.store.shown_end} of {end}"
            for table in ("topics", "groups", "offsets"):
                if table_of(slave, table) != table_of(master, table):
                    return f"{TABLES}: {table} of machine {number} are not its master's"
        if store.shown_end < store.durable_end:
            return f"the master shows {store.shown_end} of {store.durable_end}"
        late = self._ledger.undelivered(master)
        return None if late is None else f"{late} is acknowledged, and not delivered after its delay"

    def _account(self) -> Account:
        clients, operator = self.clients, self.operator
        return Account(
            steps=self._length,
            events=self.world._count,
            sent=clients.sent,
            acknowledged=clients.answered_ok,
            without_copy=clients.answered_without,
            refused=clients.refused,
            starts=operator.starts,
            promotions=operator.promotions,
            emptied=operator.emptied,
            seconds=self.world.now_us / US_PER_S,
        )
