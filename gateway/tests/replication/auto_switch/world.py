"""A group of brokers in one process: stores, both sides of replication, a controller, and a network with dice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from gateway.in_thread import InThread
from gateway.remoting.pending import CallFailed
from gateway.replication.auto_switch.group import FoundLog, MasterOfGroup, SlaveOfGroup
from gateway.replication.auto_switch.master_side import MasterSide
from gateway.replication.auto_switch.slave_side import SlaveSide
from gateway.replication.controlled.sync_set import InSyncMembers
from gateway.replication.epoch_file import EpochFile
from gateway.replication.hidden_tail import HiddenTail
from gateway.replication.master.role import Master
from gateway.replication.replicated_mark import ReplicatedMark
from gateway.replication.slave.beginning import MasterAddresses
from gateway.replication.slave.receiver import Receiver
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address, Settings
from gateway.settings.replication import BrokerRole
from gateway.settings.store import StoreSettings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus
from gateway.store.recovery.log_cut import cut_log
from gateway.tests.replication.around import figures_of, surroundings
from gateway.tests.replication.test_pair import Connection
from gateway.tests.store.small_store import LOG_FILE_BYTES, SMALL, Clock, Executor, killed, message, small_store
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.pull import ViewMessageRequest

SETTINGS = Settings(broker_role=BrokerRole.SYNC_MASTER, mapped_file_size_commit_log=LOG_FILE_BYTES)
HA_PORT = 10_912


class Controller:
    """Who is the master, in which epoch, and which members are in the sync state set; it elects members of the set."""

    def __init__(self) -> None:
        self.master: int | None = None
        self.epoch = 0
        self.in_sync: frozenset[int] = frozenset()
        self.set_epoch = 0

    def elect(self, broker_id: int) -> None:
        self.master = broker_id
        self.epoch += 1
        self.take(frozenset({broker_id}))

    def take(self, members: frozenset[int]) -> None:
        self.in_sync = members
        self.set_epoch += 1


class Member:
    """One broker: alive with a role, or dead with a directory."""

    def __init__(self, group: Group, broker_id: int) -> None:
        self.group, self.id = group, broker_id
        self.directory = group.root / f"{broker_id}-0"
        self.lives = 0
        self.is_alive = False
        self.executor = Executor()
        self.reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]
        self.role: Master | None = None
        self.receiver: Receiver | None = None
        self.members: InSyncMembers | None = None
        self.cut_at: int | None = None
        self.cuts: list[tuple[int, int]] = []
        self.store: MessageStore

    @property
    def address(self) -> Address:
        return Address(f"10.0.0.{self.id}", 10_911)

    @property
    def is_master(self) -> bool:
        return self.is_alive and self.role is not None

    def begin(self) -> None:
        """Start as what the controller says."""
        self.executor, self.reactor = Executor(), MemoryReactorClock()  # type: ignore[no-untyped-call]
        self.cut_at = None
        if self.group.controller.master == self.id:
            self._lead()
        else:
            self._follow()
        self.is_alive = True

    def _open(self, stage: Any) -> None:
        executor = self.executor
        self.store = small_store(
            self.directory,
            replace(self.group.store_settings),
            clock=self.group.clock,
            soon=executor.soon,
            in_thread=executor.in_thread,
            stage=stage,
        )
        self.store.open()
        executor.run()

    def _tail(self) -> HiddenTail:
        return HiddenTail(ReplicatedMark(self.directory), self.executor.soon)

    def _show(self, place: int, is_all: bool) -> bool:
        return bool(self.store.show_to(place, is_all=is_all))

    def _around(self, in_thread: InThread) -> ReplicationSurroundings:
        return surroundings(
            reactor=self.reactor, clock_ms=self.group.clock, in_thread=in_thread, call=self.group.call_from(self)
        )

    def _lead(self) -> None:
        group, controller = self.group, self.group.controller
        place = MasterOfGroup(controller.epoch, EpochFile(self.directory), self._make_members, group.min_in_sync)
        around = self._around(self.executor.in_thread)
        self.side_of_master = MasterSide(place, group.clock)
        self.role, self.receiver = Master(SETTINGS, around, self.side_of_master), None
        last = EpochFile(self.directory).load().last
        self._open(self.role.stage)
        takes_over = last is None or last.epoch != controller.epoch
        self.role.begin(self.store, self._tail(), self._show, takes_over=takes_over)
        self.role.serve(self.store, group.addresses)
        self.role.start(self.address.host, HA_PORT)

    def _make_members(self, found: FoundLog) -> InSyncMembers:
        controller = self.group.controller
        self.members = InSyncMembers(self.id, max_behind_ms=15_000)
        self.members.begin(*found)
        self.members.tell(controller.in_sync, controller.set_epoch, self.group.clock())
        return self.members

    def _follow(self) -> None:
        place = SlaveOfGroup(self.id, EpochFile(self.directory), self._master_address, self._cut)
        self.side = SlaveSide(place)
        self.role = None
        self._open(self.side.stage)
        tail = self._tail()
        tail.begin(self.store, self._show, shows_all=False)
        self.side.begin(tail)
        around = self._around(self.executor.in_thread)
        joining = self.side.joining(self.store, around)
        self.receiver = Receiver(self.store, SETTINGS, around, self._master, joining)
        self.receiver.start()

    def _master_address(self) -> Address | None:
        master = self.group.controller.master
        return None if master is None else self.group.members[master].address

    async def _master(self) -> MasterAddresses | None:
        address = self._master_address()
        return None if address is None else MasterAddresses(address, Address(address.host, HA_PORT))

    def _cut(self, offset: int) -> None:
        self.cut_at = offset

    def stop_and_cut(self) -> None:
        """Do what a broker does whose slave's side asks for a cut."""
        assert self.receiver is not None
        assert self.cut_at is not None
        self.receiver.stop()
        self.group.lose(self)
        self.side.drain()
        self.executor.run()
        self.store.close()
        self.executor.run()
        self.cuts.append((self.cut_at, self.store.max_commit_log_offset))
        cut_log(self.directory, self.cut_at, SMALL)
        self.begin()

    def kill(self) -> None:
        """End the process, whatever it was doing."""
        self.is_alive = False
        self.group.lose(self)
        self.lives += 1
        self.directory = killed(self.directory, self.lives)

    def heal_step(self) -> None:
        self.executor.run()
        self.reactor.advance(1)
        self.executor.run()


class Group:
    """Members, connections, and dice; ``members`` begins with the first master."""

    def __init__(
        self, root: Path, seed: int, *, count: int = 2, min_in_sync: int = 1, store_settings: StoreSettings = SMALL
    ) -> None:
        self.root, self.random = root, Random(seed)
        self.store_settings = store_settings
        self.min_in_sync = min_in_sync
        self.clock = Clock()
        self.controller = Controller()
        self.connections: dict[int, Connection] = {}
        self.members = {broker_id: Member(self, broker_id) for broker_id in range(1, count + 1)}
        self.controller.elect(1)
        self.sent = 0
        self.told: list[PutResult] = []
        self.acknowledged: dict[int, tuple[bytes, int]] = {}
        for member in self.members.values():
            member.begin()

    # --- the network ---------------------------------------------------------------------------------------------

    async def addresses(self) -> dict[int, str]:
        return {
            0 if broker_id == self.controller.master else broker_id: str(member.address)
            for broker_id, member in self.members.items()
        }

    def call_from(self, _caller: Member) -> Any:
        async def call(address: Address, code: int, header: Header | None = None) -> RemotingCommand:
            member = next(one for one in self.members.values() if one.address == address)
            if not member.is_alive:
                raise CallFailed(f"{address} does not answer")
            store = member.store
            if code == RequestCode.GET_BROKER_RUNTIME_INFO:
                return figures_of(store)
            assert isinstance(header, ViewMessageRequest)
            read = store.durable_record_at if header.hidden_too else store.record_at
            found = read(header.offset)
            return RemotingCommand(
                ResponseCode.SYSTEM_ERROR if found is None else ResponseCode.SUCCESS, body=found or b""
            )

        return call

    def lose(self, member: Member) -> None:
        """Lose the connections of a member."""
        for broker_id in list(self.connections):
            if member.id == broker_id or member.is_master or member.id == self.controller.master:
                connection = self.connections.pop(broker_id)
                connection.lose()

    def accept(self) -> None:
        """Make the connections that slaves ask for."""
        for member in self.members.values():
            if not member.is_alive or not member.reactor.tcpClients:
                continue
            client: Any = member.reactor.tcpClients.pop()
            host, factory = client[0], client[2]
            master = next(one for one in self.members.values() if one.address.host == host)
            if member.id in self.connections:
                self.connections.pop(member.id).lose()
            if not master.is_master:
                factory.clientConnectionFailed(None, Failure(ConnectionRefusedError("nobody listens")))  # type: ignore[no-untyped-call]
                continue
            port: Any = master.reactor.tcpServers[-1][1]
            self.connections[member.id] = Connection(
                (factory.buildProtocol(None), port.buildProtocol(None)), (master.address.host, member.address.host)
            )

    def carry(self, count: int, side: int | None = None) -> None:
        self.accept()
        for broker_id, connection in list(self.connections.items()):
            connection.carry(self.random.randrange(2) if side is None else side, count)
            if connection.is_closed and self.connections.get(broker_id) is connection:
                del self.connections[broker_id]
                connection.lose()

    # --- steps ---------------------------------------------------------------------------------------------------

    @property
    def master(self) -> Member | None:
        return next((one for one in self.members.values() if one.is_master), None)

    def step(self) -> None:
        weights = {"send": 6, "turn": 10, "carry_some": 16, "advance": 2, "ask": 2, "lose_one": 0.4, "kill": 0.4}
        weights |= {"start": 2}
        name = self.random.choices(list(weights), list(weights.values()))[0]
        getattr(self, name)()
        self.cut()

    def send(self) -> None:
        master = self.master
        if master is None:
            return
        self.sent += 1
        body = b"%d " % self.sent + b"x" * self.random.choice((0, 0, 10, 300, 1500))
        sent = message(body, topic="AB"[self.random.randrange(2)], queue_id=self.random.randrange(2))
        master.store.append(sent, lambda result: self._answered(body, result))

    def _answered(self, body: bytes, result: PutResult) -> None:
        self.told.append(result)
        if result.status is PutStatus.PUT_OK:
            self.acknowledged[result.commit_log_offset] = body, result.size

    def turn(self) -> None:
        living = [one for one in self.members.values() if one.is_alive]
        if living:
            executor = self.random.choice(living).executor
            if executor.threads and self.random.random() < 0.6:
                executor.work()()
            else:
                executor.run_turn()

    def carry_some(self) -> None:
        self.carry(self.random.choice((1, 8, 100, 5000)))

    def advance(self, seconds: float | None = None) -> None:
        seconds = self.random.choice((0.1, 1, 6)) if seconds is None else seconds
        self.clock.now_ms += int(seconds * 1000)
        for member in self.members.values():
            if member.is_alive:
                member.reactor.advance(seconds)

    def lose_one(self) -> None:
        if self.connections:
            self.connections.pop(self.random.choice(list(self.connections))).lose()

    def ask(self, is_lost: bool | None = None) -> None:
        """Let the master ask the controller for another sync state set; the answer may be lost."""
        master = self.master
        if master is None or master.members is None or master.role is None:
            return
        now_ms = self.clock()
        wanted = master.members.wanted(master.store.durable_end, now_ms)
        if wanted is None:
            return
        master.members.ask(wanted, now_ms)
        master.role.members_changed()
        self.controller.take(wanted)
        if self.random.random() < 0.2 if is_lost is None else is_lost:
            master.members.lose()
        else:
            master.members.answer(wanted, self.controller.set_epoch, now_ms)
        master.role.members_changed()

    def kill(self) -> None:
        living = [one for one in self.members.values() if one.is_alive]
        if living:
            self.random.choice(living).kill()

    def start(self) -> None:
        """Start a dead member; if the master is dead, the controller elects one of the set first."""
        master = self.controller.master
        assert master is not None
        if not self.members[master].is_alive:
            self.elect()
        dead = [one for one in self.members.values() if not one.is_alive]
        if dead:
            member = self.random.choice(dead)
            if member.id == self.controller.master:
                self.controller.elect(member.id)
            member.begin()

    def elect(self) -> None:
        living = [one.id for one in self.members.values() if one.is_alive and one.id in self.controller.in_sync]
        if not living:
            return
        chosen = self.members[self.random.choice(living)]
        self.controller.elect(chosen.id)
        chosen.kill()  # an orderly stop does less harm
        chosen.begin()

    def cut(self) -> None:
        for member in self.members.values():
            if member.is_alive and member.cut_at is not None:
                member.stop_and_cut()

    def heal(self) -> None:
        """Start everybody, and let everything that is under way arrive."""
        while not all(member.is_alive for member in self.members.values()):
            self.start()
        self.settle(120)

    def settle(self, seconds: int) -> None:
        """Let what is under way arrive, while time passes."""
        for _ in range(seconds):
            for member in self.members.values():
                if member.is_alive:
                    member.executor.run()
            for side in (0, 1):
                self.carry(1 << 20, side)
            self.ask(is_lost=False)
            self.advance(1)
            self.cut()
