"""The life of a broker whose role may change while its process runs.

A change of the role is an orderly stop of the broker and a start of a new one on the same directory, with the same
ports. So a start does all the work of a promotion: it finds the end of the log, makes queues and index agree with the
log, and finds transactions, timer messages and pops. The start takes less than a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred, DeferredLock

from gateway.errors import GatewayError
from gateway.settings import Address, Settings
from gateway.settings.replication import BrokerRole
from gateway.telemetry.logs import EventLog

log = EventLog("broker")

RETRY_FIRST_S = 1.0
"""The seconds after which a start that failed is tried again; each further time takes twice as long."""
RETRY_LONGEST_S = 30.0


class BrokerPorts(NamedTuple):
    """The ports of a broker that runs: those for requests, and the one for slaves; None if there is none."""

    requests: Sequence[int]
    replicas: int | None


class Broker(Protocol):
    """The common interface of brokers that a life starts and stops; ``BrokerService`` is one."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The address at which clients find the broker."""

    @property
    def advertised(self) -> Sequence[Address | None]:
        """The address that clients get instead."""

    @property
    def ports(self) -> BrokerPorts:
        """The ports of the broker, after its start."""

    def live(self, life: BrokerLife, ports: BrokerPorts | None) -> None:
        """Take the life, through which requests change the role, and the ports of the broker before; None: choose."""

    async def start(self) -> None:
        """Start."""

    async def stop(self) -> None:
        """Stop; allowed after a start that failed."""


class LifeSurroundings(Protocol):
    """The reactor, as far as a life needs it."""

    def callLater(self, delay: float, callable: Callable[..., object]) -> object:  # noqa: N802, A002 (Twisted's names)
        """Call later."""


class RoleNotChanged(GatewayError):  # noqa: N818 (a fact about the broker, which goes on in its role)
    """The role was not changed; the broker runs in its role of before, or is being started in it."""


class BrokerLife:
    """One broker, in one role after the other.

    :param settings: the settings; a change of the role is written into this object, as changes of live settings are.
    :param make: makes a broker with these settings.
    :param off_reactor: runs blocking work in a thread.
    """

    def __init__(
        self,
        settings: Settings,
        make: Callable[[Settings], Broker],
        reactor: LifeSurroundings,
        off_reactor: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self.settings = settings
        self._make = make
        self._reactor = reactor
        self._off_reactor = off_reactor
        self._changing = DeferredLock()
        self._ports: BrokerPorts | None = None
        self._stops = False
        self.process = token_hex(8)
        """A name of this process, by which a restart in the middle of a change is seen."""
        self.changes = 0
        """The number of changes of the role that ended, also of those that failed."""
        self.broker = make(settings)
        """The broker of the present role."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The address at which clients find the broker."""
        return self.broker.addresses

    @property
    def advertised(self) -> Sequence[Address | None]:
        """The address that clients get instead of it; None if they get the same."""
        return self.broker.advertised

    @property
    def is_changing(self) -> bool:
        """True while the role changes."""
        return bool(self._changing.locked)

    async def start(self) -> None:
        """Start the broker in the role of the settings.

        :raises GatewayError: the broker cannot start.
        """
        self.broker.live(self, None)
        await self.broker.start()
        self._ports = self.broker.ports

    async def stop(self) -> None:
        """Stop the broker; a change of the role on its way is ended first, and no further one begins."""
        self._stops = True
        await self._changing.acquire()
        try:
            await self.broker.stop()
        finally:
            self._changing.release()

    async def become(self, role: BrokerRole, broker_id: int, *, between: Callable[[], None] | None = None) -> None:
        """Stop the broker and start it in another role, or in the same role once more; return when it runs.

        One change at a time; further ones wait. A start that fails is tried again until it succeeds.

        :param between: blocking work on the closed directory, between stop and start. If it fails, the broker starts in
            its role of before.
        :raises RoleNotChanged: ``between`` failed, or the process stops.
        """
        await self._changing.acquire()
        try:
            await self._become(role, broker_id, between)
        finally:
            self._changing.release()

    async def _become(self, role: BrokerRole, broker_id: int, between: Callable[[], None] | None) -> None:
        self._refuse_if_stopping()
        settings, before = self.settings, (self.settings.broker_role, self.settings.broker_id)
        log.warning("role changes", before=before[0].value, now=role.value, broker_id=broker_id)
        await self._stop_broker()
        failure: Exception | None = None
        if between is not None:
            try:
                await self._off_reactor(between)
            # Whatever it is, the broker must be started again.
            except Exception as error:  # noqa: BLE001
                failure = error
                role, broker_id = before
                log.error("role not changed", goes_on_as=role.value, reason=str(error))
        # Nobody reads them now: the parts of the broker that stopped are gone.
        object.__setattr__(settings, "broker_role", role)
        object.__setattr__(settings, "broker_id", broker_id)
        await self._start_until_done()
        self.changes += 1
        if failure is not None:
            raise RoleNotChanged(f"the role was not changed: {failure}") from failure
        log.warning("role changed", role=role.value, broker_id=broker_id)

    async def _stop_broker(self) -> None:
        try:
            await self.broker.stop()
        except GatewayError as error:  # it is closed all the same; the start recovers
            log.error("stopped with a loss", server="broker", reason=str(error))

    async def _start_until_done(self) -> None:
        pause_s = RETRY_FIRST_S
        while True:
            self._refuse_if_stopping()
            self.broker = self._make(self.settings)
            self.broker.live(self, self._ports)
            try:
                await self.broker.start()
            # Whatever ends a start must not leave the process without a broker that somebody may still start.
            except Exception as problem:  # noqa: BLE001
                is_known = isinstance(problem, (GatewayError, OSError))
                log.error(
                    "start failed, it is tried again",
                    again_in_s=pause_s,
                    **({"reason": str(problem)} if is_known else {"failure": problem}),
                )
                await self._stop_broker()
                await self._pass(pause_s)
                pause_s = min(2 * pause_s, RETRY_LONGEST_S)
            else:
                return

    async def _pass(self, seconds: float) -> None:
        passed: Deferred[None] = Deferred()
        self._reactor.callLater(seconds, lambda: passed.callback(None))
        await passed

    def _refuse_if_stopping(self) -> None:
        if self._stops:
            raise RoleNotChanged("the role was not changed: the broker stops")
