"""Brokers in processes of their own, with the name server in this process. A broker that ends is started again.

A broker process reports on its standard output when clients may connect, and stops when its standard input ends. So no
broker outlives its supervisor, however the supervisor ends. A broker's log goes where the supervisor's log goes; each
line names the broker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from gateway.cli.serving.members import BrokerMember
from gateway.errors import GatewayError
from gateway.settings import Address
from gateway.settings.addresses import parse_address
from gateway.settings.declare import ENVIRONMENT_PREFIX
from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.disk.store_lock import StoreLock
from gateway.store.errors import StoreNotAccessible
from gateway.telemetry.logs import EventLog

FIRST_RESTART_S = 1.0
LAST_RESTART_S = 30.0
STEADY_S = 60.0
"""Seconds of service after which a broker's next failure counts as its first one."""
READY = "ready broker="
ADVERTISED = "advertised="
MAX_OUTPUT_BYTES = 65_536
"""The most bytes of a line on a broker's standard output; a longer line is no ready line."""
COMMAND = (sys.executable, "-P", "-m", "gateway.cli")
"""The command of a broker process, without the working directory in its module path.

The broker runs the same code as its supervisor.
"""
INHERITED_STANDARD_ERROR = 2

log = EventLog("supervisor")


def restart_delay_s(failures: int) -> float:
    """Return the seconds before the next start of a broker that ended ``failures`` times in a row."""
    return min(FIRST_RESTART_S * 2.0 ** (failures - 1), LAST_RESTART_S)


class ProcessLife(ProcessProtocol):
    """The life of one broker process, from its start to its end.

    :param on_ready: gets the address on which the broker listens, and the address that clients get, if it is another
        one.
    :param on_end: gets the exit code; a negative number is the signal that ended the process.
    """

    def __init__(self, on_ready: Callable[[Address, Address | None], None], on_end: Callable[[int], None]) -> None:
        self._on_ready = on_ready
        self._on_end = on_end
        self._output = b""

    def outReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Look for the ready line; a broker writes no other line to standard output."""
        *lines, self._output = (self._output + data).split(b"\n")
        self._output = self._output[:MAX_OUTPUT_BYTES]
        for line in lines:
            self._look_at(line.decode("ascii", "replace"))

    def processEnded(self, reason: Failure) -> None:  # noqa: N802 (Twisted's name)
        """Report the exit code, after every pipe is closed."""
        ended = reason.value
        signal = getattr(ended, "signal", None)
        self._on_end(-signal if signal else getattr(ended, "exitCode", None) or 0)

    def _look_at(self, line: str) -> None:
        if line.startswith(READY):
            address, _, rest = line.removeprefix(READY).partition(" ")
            advertised = parse_address(rest.removeprefix(ADVERTISED)) if rest.startswith(ADVERTISED) else None
            self._on_ready(parse_address(address), advertised)


class BrokerProcess:
    """One broker, which runs in one process after another until it is asked to stop.

    :param name_servers: called at each start of a process, because our own name server may listen on a free port.
    """

    def __init__(self, member: BrokerMember, reactor: Any, name_servers: Callable[[], Sequence[Address]]) -> None:
        self.member = member
        self.address: Address | None = None
        self.advertised: Address | None = None
        self._reactor = reactor
        self._name_servers = name_servers
        self._process: Any = None
        self._ready: Deferred[None] = Deferred()
        self._ended: Deferred[int] | None = None
        self._restart: IDelayedCall | None = None
        self._ready_at_s: float | None = None
        self._failures = 0

    def start(self) -> Deferred[None]:
        """Start the broker; fires when clients may connect.

        The Deferred fails with GatewayError if the first process ends before that.
        """
        self._spawn()
        return self._ready

    def stop(self) -> Deferred[int]:
        """Ask the broker to stop; fires with the exit code after its end. Cancel to kill the broker."""
        self._ended = Deferred(lambda _: self._signal("KILL"))
        if self._restart is not None and self._restart.active():
            self._restart.cancel()
        if self._process is None:
            self._ended.callback(0)
        else:
            self._signal("TERM")
        return self._ended

    def _spawn(self) -> None:
        port = None if self.address is None else self.address.port
        arguments = [*COMMAND, *self.member.arguments(self._name_servers(), port)]
        life = ProcessLife(self._on_ready, self._on_end)
        files: dict[int, int | str] = {0: "w", 1: "r", 2: INHERITED_STANDARD_ERROR}
        self._ready_at_s = None
        self._process = self._reactor.spawnProcess(
            life, arguments[0], arguments, env={**_environment(os.environ), **self.member.secrets}, childFDs=files
        )

    def _on_ready(self, address: Address, advertised: Address | None) -> None:
        self._ready_at_s = self._reactor.seconds()
        if self.address is not None:
            log.info("broker is back", broker=self.member.name, address=address)
        self.address = address
        self.advertised = advertised
        if not self._ready.called:
            self._ready.callback(None)

    def _on_end(self, exit_code: int) -> None:
        self._process = None
        if self._ended is not None:
            if not self._ended.called:
                self._ended.callback(exit_code)
        elif self.address is None:
            reason = f"broker {self.member.name} did not start (exit code {exit_code}); what it said of that is above"
            self._ready.errback(GatewayError(reason, exit_code=max(exit_code, 1)))
        else:
            self._start_again(exit_code)

    def _start_again(self, exit_code: int) -> None:
        steady = self._ready_at_s is not None and self._reactor.seconds() - self._ready_at_s >= STEADY_S
        self._failures = 1 if steady else self._failures + 1
        delay_s = restart_delay_s(self._failures)
        log.error("broker ended", broker=self.member.name, exit_code=exit_code, starts_again_in_s=delay_s)
        self._restart = self._reactor.callLater(delay_s, self._spawn)

    def _signal(self, name: str) -> None:
        try:
            if self._process is not None:
                self._process.signalProcess(name)
        except ProcessExitedAlready:  # its end is on its way to us
            return


class BrokerProcesses:
    """All brokers as one server: they start at once and stop at once.

    :param root: the directory that holds the brokers' directories. The root is locked like a store. Without the lock, a
        second server would find some of its brokers' directories taken, and leave new ones behind for its other
        brokers.
    """

    def __init__(
        self, members: Sequence[BrokerMember], reactor: Any, name_servers: Callable[[], Sequence[Address]], root: Path
    ) -> None:
        self._processes = [BrokerProcess(member, reactor, name_servers) for member in members]
        self._root = root
        self._lock = StoreLock(FileLayer(), StorePaths(root))

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The address on which each broker listens."""
        return [process.address for process in self._processes if process.address is not None]

    @property
    def advertised(self) -> Sequence[Address | None]:
        """The other address that each broker's clients get, or None."""
        return [process.advertised for process in self._processes if process.address is not None]

    async def start(self) -> None:
        """Start all brokers, and return when clients may connect to every one.

        :raises GatewayError: a broker does not start, or another process serves the directory.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._lock.take()
        except OSError as error:
            raise StoreNotAccessible(self._root, error) from error
        starts: list[Deferred[None]] = [process.start() for process in self._processes]
        for _, failure in await DeferredList(starts, consumeErrors=True):
            if failure is not None:
                failure.raiseException()

    async def stop(self) -> None:
        """Stop all brokers, and return after every process has ended; cancel to kill the processes.

        :raises GatewayError: a broker reports that it could not stop cleanly, or was killed.
        """
        try:
            ends = await DeferredList([process.stop() for process in self._processes], consumeErrors=True)
        finally:
            self._lock.release()
        failed = [
            f"{process.member.name} ({f'exit code {code}' if ended else 'killed'})"
            for process, (ended, code) in zip(self._processes, ends, strict=True)
            if not ended or code
        ]
        if failed:
            raise GatewayError(f"brokers that did not stop as they should: {', '.join(failed)}")


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without variables that set settings: each broker gets all settings as arguments."""
    return {
        name: text
        for name, text in environment.items()
        if not name.startswith(ENVIRONMENT_PREFIX) and name != "NAMESRV_ADDR"
    }
