"""Steps of the people who run the brokers: starts, orderly stops, a promotion by hand, an emptied directory.

They do what docs/replication.md says. ``controlled`` has histories in which a controller decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred

from gateway.errors import GatewayError
from gateway.settings import Settings
from gateway.settings.replication import BrokerRole
from gateway.tests.broker.whole_broker import small_settings
from gateway.tests.simulation.ledger import Ledger, log_of
from gateway.tests.simulation.machine import SPACE, Machine, durable_end_of
from gateway.tests.simulation.names import NameServers
from gateway.tests.simulation.process import Process
from gateway.tests.simulation.world import US_PER_S, ProcessEnded, World

ROOT = Path("/data/store")
STOP_PATIENCE_S = 8
CHUNK_US = US_PER_S // 4


def settings_of_all(**changed: Any) -> Settings:
    """Return what all brokers of a history share."""
    values: dict[str, Any] = {
        "disk_measured_bytes": 0,
        "timer_wheel_enable": False,
        "transaction_timeout_ms": 3_600_000,
        "file_reserved_time_hours": 1_000_000,
        "max_message_size": 4_096,
        "mapped_file_size_consume_queue": 400,
        "max_hash_slot_num": 16,
        "max_index_num": 64,
        "message_delay_level": "1s 5s",
        **changed,
    }
    return small_settings(ROOT, **values)


class Operator:
    """The people of one history.

    :param settings: of each machine.
    """

    def __init__(
        self, world: World, machines: list[Machine], names: NameServers, ledger: Ledger, settings: list[Settings]
    ) -> None:
        self._world = world
        self._random = world.random
        self._machines = machines
        self._names = names
        self._ledger = ledger
        self._settings = settings
        self.slowness = world.random.choice((1, 5, 20, 20))
        self.promotions = self.starts = self.emptied = 0
        self.master_machine = machines[0]
        machines[0].lineage = 0

    @property
    def lineage(self) -> int:
        """The number of promotions; the logs of a lineage are copies of one master's."""
        return self._ledger.lineage

    # -- who is who ---------------------------------------------------------------------------------------------

    def master(self) -> Process | None:
        """Return the master, if it takes requests."""
        process: Process | None = self.master_machine.process
        is_there = process is not None and process.is_ready and not process.is_stopping and not process.is_slave
        return process if is_there else None

    def asked(self) -> Process | None:
        """Return the broker that clients take for the master."""
        return self.master()

    def slaves(self) -> list[Process]:
        """Return the running slaves."""
        found = [machine.process for machine in self._machines if machine is not self.master_machine]
        return [process for process in found if process is not None and process.is_ready]

    def look(self) -> None:
        """See who follows the master, and that nobody has what the master may lose."""
        master = self.master()
        if master is None:
            return
        end = durable_end_of(master)
        for slave in self.slaves():
            machine = slave.machine
            if self.copies(slave, master):
                machine.lineage = self.lineage
                if machine.durable_end > end:
                    self._world.break_promise(
                        f"machine {machine.number} has {machine.durable_end}, which its master may lose: it has {end}"
                    )
                if machine.durable_end >= self._ledger.log_end:
                    machine.in_sync = True

    def copies(self, slave: Process, master: Process) -> bool:
        """Return whether a master sends its log to a slave, so that it has compared the logs."""
        line: Any = slave.parts.slave and slave.parts.slave._receiving._line
        if line is None or line.is_closed or not line._has_heard:
            return False
        return line.transport.other.process is master

    def copy_tables(self) -> None:
        """Let every slave begin a round through the master's tables."""
        for slave in self.slaves():
            rounds = slave.parts.slave and slave.parts.slave._rounds
            assert rounds is not None
            self._world.carry_out(slave, lambda rounds=rounds: ensureDeferred(rounds.round()))

    # -- starts and stops ---------------------------------------------------------------------------------------

    def start(self, machine: Machine) -> None:
        """Start a machine's broker in its role."""
        if machine.process is not None:
            return
        is_master = machine is self.master_machine
        settings = replace(
            self._settings[machine.number],
            broker_id=0 if is_master else machine.number + 1,
            broker_role=BrokerRole.SYNC_MASTER if is_master else BrokerRole.SLAVE,
        )
        self._begin(machine, settings)

    def _begin(self, machine: Machine, settings: Settings) -> None:
        machine.has_power = True
        self.starts += 1
        self._world.tell(f"{machine.number} starts as {settings.broker_role}")
        before, self._world.current = self._world.current, _Starting(machine)
        try:
            process = Process(self._world, machine, self._names, settings, self._machines, self.slowness)
            process.on_end = self._ended
            self._world.current = process
            process.start()
            self._begun(process)
        except ProcessEnded:
            pass
        except (GatewayError, OSError) as error:
            if machine.disk.space is SPACE and not machine.had_errors:
                self._world.break_promise(f"machine {machine.number} does not start: {error}")
            elif machine.process is not None:
                machine.process.end_now()
        finally:
            self._world.current = before
        self._world.check()

    def _begun(self, process: Process) -> None:
        if process.parts.slave is not None:
            self._watch_rounds(process)
        self._ledger.watch(process)
        self._ledger.begun(process)

    def _ended(self, process: Process, is_orderly: bool) -> None:
        self._ledger.ended(process.machine, is_orderly=is_orderly)

    def _watch_rounds(self, process: Process) -> None:
        """Note what a slave has of the consumers' offsets after each round."""
        rounds: Any = process.parts.slave and process.parts.slave._rounds
        honest = rounds.round

        async def round_and_note() -> None:
            values, lineage = dict(self._ledger.values), self.lineage
            asked = rounds._master()
            await honest()
            is_of_master = asked is not None and asked.host == self.master_machine.host and lineage == self.lineage
            if rounds.is_complete and is_of_master:
                self._ledger.took(process.machine, values)

        rounds.round = round_and_note

    def start_one(self) -> None:
        """Start a broker that is not running."""
        down = [machine for machine in self._machines if machine.running is None]
        if down:
            self.start(self._random.choice(down))

    def stop_one(self) -> None:
        """Stop a broker in order."""
        up = [machine for machine in self._machines if machine.running is not None]
        if up:
            self._stop(self._random.choice(up))

    def _stop(self, machine: Machine) -> None:
        running = machine.running
        if running.is_ready:
            self._world.tell(f"{machine.number} stops")
            self._world.carry_out(running, running.stop)

    def stop_and_wait(self, machine: Machine) -> None:
        """Stop a broker in order; end it if that takes long."""
        running = machine.running
        if running is None:
            return
        self._stop(machine)
        self.run_until(lambda: not running.is_alive, STOP_PATIENCE_S)
        self.end(machine)

    def end(self, machine: Machine) -> None:
        """Kill a broker."""
        if machine.running is not None:
            self._world.tell(f"{machine.number} is killed")
            machine.end()

    def run_until(self, is_so: Callable[[], bool], seconds: int) -> bool:
        """Let time pass until something is so."""
        for _ in range(seconds * US_PER_S // CHUNK_US):
            if is_so():
                return True
            self._world.run(CHUNK_US)
            self.look()
        return is_so()

    # -- promotion ----------------------------------------------------------------------------------------------

    def promote(self) -> None:
        """Stop the master, and start the slave that has most as master, if one was ever in sync with it."""
        old = self.master_machine
        if not self._candidates():
            return
        self._stop_somehow(old)
        self._world.run(US_PER_S)  # what slaves have received is stored
        chosen = max(self._candidates(), key=_log_end, default=None)
        if chosen is None:
            return
        self._stop_somehow(chosen)
        self._ledger.lineage += 1
        self.promotions += 1
        self._world.tell(f"{chosen.number} is promoted, lineage {self.lineage}")
        self.master_machine = chosen
        chosen.lineage, chosen.in_sync = self.lineage, True
        for machine in self._machines:
            if machine is not chosen:
                machine.in_sync = False
        self.start(chosen)

    def _candidates(self) -> list[Machine]:
        return [
            machine
            for machine in self._machines
            if machine is not self.master_machine and machine.lineage == self.lineage and machine.in_sync
        ]

    def _stop_somehow(self, machine: Machine) -> None:
        if self._random.random() < 0.5:
            self.stop_and_wait(machine)
        else:
            self.end(machine)

    def empty_refused(self) -> None:
        """Let a slave whose log differs from the master's begin with an empty directory."""
        master = self.master()
        if master is None:
            return
        log = log_of(master)
        for slave in self.slaves():
            own = log_of(slave)
            if log[: len(own)] != own:
                self._world.tell(f"{slave.machine.number} is emptied")
                self.end(slave.machine)
                slave.machine.empty()
                self._ledger.emptied(slave.machine)
                self.emptied += 1
                self.start(slave.machine)


def _log_end(machine: Machine) -> int:
    """Return the end of a machine's log."""
    process = machine.process
    return machine.durable_end if process is None else int(process.parts.store.max_commit_log_offset)


class _Starting:
    """The place of a process that is being made."""

    is_alive = True
    paused_until_us = 0

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
