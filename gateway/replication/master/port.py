"""The port for slaves: who may copy, whose reports count, and signs of life.

A peer has to be a host that the name servers list as a slave of this broker name, or one of ``gateway.replicaHosts``.
A copy that is not empty is compared with our log before its first byte: a slave answers request 33 with single records.
Only then do its reports count. Each broker id counts once: a new connection of a slave replaces the one before.

The first byte says whether the slave speaks TLS. Where accounts are checked, a slave of ours begins with a token.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IDelayedCall, IListeningPort
from twisted.internet.protocol import Factory

from gateway.errors import GatewayError
from gateway.in_thread import Failed
from gateway.reactor.interface import NetworkReactor
from gateway.remoting.answers.output import shown_print
from gateway.remoting.pending import CallFailed
from gateway.remoting.tls.first_byte import HANDSHAKE
from gateway.replication.master.copies import CountedCopies
from gateway.replication.master.sending import Received, SlaveLine
from gateway.replication.master.talk import ClassicTalk, SlaveTalk
from gateway.replication.master.tokens import EntryTokens
from gateway.replication.master.verdicts import (
    fault_of_entry,
    fault_of_language,
    in_turn,
    is_listed,
    may_copy,
    plain_host,
    slaves_at,
)
from gateway.replication.prefix import refused_place
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address, Settings
from gateway.settings.addresses import parse_address
from gateway.settings.replication import REGISTERED
from gateway.settings.tls import TlsMode
from gateway.shares import counted_host, oldest_of_greediest
from gateway.telemetry.logs import EventLog
from wire.headers.admin import EnterReplicaResponse

log = EventLog("replication")
_NUMBER = re.compile(r"[0-9]+")

MAX_SLAVE_CONNECTIONS = 64
"""The number of connections to the port for slaves, judged or not."""
MAX_SILENT_CONNECTIONS = 16
"""The number of connections to the port for slaves whose peer has not said yet what a slave says first."""
LOOKS_IN_INTERVAL = 5
"""The number of looks for silent connections in ``haSendHeartbeatInterval``."""
LOOKS_AT_END_MS = 100
"""The time between two looks at the end of the log, which with ASYNC_FLUSH moves without a notice."""
LEAST_WAIT_S = 0.01
"""The least time in seconds for which slaves wait for more, if nobody waits for them or they got enough in a second."""
NEWS_WAIT_S = 0.1
"""The longest time in seconds for which news without bytes wait for bytes: a slave may have to show more to go on."""
BACKLOG = 16
NOT_LISTED = "no name server lists a slave of this broker at its host"


class Peers(Protocol):
    """The other brokers of this name."""

    async def members(self) -> Mapping[int, str] | None:
        """Ask the name servers for the addresses of these brokers, by id; None if no name server answers."""

    async def compare(self, peer: Address, place: int) -> str | None:
        """Return what differs in our log and a broker's below an offset; None if nothing does.

        :raises CallFailed: the broker does not answer.
        """


class ReplicatedLog(Protocol):
    """The log, as far as slaves need it; ``MessageStore`` is one."""

    @property
    def durable_end(self) -> int:
        """The offset below which everything is on disk."""

    @property
    def min_commit_log_offset(self) -> int:
        """The offset of the first byte that the log still has."""

    def log_bytes(self, start: int, limit: int) -> bytes | None:
        """Return whole records from ``start`` on; blocks."""


class StoredBatch(Protocol):
    """Records that were written to the log at once; ``LogBatch`` is one."""

    start: int
    """The offset of the first record."""

    def content(self, limit: int) -> bytes | None:
        """Return the bytes; None if they are in several files, or more than ``limit``."""


class SlavePort(Factory):
    """Admits slaves, and keeps their connections.

    :param reported: called when ``copies`` changed.
    """

    noisy = False

    def __init__(
        self,
        log_of_store: ReplicatedLog,
        copies: CountedCopies,
        settings: Settings,
        around: ReplicationSurroundings,
        peers: Peers,
        reported: Callable[[], None],
    ) -> None:
        self._log = log_of_store
        self._copies = copies
        self._settings = settings
        self._around = around
        self._reactor: NetworkReactor = around.reactor
        self._peers = peers
        self._reported = reported
        self.make_talk: Callable[[], SlaveTalk] = ClassicTalk
        """Makes what knows the bytes of the protocol, for each connection."""
        self.hurries = True
        """Implements ``Owner.hurries``; the role sets it."""
        self._lines: dict[SlaveLine, None] = {}
        self._port: IListeningPort | None = None
        self._next_look: IDelayedCall | None = None
        self._next_end: IDelayedCall | None = None
        self._next_follow: IDelayedCall | None = None
        self._tokens = EntryTokens(around.random_bytes)
        self._refused: set[tuple[str, str]] = set()
        self.seconds = self._reactor.seconds

    # -- life -----------------------------------------------------------------------------------------------

    def start(self, interface: str, port: int) -> None:
        """Listen.

        :raises GatewayError: the port cannot be listened on.
        """
        try:
            self._port = self._reactor.listenTCP(port, self, BACKLOG, interface)
        except CannotListenError as error:
            raise GatewayError(f"cannot listen for slaves on {interface}:{port} (haListenPort): {error}") from error
        log.info(
            "listening for slaves",
            address=f"{interface}:{self.port}",
            hosts=self._settings.replica_hosts,
            tls=self._settings.tls_mode.value,
        )
        self._look()

    @property
    def port(self) -> int:
        """The port on which slaves are admitted."""
        assert self._port is not None, "started"
        return int(self._port.getHost().port)  # type: ignore[attr-defined]

    async def stop(self) -> None:
        """Close the port and all connections."""
        for call in (self._next_look, self._next_end, self._next_follow):
            if call is not None and call.active():
                call.cancel()
        self._next_look = self._next_end = self._next_follow = None
        for line in list(self._lines):
            line.close("the broker stops")
        port, self._port = self._port, None
        if port is not None:
            stopped = port.stopListening()
            if isinstance(stopped, Deferred):
                await stopped

    def buildProtocol(self, addr: object) -> SlaveLine:  # noqa: ARG002, N802 (Twisted's name)
        """Make the object for a new connection."""
        return SlaveLine(self, self.make_talk())

    @property
    def lines(self) -> Sequence[SlaveLine]:
        """The connections whose slaves were found to copy this log."""
        return [line for line in list(self._lines) if line.sends]  # metrics ask in a thread of their own

    def is_in_sync(self, line: SlaveLine) -> bool:
        """Return whether senders wait for the slave of a connection."""
        return line.broker_id is not None and self._copies.is_in_sync(line.reported_end, self._log.durable_end)

    def follow(self, batch: StoredBatch | None = None) -> None:
        """Send what the log has now to every slave.

        :param batch: what was stored last: a slave that lacks nothing else gets it without a read of the log.
        """
        lines = list(self._lines)
        content = batch.content(self._settings.ha_transfer_batch_bytes) if batch is not None and lines else None
        for line in lines:
            if batch is not None and content is not None:
                line.pass_on(batch.start, content)
            line.follow()

    # -- connections ----------------------------------------------------------------------------------------

    def opened(self, line: SlaveLine) -> None:
        """Implement ``Owner.opened``."""
        self._lines[line] = None
        if len(self._lines) > MAX_SLAVE_CONNECTIONS:
            least = self._least_needed(line)
            least.close(f"{MAX_SLAVE_CONNECTIONS} connections at most, the oldest of a host gives way")
            if least is line:
                return
        silent = [one for one in self._lines if not one.has_entered]
        if len(silent) > MAX_SILENT_CONNECTIONS:
            oldest = oldest_of_greediest(silent, attrgetter("host"))
            oldest.close(
                f"{MAX_SILENT_CONNECTIONS} connections at most may say nothing, the oldest of a host gives way"
            )
            if oldest is line:
                return
        ensureDeferred(self._admitted(line))

    def _least_needed(self, newest: SlaveLine) -> SlaveLine:
        """Return what gives way: no slave whose reports count, and the only connection of a host only if it is new."""
        others = [one for one in self._lines if one.broker_id is None]
        has_several = len({counted_host(one.host) for one in others}) < len(others)
        return oldest_of_greediest(others, attrgetter("host")) if has_several else newest

    def receiver(self, line: SlaveLine, first_byte: int) -> Received | None:
        """Implement ``Owner.receiver``."""
        is_tls = first_byte == HANDSHAKE
        listed = is_listed(line.host, self._settings.replica_hosts)
        fault = fault_of_language(self._settings.tls_mode, is_tls=is_tls, is_listed=listed)
        if fault is None and is_tls:
            assert line.transport is not None
            link = self._around.links.accept(line.transport, line.sealed(), line.received)
            if link is not None:
                return link.received
            fault = "it speaks TLS, which this port cannot"
        if fault is not None:
            line.close(fault)
            return None
        return line.received

    def entry(self, host: str, broker_id: int, shown: bytes | None = None) -> EnterReplicaResponse:
        """Return how a slave that asked from a host enters.

        :param shown: the fingerprint of the certificate that it showed; None without TLS.
        """
        token = b""
        if self._settings.is_guarded:
            token = self._tokens.give(plain_host(host), broker_id, self.seconds(), shown)
        return EnterReplicaResponse(tls=self._settings.tls_mode is not TlsMode.DISABLED, token=token.hex() or None)

    def entered(self, line: SlaveLine, token: bytes | None) -> str | None:
        """Implement ``Owner.entered``."""
        if not self._settings.is_guarded:
            return None
        if token is not None:
            shown = shown_print(line.transport)
            line.proven_id = self._tokens.redeem(token, line.host, self.seconds(), shown)
        return fault_of_entry(
            is_proven=line.proven_id is not None,
            is_listed=is_listed(line.host, self._settings.replica_hosts),
            has_token=token is not None,
        )

    def reported(self, line: SlaveLine) -> None:
        """Implement ``Owner.reported``."""
        if line.broker_id is not None:
            self._copies.report(line.broker_id, line.reported_end)
            self._reported()
            if line.has_news:
                self.follow_later(NEWS_WAIT_S)

    def closed(self, line: SlaveLine, reason: str) -> None:
        """Implement ``Owner.closed``."""
        self._lines.pop(line, None)
        if line.sends:
            log.warning("slave lost", slave=line.peer, id=line.broker_id, reported=line.reported_end, reason=reason)
        else:
            self._refusal(line, reason)
        if line.sends and line.broker_id is not None and self._line_of(line.broker_id) is None:
            self._copies.leave(line.broker_id)

    def _refusal(self, line: SlaveLine, reason: str) -> None:
        """Log once for each host and kind of reason: a slave tries again every 5 s."""
        kind = counted_host(line.host), _NUMBER.sub("", reason)
        if kind not in self._refused:
            if len(self._refused) >= MAX_SLAVE_CONNECTIONS:
                self._refused.clear()
            self._refused.add(kind)
            log.warning("no slave", peer=line.peer, reason=reason)

    def durable_end(self) -> int:
        """Implement ``Owner.durable_end``."""
        return self._log.durable_end

    @property
    def most_in_second(self) -> int | None:
        """Implement ``Owner.most_in_second``."""
        return self._settings.most_bytes_in_second

    def read(self, start: int, limit: int | None, done: Callable[[bytes | Failed | None], None]) -> None:
        """Implement ``Owner.read``."""
        usual = self._settings.ha_transfer_batch_bytes
        most = usual if limit is None else min(limit, usual)
        self._around.in_thread(lambda: self._log.log_bytes(start, most), done)

    def follow_later(self, seconds: float = 0) -> None:
        """Implement ``Owner.follow_later``."""
        wait_s, waiting = max(seconds, LEAST_WAIT_S), self._next_follow
        if waiting is None or not waiting.active():
            self._next_follow = self._reactor.callLater(wait_s, self.follow)
        elif waiting.getTime() > self.seconds() + wait_s:
            waiting.reset(wait_s)

    # -- admission ------------------------------------------------------------------------------------------

    async def _admitted(self, line: SlaveLine) -> None:
        try:
            await self._admit(line)
        except Exception as error:  # noqa: BLE001 - a peer that cannot be judged does not stop the others
            log.error("a slave could not be judged", failure=error, slave=line.peer)
            line.close("it could not be judged")

    async def _admit(self, line: SlaveLine) -> None:
        """Find out who reports, compare logs, and begin to send; otherwise close the connection."""
        slaves = await self._slaves_at(line.host)
        hosts = self._settings.replica_hosts
        if not may_copy(line.host, hosts, slaves, is_guarded=self._settings.is_guarded):
            line.close(NOT_LISTED if hosts == REGISTERED else "gateway.replicaHosts does not name its host")
            return
        line.admit()
        first = await line.first
        fault = refused_place(first, self._log.min_commit_log_offset, self._log.durable_end)
        if fault is None:
            fault = await self._identify(line, first, slaves)
        if line.is_closed:
            return
        if fault is not None:
            line.close(fault)
            return
        self._begin(line, first)

    async def _identify(self, line: SlaveLine, first: int, slaves: Mapping[int, Address]) -> str | None:
        """Set the id of a slave whose log is the beginning of ours; return why no slave at its host is it."""
        claimed, proven = line.claimed_id, line.proven_id
        if proven is not None and claimed is not None and proven != claimed:
            return f"it says that it is broker {claimed}, and its token is that of broker {proven}"
        if claimed is None and slaves:  # without a name server nobody counts
            claimed = proven
        if claimed is not None:
            if claimed not in slaves:
                return f"it says that it is broker {claimed}, and no name server lists this broker at its host"
            slaves = {claimed: slaves[claimed]}
        ids = in_turn(slaves, {one.broker_id for one in self.lines if one.broker_id is not None})
        if first == 0:  # an empty copy has nothing that could differ
            line.broker_id = ids[0] if ids else None
            return None
        fault = f"{NOT_LISTED}, so its log cannot be compared"
        for broker_id in ids:
            address = slaves[broker_id]
            try:
                differs = await self._peers.compare(address, first)
            except CallFailed as error:
                fault = f"its log cannot be compared: {error}"
                continue
            if differs is None:
                line.broker_id = broker_id
                return None
            fault = f"the slave {broker_id} at {address} reports {first} bytes, and {differs}"
        return fault

    def _begin(self, line: SlaveLine, first: int) -> None:
        host = counted_host(line.host)
        self._refused = {kind for kind in self._refused if kind[0] != host}
        before = None if line.broker_id is None else self._line_of(line.broker_id)
        if before is not None:
            before.close(f"slave {line.broker_id} has a new connection")
        log.info("slave copies", slave=line.peer, id=line.broker_id, begins_at=first, log_end=self._log.durable_end)
        if line.broker_id is not None:
            self._copies.report(line.broker_id, first)
        line.begin(first, self._log.min_commit_log_offset)
        self._reported()

    def _line_of(self, broker_id: int) -> SlaveLine | None:
        return next((line for line in self._lines if line.sends and line.broker_id == broker_id), None)

    async def _slaves_at(self, host: str) -> Mapping[int, Address]:
        """Return the slaves that name servers list at a host: none if no name server answers."""
        members = {broker_id: parse_address(text) for broker_id, text in (await self._peers.members() or {}).items()}
        names = {address.host for address in members.values()}
        hosts_of = await self._around.off_reactor(lambda: {name: _addresses_of(name) for name in names})
        return slaves_at(host, members, hosts_of)

    # -- time -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Close silent connections, and give signs of life."""
        beat_s = self._settings.ha_send_heartbeat_interval_ms / 1_000
        silence_s = self._settings.ha_housekeeping_interval_ms / 1_000
        self._next_look = self._reactor.callLater(beat_s / LOOKS_IN_INTERVAL, self._look)
        now_s = self.seconds()
        for line in list(self._lines):
            if now_s - line.heard_at_s > silence_s:
                line.close(f"silent for {silence_s:g} s (haHousekeepingInterval)")
            elif now_s - line.sent_at_s >= beat_s:
                line.give_sign_of_life()

    def follow_by_time(self) -> None:
        """Look for a new end of the log again and again, because it moves without a notice."""
        self._next_end = self._reactor.callLater(LOOKS_AT_END_MS / 1_000, self.follow_by_time)
        self.follow()


def _addresses_of(name: str) -> list[str]:
    """Return the IP addresses of a host name; none if it has none. Blocks."""
    try:
        found: list[Any] = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({entry[4][0] for entry in found})
