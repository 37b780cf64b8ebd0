"""The receiver of a slave: finds its master, proves that both logs begin alike, and copies what the master stores.

who is the master? → logs compared → connected → first report → stretches stored ⇄ reports
      ↑                                                    any fault: closed, 5 s later again
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IAddress, IConnector, IDelayedCall
from twisted.internet.protocol import ClientFactory
from twisted.python.failure import Failure

from gateway.errors import GatewayError
from gateway.reactor.interface import NetworkReactor
from gateway.replication.slave.beginning import BeginningLog, MasterAddresses
from gateway.replication.slave.entering import WayIn, way_in
from gateway.replication.slave.intake import Intake
from gateway.replication.slave.joining import ClassicJoining, Joining
from gateway.replication.slave.line import MasterLine
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Settings
from gateway.telemetry.logs import EventLog
from wire.errors import WireError
from wire.replication.auto_switch import LogPart, MasterAnswer

log = EventLog("replication")
_NUMBER = re.compile(r"[0-9]+")

FIRST_RETRY_S = 0.5
"""The time in seconds before the second attempt; it doubles with each attempt, up to ``RETRY_S``."""
RETRY_S = 5.0
"""The longest time in seconds between two attempts, and how long a connection lasts that sets the time back."""
CONNECT_TIMEOUT_S = 3.0
LOOKS_IN_INTERVAL = 5
"""The number of looks at the connection in ``haSendHeartbeatInterval``."""

MasterOf = Callable[[], Awaitable["MasterAddresses | None"]]
"""A function that returns the addresses of the master; None if it is not known."""


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """The state of a receiver, as GET_BROKER_HA_STATUS shows it."""

    master: MasterAddresses | None
    """The master whose log is copied; None while nothing is copied."""
    end: int
    """The durable end of the log."""
    read_at_ms: int
    """The time of the last byte from the master; 0 if there was none."""
    reported_at_ms: int
    """The time of the last report to the master; 0 if there was none."""


class Receiver(ClientFactory):
    """The copying of one master's log into a store to which nobody else appends.

    :param master: finds the master; asked before each attempt.
    :param joining: how the log is found to be the beginning of the master's; None: as classic slaves do.
    """

    noisy = False

    def __init__(
        self,
        store: BeginningLog,
        settings: Settings,
        around: ReplicationSurroundings,
        master: MasterOf,
        joining: Joining | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._around = around
        self._reactor: NetworkReactor = around.reactor
        self._joining: Joining = ClassicJoining(store, around) if joining is None else joining
        self._master_of = master
        self._master: MasterAddresses | None = None
        self._way_in = WayIn()
        self._connector: IConnector | None = None
        self._line: MasterLine | None = None
        self._last_intake: Intake | None = None
        self._next_try: IDelayedCall | None = None
        self._retry_s = FIRST_RETRY_S
        self._heard_at_s: float | None = None
        self._next_look: IDelayedCall | None = None
        self._trying: Deferred[None] | None = None
        self._last_fault = ""
        self._is_running = False
        self.seconds = self._reactor.seconds

    # --- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Copy from now on."""
        self._is_running = True
        self._look()
        self._try()

    def stop(self) -> None:
        """Close the connection; records on their way to the disk are stored all the same."""
        self._is_running = False
        for waiting in (self._next_try, self._next_look):
            if waiting is not None and waiting.active():
                waiting.cancel()
        if self._trying is not None:
            self._trying.cancel()
        if self._line is not None:
            self._line.close("the broker stops")
        elif self._connector is not None:
            self._connector.disconnect()

    @property
    def state(self) -> ReceiverState:
        """The state for people and tools."""
        now_s, now_ms, line = self.seconds(), self._around.clock_ms(), self._line

        def at_ms(seconds: float) -> int:
            return now_ms - int((now_s - seconds) * 1000)

        if line is None or self._heard_at_s is None:  # until it sends its log, it may refuse this one
            return ReceiverState(None, self._store.durable_end, 0, 0)
        return ReceiverState(self._master, self._store.durable_end, at_ms(line.heard_at_s), at_ms(line.reported_at_s))

    # --- attempts ------------------------------------------------------------------------------------------------

    def _try(self) -> None:
        self._trying = trying = ensureDeferred(self._attempt())
        trying.addErrback(lambda failure: self._retry(failure.getErrorMessage()))

    async def _attempt(self) -> None:
        """Connect to the master, if the log may go on as a copy of its log."""
        if self._last_intake is not None and self._last_intake.is_busy:
            self._retry("records of the last connection are still on their way to the disk")
            return
        try:
            master = await self._master_of()
            if master is None:
                self._retry("the master is not known")
                return
            await self._joining.prepare(master)
            self._way_in = await way_in(master.remoting, self._settings, self._around.call)
        except (GatewayError, WireError, OSError) as error:
            self._retry(str(error))
            return
        if self._is_running:
            self._master = master
            self._connector = self._reactor.connectTCP(master.ha.host, master.ha.port, self, CONNECT_TIMEOUT_S)

    def _retry(self, reason: str) -> None:
        """Try again in a while; log each kind of reason once in a row."""
        if not self._is_running:
            return
        kind = _NUMBER.sub("", reason)
        if kind != self._last_fault:
            self._last_fault = kind
            log.warning("nothing is copied from a master", reason=reason, log_end=self._store.durable_end)
        self._next_try = self._reactor.callLater(self._retry_s, self._try)
        self._retry_s = min(2 * self._retry_s, RETRY_S)

    def buildProtocol(self, addr: IAddress | None) -> MasterLine:  # noqa: ARG002, N802 (Twisted's name)
        """Make the object for the new connection."""
        seal = self._around.links.begin if self._way_in.with_tls else None
        return MasterLine(self, self._joining.talk(), self._make_intake, seal, self._way_in.first_bytes)

    def _make_intake(self, stored: Callable[[], None], failed: Callable[[str], None]) -> Intake:
        self._last_intake = Intake(self._store, stored=stored, failed=failed)
        return self._last_intake

    def clientConnectionFailed(self, connector: IConnector, reason: Failure) -> None:  # noqa: ARG002, N802
        """Try again later."""
        self._connector = None
        self._retry(f"cannot connect to the master's port for slaves: {reason.getErrorMessage()}")

    # --- the connection ------------------------------------------------------------------------------------------

    def opened(self, line: MasterLine) -> None:
        """Implement ``LineOwner.opened``."""
        self._line = line
        if not self._is_running:
            line.close("the broker stops")

    def heard(self) -> None:
        """Implement ``LineOwner.heard``."""
        self._last_fault = ""
        self._heard_at_s = self.seconds()
        log.info(
            "copying from a master",
            master=self._master and str(self._master.ha),
            tls=self._way_in.with_tls,
            log_end=self._store.durable_end,
        )

    def answered(self, line: MasterLine, answer: MasterAnswer) -> None:
        """Implement ``LineOwner.answered``."""
        ensureDeferred(self._compare(line, answer))

    async def _compare(self, line: MasterLine, answer: MasterAnswer) -> None:
        assert self._master is not None, "a connection has a master"
        try:
            await self._joining.compare(self._master, answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection is closed and tried again
            line.close(_text_of(error))
        else:
            if not line.is_closed:
                line.begin()

    def took(self, line: MasterLine, part: LogPart) -> bool:
        """Implement ``LineOwner.took``."""
        if part.offset != line.intake.next_offset or self._joining.is_settled(part):
            return True  # a part of another place closes the connection
        ensureDeferred(self._settle(line, part))
        return False

    async def _settle(self, line: MasterLine, part: LogPart) -> None:
        try:
            await self._joining.settle(part)
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection is closed and tried again
            line.close(_text_of(error))
        else:
            if not line.is_closed:
                line.resume()

    def closed(self, reason: str) -> None:
        """Implement ``LineOwner.closed``."""
        self._line = self._connector = self._master = None
        heard_at_s, self._heard_at_s = self._heard_at_s, None
        if heard_at_s is not None and self.seconds() - heard_at_s >= RETRY_S:
            self._retry_s = FIRST_RETRY_S
        self._retry(reason)

    def report_end(self) -> int:
        """Implement ``LineOwner.report_end``."""
        end = self._store.durable_end
        return 0 if end == self._store.min_commit_log_offset else end

    def _look(self) -> None:
        """Close a silent connection, report in time, and read on if the disk is idle."""
        beat_s = self._settings.ha_send_heartbeat_interval_ms / 1_000
        silence_s = self._settings.ha_housekeeping_interval_ms / 1_000
        line, now_s = self._line, self.seconds()
        if line is not None:
            if now_s - line.heard_at_s > silence_s and not line.is_paused:
                line.close(f"the master has been silent for {silence_s:g} s")
            elif now_s - line.reported_at_s >= beat_s or line.owes_report:
                line.report()
            line.pause_or_resume()  # the store may wait for what the master says, and not for the disk any more
        self._next_look = self._reactor.callLater(beat_s / LOOKS_IN_INTERVAL, self._look)


def _text_of(error: Exception) -> str:
    """Return the reason for people; log errors that nobody foresaw."""
    if not isinstance(error, GatewayError | WireError | OSError):
        log.error("a master could not be judged", failure=error)
    return str(error)
