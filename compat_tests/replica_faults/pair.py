"""Two brokers, their name server, and the machines and disks that they have."""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from compat_tests.environment import Patience, wait_until
from compat_tests.network_cut.switch import Machine, Switch
from compat_tests.replica_faults.disk import SlowableDisk
from compat_tests.replica_faults.logs import LogComparison, log_end
from compat_tests.replica_faults.members import (
    STATE,
    ApacheMember,
    ApacheNameServer,
    Kind,
    PairMember,
    Role,
    SeparateNameServer,
)
from wire.bodies.fastjson import parse_json

READ = 4
"""The permission of a broker that is only read."""
_DRAINS_S = 60.0
_LISTED_S = 240.0
_ASKED_AGAIN_S = 0.5


class BrokerPair:
    """A master and a slave; needs root.

    :param kinds: the kind of the first master, and of the first slave.
    :param has_disks: whether each has a disk of its own, or only a directory.
    """

    def __init__(self, kinds: tuple[Kind, Kind], directory: Path, *, has_disks: bool = True) -> None:
        self.kinds = kinds
        self._has_disks = has_disks
        self._directory = directory
        self._stack = ExitStack()
        self.comparison = LogComparison()
        self.disks: dict[PairMember, SlowableDisk] = {}
        self.emptied = 0
        self.lost_tails = 0
        """How often an old master had a tail that no slave had."""

    def __enter__(self) -> Self:
        try:
            return self._made()
        except BaseException:
            self._stack.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _made(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        switch = self._stack.enter_context(Switch())
        only_java = set(self.kinds) == {Kind.JAVA}
        names = (ApacheNameServer if only_java else SeparateNameServer)(switch.machine(), self._directory)
        self.names = names
        self._stack.callback(names.kill)
        names.start()
        self.master, self.slave = (self._member(switch, kind) for kind in self.kinds)
        self.master.role = Role.MASTER
        for member in (self.master, self.slave):
            self._stack.callback(member.kill)
            member.start()
        self.wait_until_listed()
        return self

    def _member(self, switch: Switch, kind: Kind) -> PairMember:
        machine = switch.machine()
        data = self._directory / f"data-{machine.address.rpartition('.')[2]}"
        if not self._has_disks:
            return self._program(kind, machine, data)
        disk = SlowableDisk(data)
        disk.mount()
        self._stack.callback(disk.unmount)
        member = self._program(kind, machine, disk.data)
        self.disks[member] = disk
        return member

    def _program(self, kind: Kind, machine: Machine, data: Path) -> PairMember:
        made = ApacheMember if kind is Kind.JAVA else PairMember
        return made(machine, data, self._directory, self.names.nameserver)

    def replace_program(self, old: PairMember, kind: Kind) -> PairMember:
        """Give the machine and the directory of a broker that has stopped to the other program, and do not start it."""
        new = self._program(kind, old.machine, old.data)
        new.role = old.role
        self._stack.callback(new.kill)
        if old is self.master:
            self.master = new
        else:
            self.slave = new
        return new

    def replace_name_server(self, kind: Kind) -> None:
        """Give the address of the name server to the other program."""
        self.names.stop()
        made = ApacheNameServer if kind is Kind.JAVA else SeparateNameServer
        self.names = made(self.names.machine, self._directory)
        self._stack.callback(self.names.kill)
        self.names.start()

    @property
    def members(self) -> tuple[PairMember, PairMember]:
        return self.master, self.slave

    def other(self, member: PairMember) -> PairMember:
        return self.slave if member is self.master else self.master

    def swap(self) -> None:
        """Give each the other's role, from its next start on."""
        self.master, self.slave = self.slave, self.master
        self.master.role, self.slave.role = Role.MASTER, Role.SLAVE

    def drain(self) -> None:
        """Let the master take nothing more, and wait until the slave has all of it."""
        self.master.permit(READ)
        wait_until(
            lambda: log_end(self.master.data) == log_end(self.slave.data),
            "the slave has all",
            timeout_s=_DRAINS_S,
            is_patient=True,
        )

    def switch(self) -> None:
        """Start the slave as the master, as planned; what was the master stays stopped."""
        self.drain()
        self.exchange()

    def exchange(self) -> None:
        """Stop both, and start what was the slave as the master."""
        self.master.stop()
        self.slave.stop()
        self.swap()
        self.master.start()

    def start_what_is_dead(self) -> list[str]:
        """Start everything that does not run; the names of what ended by itself."""
        ended = []
        for server in (self.names, *self.members):
            if not server.alive():
                server.kill()
                ended.append(server.machine.namespace)
                server.start()
        return ended

    def wait_until_listed(self) -> None:
        """Wait until the name server knows both."""
        limit, pause = Patience(_LISTED_S), threading.Event()
        while missing := [member for member in self.members if not self.names.lists(member)]:
            assert not limit.is_over, f"not registered after {_LISTED_S:g} s: {missing[0].log}"
            for member in missing:
                member.register()
            pause.wait(_ASKED_AGAIN_S)

    def has_lost_tail(self, old: PairMember) -> bool:
        """Return whether what was the master has bytes that the new one lacks, or has others for."""
        end = log_end(old.data)
        return self.comparison.first_difference(old.data, self.other(old).data, end) is not None

    def difference(self) -> int | None:
        """Return where the logs differ, as far as the slave's goes."""
        state = parse_json(self.slave.ask(STATE).body)
        end = int(state["haClientRuntimeInfo"]["maxOffset"])
        return self.comparison.first_difference(self.master.data, self.slave.data, end)

    def final_difference(self) -> int | None:
        """Return where the logs of both, which have stopped, differ."""
        self.comparison.begin_again()
        end = max(log_end(member.data) for member in self.members)
        return self.comparison.first_difference(self.master.data, self.slave.data, end)

    def keep_stores(self) -> None:
        """Stop both, and copy their stores from the disks, which go away."""
        for member in self.members:
            member.kill()
            if member in self.disks:
                self.disks[member].copy_data(self._directory / f"kept-{member.role.name.lower()}")

    def empty_the_slave(self) -> None:
        """Let the slave begin with an empty directory."""
        self.slave.kill()
        shutil.rmtree(self.slave.data)
        self.comparison.begin_again()
        self.emptied += 1
        self.slave.start()
