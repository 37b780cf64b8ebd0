"""The role of a master: the stage, the port and the copies as one, made if slaves may connect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from twisted.internet.defer import Deferred

from gateway.replication.comparing import compared
from gateway.replication.hidden_tail import HiddenTail, Show
from gateway.replication.master.copies import Copies, CountedCopies
from gateway.replication.master.lead import GroupLead
from gateway.replication.master.port import SlavePort
from gateway.replication.master.stage import ReplicatedStage
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address, Settings
from gateway.store.durability.surroundings import BatchObserver
from gateway.store.log.log_batch import LogBatch
from gateway.store.message_store import MessageStore
from gateway.telemetry.logs import EventLog
from wire.bodies.tools.statistics import ReplicaConnection, ReplicationState
from wire.headers.admin import EnterReplicaResponse

log = EventLog("replication")

LOOK_AT_LAG_MS = 20
"""The milliseconds between two looks at what slaves lack, while the master stops."""

Members = Callable[[], Awaitable[Mapping[int, str] | None]]
"""A function that does what ``Peers.members`` does."""


class Master:
    """The master's side of replication.

    Its ``stage`` goes into the store, which is given to ``serve`` once it is made.

    :param group: the master's place in a group with a controller; None for ``brokerRole`` alone.
    """

    def __init__(self, settings: Settings, around: ReplicationSurroundings, group: GroupLead | None = None) -> None:
        self._settings = settings
        self._around = around
        self._group = group
        self._copies: CountedCopies = (
            Copies(settings.copies_awaited, settings.ha_max_gap_not_in_sync_bytes) if group is None else group.copies
        )
        self._refusals: dict[str, str | None] = {}
        self._refusal: str | None = None
        self._stage: ReplicatedStage | None = None
        self._store: MessageStore | None = None
        self._port: SlavePort | None = None
        self._members: Members = _no_members
        self._filler = 0, 0

    def stage(self, after: BatchObserver) -> BatchObserver:
        """Return the stage that holds batches for slaves; ``after`` itself if no sender waits for slaves."""
        if self._group is None and not self._copies.needed:
            return after
        self._stage = ReplicatedStage(
            after,
            self._copies,
            self._settings,
            self._around,
            moved=self._moved,
            lags=self._lags,
        )
        return self._stage

    def serve(self, store: MessageStore, members: Members) -> None:
        """Take the store, and the way to the name servers."""
        self._store = store
        self._members = members
        self._port = port = SlavePort(store, self._copies, self._settings, self._around, self, self._reported)
        self._refuse("bytes", self._refusals.get("bytes"))
        port.hurries = self._stage is not None
        if not port.hurries:
            store.listen(lambda _: port.follow_later())
        if self._group is not None:
            port.make_talk = self._group.lead(store, self._settings.mapped_file_size_commit_log)
            self.members_changed()
        self._around.registry.watch(
            "rocketmq_gateway_replicas", "Slaves that copy the log, proven to be equal", lambda: len(port.lines)
        )
        self._around.registry.watch(
            "rocketmq_gateway_replica_lag_bytes", "Bytes that the slave furthest behind lacks", self._lag
        )

    def members_changed(self) -> None:
        """Look at the sync state set of the group again: it is another one now."""
        if self._group is not None:
            self._refuse("members", self._group.refusal)
            self._reported()
            self._moved()

    def begin(self, store: MessageStore, tail: HiddenTail, show: Show, *, takes_over: bool) -> None:
        """Hide what the store found on the disk and is not known to be replicated; blocks.

        A log that a controller lets a member take over is shown: consumers saw it at the last master, and their offsets
        count from there. Without a controller, a slave keeps the note of what it knows to be replicated only as long as
        its log may end otherwise than its master's, and that end is hidden here, too.
        """
        self._filler = store.last_record_end(), store.stored_end
        if self._stage is None:
            tail.forget()
            return
        tail.begin(store, show, shows_all=takes_over and self._group is not None)
        if tail.bytes:
            log.warning(
                "hidden until enough slaves have it; with brokerRole=ASYNC_MASTER a start shows it",
                bytes=tail.bytes,
                log_offset=tail.shown_end,
                slaves_needed=self._copies.needed,
            )
        self._stage.begin(tail)

    @property
    def port(self) -> int:
        """The port on which slaves connect."""
        return self._serving.port

    def entry(self, host: str, broker_id: int, shown: bytes | None) -> EnterReplicaResponse:
        """Return how a slave enters the port for slaves.

        :param host: the address from which the slave asked.
        :param shown: the fingerprint of the certificate that it showed, empty if it showed none; None without TLS.
        """
        return self._serving.entry(host, broker_id, shown)

    def start(self, interface: str, port: int) -> None:
        """Listen for slaves.

        :raises GatewayError: the port cannot be listened on.
        """
        self._serving.start(interface, port)
        if not self._settings.sync_flush:
            self._serving.follow_by_time()

    def follow(self, commit_log_offset: int, callback: Callable[[], None]) -> bool:
        """Call back when the message at a place is visible, if slaves lack it yet; otherwise return False."""
        return self._stage is not None and self._stage.follow(commit_log_offset, callback)

    async def drain(self) -> None:
        """Let everything held become visible, once no sender waits for slaves; afterwards nothing is held."""
        stage = self._stage
        if stage is not None:
            answered: Deferred[None] = Deferred()
            stage.when_answered(lambda: answered.callback(None))
            await answered
            stage.let_all_pass()

    async def stop(self) -> None:
        """Send slaves the end of the log, for up to ``slaveTimeout``, and close the port and their connections."""
        ends_s = self._around.reactor.seconds() + self._settings.slave_timeout_ms / 1_000
        if self._serving.lines and self._store is not None:
            await self._around.off_reactor(self._store.flush_stored)
        while self._serving.lines and self._lag() > 0 and self._around.reactor.seconds() < ends_s:
            self._serving.follow()
            passed: Deferred[None] = Deferred()
            self._around.later(LOOK_AT_LAG_MS, partial(passed.callback, None))
            await passed
        await self._serving.stop()

    def state(self, end: int) -> ReplicationState:
        """Return the slaves as GET_BROKER_HA_STATUS shows them, for a log that ends at ``end``."""
        port = self._serving
        rows = tuple(
            ReplicaConnection(
                addr=line.peer,
                slave_ack_offset=line.reported_end,
                diff=self.end_for_slaves(end) - line.reported_end,
                in_sync=port.is_in_sync(line),
                transfer_from_where=line.sent_end,
            )
            for line in port.lines
        )
        in_sync = sum(row.in_sync for row in rows)
        return ReplicationState(True, end, in_sync, rows)

    @property
    def _serving(self) -> SlavePort:
        assert self._port is not None, "serve is called first"
        return self._port

    def _lag(self) -> int:
        assert self._store is not None, "serve is called first"
        end = self.end_for_slaves(self._store.durable_end)
        return max((end - line.reported_end for line in self._serving.lines), default=0)

    def end_for_slaves(self, end: int) -> int:
        """Return where the log ends for slaves: they store a filler at the end with the record that follows it."""
        before, after = self._filler
        return before if before <= end <= after else end

    async def members(self) -> Mapping[int, str] | None:
        """Implement ``Peers.members``."""
        return await self._members()

    async def compare(self, peer: Address, place: int) -> str | None:
        """Implement ``Peers.compare``."""
        assert self._store is not None, "serve is called first"
        return await compared(self._store, self._around, peer, place)

    def _moved(self, batch: LogBatch | None = None) -> None:
        if self._port is not None:
            self._port.follow(batch)

    def _lags(self, reason: str | None) -> None:
        self._refuse("bytes", reason)

    def _refuse(self, kind: str, reason: str | None) -> None:
        """Refuse messages for a kind of reason, or not for this kind any more."""
        self._refusals[kind] = reason
        refusal = next((one for one in self._refusals.values() if one is not None), None)
        if self._store is not None and refusal != self._refusal:
            if self._refusal is not None:
                self._store.replicas_lag(None)
            self._refusal = refusal
            if refusal is not None:
                self._store.replicas_lag(refusal, too_few=refusal == self._refusals.get("members"))

    def _reported(self) -> None:
        if self._stage is not None:
            self._stage.reported()


async def _no_members() -> None:
    """Return None: no name server is known yet."""
