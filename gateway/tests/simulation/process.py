"""One life of a whole broker on a machine: parts, requests, role and jobs; threads run when the seed says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from gateway.broker.door import Door, RequestAdmission
from gateway.broker.jobs import jobs
from gateway.broker.parts import BrokerParts, Surroundings
from gateway.broker.request_loader import load_requests
from gateway.broker.takeover import CopyMark
from gateway.broker.upkeep.upkeep import Job, Upkeep
from gateway.errors import GatewayError
from gateway.in_thread import result_of
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.pending import CallFailed
from gateway.replication.controlled.place import PlaceInGroup
from gateway.settings import Address, Settings
from gateway.tests.simulation.machine import ROUNDS, Machine, durable_end_of
from gateway.tests.simulation.names import HA_PORT, LISTEN_PORT, NameServers, Registration
from gateway.tests.simulation.world import US_PER_S, Owner, ProcessEnded, SimulatedReactor, World
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.headers.declare import Header, build_header
from wire.message.message_id import pack_host

CALL_TIMEOUT_S = 3
OnAnswer = Callable[[RemotingCommand], None]


class Asking:
    """The channel of one request: what is answered goes to a function."""

    closed = False
    must_wait = False
    active = True
    id = 1

    def __init__(self, process: Process, on_answer: OnAnswer, remote: tuple[str, int]) -> None:
        self._process = process
        self._on_answer = on_answer
        self.remote = remote
        self.local = process.machine.host, LISTEN_PORT
        self.remote_host = pack_host(*self.remote)
        self.local_host = pack_host(*self.local)
        self.remote_text = f"{remote[0]}:{remote[1]}"

    def send(self, response: RemotingCommand) -> None:
        """Take an answer."""
        if self._process.is_alive:
            self._on_answer(response)

    def send_frame(self, frame: bytes) -> None:
        """Take an answer as bytes."""
        for command in Connection().receive_data(bytes(frame)):
            self.send(command)

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Take an answer as bytes."""
        self.send_frame(b"".join(parts))

    def on_close(self, callback: object) -> None:
        """Forget it: it never closes."""

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Any:
        """Call a function later."""
        return self._process.reactor.callLater(delay_s, function)


class ProcessOfMachine(Owner, Protocol):
    """A process, as its threads see it."""

    machine: Machine


class Threads:
    """The log thread and the pool of a process: works end when the seed says so, those of the log in order."""

    def __init__(self, world: World, process: ProcessOfMachine) -> None:
        self._world = world
        self._process = process
        self._log: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def _work_us(self) -> int:
        random, slow_us = self._world.random, self._process.machine.slow_us
        if slow_us and random.random() < 0.3:
            return random.randrange(slow_us)
        return 20 + random.randrange(3_000)

    def in_pool(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Implement ``InThread``."""
        self._world.later(self._work_us(), self._process, self._pool_work, work, done)

    def _pool_work(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        result = result_of(work)
        self._world.later(self._world.random.randrange(300), self._process, done, result)

    def in_log_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Implement ``InThread``; in order."""
        self._log.append((work, done))
        if len(self._log) == 1:
            self._world.later(self._work_us(), self._process, self._log_work)

    def _log_work(self) -> None:
        work, done = self._log[0]
        result = result_of(work)
        self._log.popleft()
        if self._log:
            self._world.later(self._work_us(), self._process, self._log_work)
        self._world.later(self._world.random.randrange(300), self._process, done, result)


class Process:
    """A running broker.

    :param slowness: how many times longer than usual the time between two rounds through the master's tables is.
    :param group: the place in a controller's group, if a controller decides.
    """

    def __init__(
        self,
        world: World,
        machine: Machine,
        names: NameServers,
        settings: Settings,
        others: list[Machine],
        slowness: int,
        group: PlaceInGroup | None = None,
    ) -> None:
        self.world = world
        self.machine = machine
        self.broker_id = settings.broker_id
        self.settings = settings
        self.is_alive = True
        self.is_ready = False
        self.is_stopping = False
        self.takes_over = False
        """True if it was a slave before, and is the master now."""
        self.on_end: Callable[[Process, bool], None] = _nobody
        """Called when it has ended, with True after an orderly stop."""
        self.stopped: Deferred[None] | None = None
        self._names = names
        self._others = others
        self._opaque = 0
        machine.process = machine.disk.process = self
        machine.lives += 1
        self.reactor = SimulatedReactor(world, self, names.network)
        self.threads = threads = Threads(world, self)
        self._dispatch = Dispatch(
            RequestAdmission(settings).admit, lambda code, slave: self.parts.refusal_of(code, slave)
        )
        self._door = Door(self._dispatch)
        self.parts = BrokerParts(
            settings,
            Surroundings(
                reactor=self.reactor,
                clock=machine.clock_ms,
                soon=self._soon,
                in_log_thread=threads.in_log_thread,
                in_thread=threads.in_pool,
                listen_port=lambda: LISTEN_PORT,
                call=self._call,
                files=machine.disk,
                group=group,
            ),
        )
        self.registration = Registration(names, self)
        used = [_slowed(job, slowness) for job in jobs(self.parts) if job.name in machine.jobs]
        self._upkeep = Upkeep(cast(Any, self.reactor), used)

    @property
    def paused_until_us(self) -> int:
        """The time at which the machine goes on."""
        return self.machine.paused_until_us

    @property
    def is_slave(self) -> bool:
        """Return whether this broker copies another."""
        return self.parts.slave is not None

    def start(self) -> None:
        """Start, in the order of the service.

        :raises GatewayError: it cannot start.
        """
        copy = CopyMark(self.settings.store_path_root_dir, self.machine.disk)
        self.takes_over = copy.is_set and not self.is_slave
        self.parts.open()
        if self.parts.master is not None:
            self.parts.master.serve(self.parts.store, self.registration.members)
        if self.parts.slave is not None:
            self.parts.slave.serve(self.parts.store, self.parts, self.registration)
        load_requests(self.parts, self._dispatch)
        self.parts.start()
        if self.parts.master is not None:
            self.parts.master.start(self.machine.host, HA_PORT)
        self._upkeep.start()
        self.registration.begin()
        self.registration.start()
        if self.parts.slave is not None:
            self.parts.slave.start()
        self.is_ready = True

    def stop(self) -> None:
        """Begin an orderly stop; ``is_alive`` is false when it has ended."""
        if not self.is_stopping:
            self.is_stopping = True
            self._names.forget(self)
            self.stopped = ensureDeferred(self._stop())
            self.stopped.addErrback(self._not_stopped)

    async def _stop(self) -> None:
        if self.parts.slave is not None:
            self.parts.slave.stop()
        self._door.close()
        await self._upkeep.stop()
        await self.parts.stop()
        if self.parts.master is not None:
            await self.parts.master.stop()
        try:
            self.parts.close()
        except GatewayError:
            self.machine.had_errors = True
        if self.is_alive:
            self.end_now(is_orderly=True)

    def _not_stopped(self, failure: Failure) -> None:
        """Take note that the process was killed while it stopped; nothing else may end a stop."""
        if failure.check(ProcessEnded) is None:  # type: ignore[no-untyped-call]
            self.world.break_promise(f"machine {self.machine.number} does not stop: {failure.value!r}")

    def _soon(self, function: Callable[[], None]) -> None:
        self.world.later(0, self, function)

    def end_now(self, *, says_so: bool = True, is_orderly: bool = False) -> None:
        """End the process, whatever it was doing.

        :param says_so: False if the power is gone, so that nobody is told.
        """
        machine = self.machine
        self.is_alive = False
        if self.is_ready:
            machine.known_end = durable_end_of(self)
        machine.process = None
        self.on_end(self, is_orderly)
        machine.had_errors = False
        machine.pauses_us = 0
        machine.settle_disk()
        self._names.network.ended(self, says_so=says_so)
        if says_so:
            self._names.forget(self)
        self.world.tell(f"{machine.number} ended, durable to {machine.known_end}")

    # -- requests -----------------------------------------------------------------------------------------------

    def ask(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        on_answer: OnAnswer,
        remote: tuple[str, int] = ("10.0.1.1", 50_000),
    ) -> None:
        """Let a request arrive."""
        self._opaque += 1
        fields = None if header is None else build_header(header)
        command = RemotingCommand(int(code), opaque=self._opaque, ext_fields=fields, body=body)
        channel: Any = Asking(self, on_answer, remote)
        self.world.later(0, self, self._door.commands, channel, [command])

    def _call(self, address: Address, code: int, header: Header | None = None) -> Awaitable[RemotingCommand]:
        """Call another broker."""
        waiting: Deferred[RemotingCommand] = Deferred()
        network, own = self._names.network, self.machine.number
        target = next(machine for machine in self._others if machine.host == address.host)

        def failed(reason: str) -> None:
            if not waiting.called:
                waiting.errback(CallFailed(f"{address}: {reason}"))

        def back(answer: RemotingCommand) -> None:
            if self.is_alive and not waiting.called:
                self.world.carry_out(self, waiting.callback, answer)

        def refused() -> None:
            if self.is_alive:
                self.world.carry_out(self, failed, "connection refused")

        def arrived() -> None:
            process = target.process
            if process is None:
                network.post(target.number, own, refused)
            else:
                process.ask(
                    code,
                    header,
                    on_answer=lambda answer: network.post(target.number, own, back, answer),
                    remote=(self.machine.host, 50_001),
                )

        network.post(own, target.number, arrived)
        self.world.later(CALL_TIMEOUT_S * US_PER_S, self, failed, "no answer")
        return waiting


def _slowed(job: Job, slowness: int) -> Job:
    """Return a job that copies tables less often: it takes most of the time of a history."""
    return replace(job, interval_ms=job.interval_ms * slowness) if job.name == ROUNDS else job


def _nobody(_process: Process, _is_orderly: bool) -> None:
    """Do nothing."""
