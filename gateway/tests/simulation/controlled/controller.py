"""The controller of a history, and the line of one member to it: questions, signs of life and notices may get lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from gateway.remoting.pending import CallFailed, CallTimeout
from gateway.settings import Address
from gateway.tests.replication.controlled.one_controller import OneController
from gateway.tests.simulation.machine import Machine
from gateway.tests.simulation.network import NAMES, Network, host_of
from gateway.tests.simulation.world import US_PER_S, World
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.headers.controller import RoleChangedRequest
from wire.headers.declare import Header, build_header

PORT = 9_878
ADDRESS = f"{host_of(NAMES)}:{PORT}"
TIMEOUT_S = 3
LOOKED_AFTER_US = US_PER_S
"""The time between two looks for members that gave no sign of life."""


class Beat(NamedTuple):
    """The last sign of life of a member."""

    line: ControllerLine
    until_us: int
    """When the member is taken to be dead."""


class SimulatedController(OneController):
    """The controller; it is where the name servers are, and elects any living member of the set.

    :param elected: called with the id of the new master.
    """

    def __init__(self, world: World, network: Network, elected: Callable[[int], None]) -> None:
        super().__init__()
        self.leader = ADDRESS
        self._world = world
        self.network = network
        self._elected = elected
        self._beats: dict[int, Beat] = {}
        self.silent_until_us = 0
        """The time until which it answers nothing."""
        world.later(LOOKED_AFTER_US, None, self._look)

    def choose(self, candidates: list[int]) -> int:
        return self._world.random.choice(candidates)

    def _elect(self) -> None:
        epoch = self.epoch
        super()._elect()
        if self.epoch != epoch and self.master is not None:
            self._world.tell(f"controller elects {self.master} in epoch {self.epoch}")
            self._elected(self.master)

    # -- who lives ----------------------------------------------------------------------------------------------

    def beat(self, line: ControllerLine, header: Any) -> None:
        """Take a sign of life."""
        until_us = self._world.now_us + 1_000 * header.heartbeat_timeout_mills
        self._beats[header.broker_id] = Beat(line, until_us)
        self.living[header.broker_id] = line.take_notice

    def closed(self, line: ControllerLine) -> None:
        """The connection of a member is closed."""
        for broker_id in [each for each, beat in self._beats.items() if beat.line is line]:
            self._lose(broker_id)

    def _lose(self, broker_id: int) -> None:
        del self._beats[broker_id]
        self._world.tell(f"controller loses {broker_id}")
        self.die(broker_id)

    def _look(self) -> None:
        now_us = self._world.now_us
        if now_us >= self.silent_until_us:
            for broker_id in [each for each, beat in self._beats.items() if beat.until_us < now_us]:
                self._lose(broker_id)
        self._world.later(LOOKED_AFTER_US, None, self._look)

    # -- people -------------------------------------------------------------------------------------------------

    def elect_another(self) -> None:
        """Elect another living member of the set in place of the master, as ``mqadmin electMaster`` does."""
        others = [each for each in self.set & set(self.living) if each != self.master]
        if self.master is not None and others:
            self.set, self.master = set(others), None
            self._elect()

    def restart(self) -> None:
        """Forget who lives: every member has to give a sign of life again; what was decided is on disk."""
        self._beats.clear()
        self.living.clear()


class ControllerLine:
    """The connections of one member to the controller, in place of its ``RemotingClient``."""

    def __init__(self, world: World, controller: SimulatedController, machine: Machine, member: Any) -> None:
        self._world = world
        self._controller = controller
        self._machine = machine
        self._member = member
        self.local = machine.host, 50_000
        self.remote = host_of(NAMES), PORT

    def startService(self) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing: connections are made when they are needed."""

    async def stopService(self) -> None:  # noqa: N802 (Twisted's name)
        """Close the connection."""
        self.closed_by_system()

    def closed_by_system(self) -> None:
        """The process has ended; its system closes the connection."""
        self._post(self._controller.closed, self)

    async def channel(self, address: Address) -> ControllerLine:
        """Return this line if the controller can be reached."""
        waiting = self._waiting(CallFailed(f"{address} cannot be reached"))
        self._post(self._back, waiting, None)
        await waiting
        return self

    async def call(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
        """Ask; the answer may get lost."""
        waiting = self._waiting(CallTimeout("no answer"))
        self._post(self._asked, waiting, RequestCode(code), header, body)
        answer: RemotingCommand = await waiting
        return answer

    def notify(self, _code: int, header: Header) -> bool:
        """Send a sign of life."""
        self._post(self._controller.beat, self, header)
        return True

    def take_notice(self, header: RoleChangedRequest, body: bytes) -> None:
        """Bring the notice that a master was elected, as a request."""
        self._controller.network.post(NAMES, self._machine.number, self._noticed, header, body)

    # -- the way there and back -----------------------------------------------------------------------------------

    def _waiting(self, failure: Exception) -> Deferred[Any]:
        waiting: Deferred[Any] = Deferred()

        def too_late() -> None:
            if not waiting.called:
                waiting.errback(failure)

        self._world.later(TIMEOUT_S * US_PER_S, self._member, too_late)
        return waiting

    def _post(self, function: Callable[..., None], *arguments: object) -> None:
        self._controller.network.post(self._machine.number, NAMES, self._arrived, function, arguments)

    def _arrived(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        wait_us = self._controller.silent_until_us - self._world.now_us
        if wait_us > 0:
            self._world.later(wait_us, None, self._arrived, function, arguments)
        else:
            function(*arguments)

    def _asked(self, waiting: Deferred[Any], code: RequestCode, header: Any, body: bytes) -> None:
        answered, answer_header, answer_body = self._controller.answer(code, header, body)
        fields = {} if answer_header is None else build_header(answer_header)
        self._back(waiting, RemotingCommand(code=answered, ext_fields=fields, body=answer_body))

    def _back(self, waiting: Deferred[Any], answer: RemotingCommand | None) -> None:
        self._controller.network.post(NAMES, self._machine.number, self._told, waiting, answer)

    def _told(self, waiting: Deferred[Any], answer: RemotingCommand | None) -> None:
        if self._member.is_alive and not waiting.called:
            self._world.carry_out(self._member, waiting.callback, answer)

    def _noticed(self, header: RoleChangedRequest, body: bytes) -> None:
        process = self._machine.process
        if process is not None and process.is_ready:
            code = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
            process.ask(code, header, body, on_answer=lambda _: None, remote=self.remote)
