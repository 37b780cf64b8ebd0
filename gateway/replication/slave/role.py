"""The role of a slave: the copies of log and tables, and the refusals as one, made if ``brokerRole`` is SLAVE."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred

from gateway.remoting.declared import OnSlave
from gateway.remoting.dispatch import CarryOut
from gateway.replication.hidden_tail import HiddenTail, Show
from gateway.replication.slave.beginning import MasterAddresses
from gateway.replication.slave.joining import GroupFollow
from gateway.replication.slave.receiver import Receiver
from gateway.replication.slave.refusals import SlaveRefusals
from gateway.replication.slave.rounds import TableRounds, Tables
from gateway.replication.slave.shown_copy import ShownCopy
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address, Settings
from gateway.settings.addresses import parse_address
from gateway.store.durability.surroundings import BatchObserver
from gateway.store.message_store import MessageStore
from gateway.telemetry.logs import EventLog
from wire.bodies.tools.statistics import CopyingState, ReplicationState
from wire.codes import RequestCode

log = EventLog("replication")

COPY_TABLES_S = 5.0
"""The seconds after which the copy of a former master's tables is not tried again."""
COPY_AGAIN_MS = 300


class KnownMaster(NamedTuple):
    """The knowledge of a slave about its master."""

    role: str = ""
    """The role that the master named last; empty if it named none."""
    log_end: int = -1
    """The offset at which the master's log ended when it said so last; −1 if that is not known."""
    said_at_ms: int | None = None
    """The time at which the master said so, in epoch milliseconds; None if it never did."""
    copied_at_ms: int | None = None
    """The time at which all tables had been copied last, in epoch milliseconds; None if they never were."""


class Names(Protocol):
    """The name servers, as far as a slave needs them; ``NameServerRegistration`` has them."""

    @property
    def master(self) -> tuple[str, str] | None:
        """The addresses of the master for requests and for its log; None as long as no name server named them."""

    def register_soon(self) -> None:
        """Register again, since each answer may name the master."""


class Slave:
    """The slave's side of replication; ``serve`` gives it what it works with.

    :param group: the slave's place in a group with a controller; None for ``brokerRole`` alone.
    """

    def __init__(self, settings: Settings, around: ReplicationSurroundings, group: GroupFollow | None = None) -> None:
        self._settings = settings
        self._around = around
        self._group = group
        self._shown = ShownCopy(settings, around)
        self._refusals = SlaveRefusals(settings.slave_read_enable, self._master_text)
        self._names: Names | None = None
        self._receiver: Receiver | None = None
        self._rounds: TableRounds | None = None

    def stage(self, after: BatchObserver) -> BatchObserver:
        """Return the stage that holds records until the master says that enough have them; or ``after``."""
        return self._shown.stage(after) if self._group is None else self._group.stage(after)

    def serve(self, store: MessageStore, tables: Tables, names: Names) -> None:
        """Take what is copied into, and the way to the name servers."""
        self._names = names
        self._rounds = TableRounds(tables, self._around, self._address, self._told)
        joining = None if self._group is None else self._group.joining(store, self._around)
        self._receiver = Receiver(store, self._settings, self._around, self._find_master, joining)

    def begin(self, store: MessageStore, tail: HiddenTail, show: Show) -> None:
        """Hide what the store found on the disk and may be nowhere else; blocks."""
        if self._group is None:
            self._shown.begin(store, tail, show)
            return
        tail.begin(store, show, shows_all=False)
        if tail.bytes:
            log.info("hidden until the master confirms it", bytes=tail.bytes, log_offset=tail.shown_end)
        self._group.begin(tail)

    def refusal_of(self, code: RequestCode, slave: OnSlave) -> CarryOut | None:
        """Return what refuses a request; None if a slave answers the request."""
        return self._refusals.refusal_of(code, slave)

    def start(self) -> None:
        """Copy the log from now on."""
        self._receiving.start()

    def stop(self) -> None:
        """Close the connection to the master; records on their way to the disk are stored all the same."""
        self._receiving.stop()

    def drain(self) -> None:
        """Let everything held become visible: the broker stops, and nobody reads any more."""
        if self._group is None:
            self._shown.drain()
        else:
            self._group.drain()

    def _told(self, master: Address, shown_end: int) -> None:
        """Take how far a master shows its log, if this log is a copy of it."""
        copied = self._receiving.state.master
        if self._group is None and copied is not None and copied.remoting == master:
            self._shown.told(shown_end)

    def round(self) -> Awaitable[None] | None:
        """Copy the tables of the master once."""
        return None if self._rounds is None else self._rounds.round()

    async def copy_tables(self, former: Address) -> str | None:
        """Copy the tables of a broker that was the master until now; return what failed, None if nothing did.

        The former master has just started again, so a failure is tried again for some seconds.
        """
        assert self._rounds is not None, "serve is called first"
        ends_s = self._around.reactor.seconds() + COPY_TABLES_S
        while True:
            failed = await self._rounds.copy_from(former)
            if failed is None or self._around.reactor.seconds() > ends_s:
                break
            passed: Deferred[None] = Deferred()
            self._around.later(COPY_AGAIN_MS, partial(passed.callback, None))
            await passed
        return failed

    def known(self) -> KnownMaster:
        """Return what the master said of itself, and when all tables were copied."""
        rounds = self._rounds
        if rounds is None:
            return KnownMaster()
        return KnownMaster(rounds.master_role, rounds.log_end, rounds.log_end_at_ms, rounds.copied_at_ms)

    def keep_from(self) -> int:
        """Return the offset from which on the log is kept: everything that the master has."""
        return 0 if self._rounds is None else self._rounds.log_begin

    def state(self) -> ReplicationState:
        """Return the copying as GET_BROKER_HA_STATUS shows it."""
        state = self._receiving.state
        copying = CopyingState(
            master_addr="" if state.master is None else str(state.master.ha),
            last_read_timestamp=state.read_at_ms,
            last_write_timestamp=state.reported_at_ms,
            max_offset=state.end,
        )
        return ReplicationState(master=False, copying=copying)

    @property
    def _receiving(self) -> Receiver:
        assert self._receiver is not None, "serve is called first"
        return self._receiver

    def _named(self) -> MasterAddresses | None:
        """Return the addresses of the master, as far as somebody named them."""
        named = None if self._names is None else self._names.master
        if named is None:
            return None
        remoting, ha = named
        return MasterAddresses(parse_address(remoting), parse_address(self._settings.ha_master_address or ha))

    def _address(self) -> Address | None:
        master = self._named()
        return None if master is None else master.remoting

    def _master_text(self) -> str | None:
        address = self._address()
        return None if address is None else str(address)

    async def _find_master(self) -> MasterAddresses | None:
        """Return the master; ask the name servers again as long as none of them named it.

        In a group the controller says who is the master, and the name servers say where its port for slaves is.
        """
        master = self._named()
        if master is not None and self._group is not None and master.remoting != self._group.master:
            master = None
        if master is None and self._names is not None:
            self._names.register_soon()
        return master
