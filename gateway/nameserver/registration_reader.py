"""Registrations of brokers, read one piece at a time.

A broker with ten thousand topics registers with megabytes, and a peer that is not a broker may send a frame full of
topics. Reading such a body takes seconds, and hundreds of bytes of memory for each of its bytes. For this reason only
one large registration is read at a time, in turns that leave time for other requests. The bodies that wait have a
common limit. Small registrations wait in a line of their own. In both lines hosts and brokers share the turns. Known
brokers do not wait for unknown brokers of their host.

The registrations of one broker are taken in the order of their arrival, because some brokers report only what changed.
An administrator's change waits until every earlier registration is taken, so that none of them undoes the change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.fair_line import FairLine
from gateway.nameserver.addresses import BrokerAddress
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.turns import T, Turns, Work, fail
from gateway.shares import Shares, counted_host
from wire.bodies.registration import RegisterBrokerBody, likely_bytes
from wire.codes import ResponseCode

MAX_WAITING_BYTES = 268_435_456
"""The most bytes of registrations that are read or wait to be read; each host gets a share.

All brokers register with a name server that starts: 100 brokers of 20,000 topics send 170 MB in all.
"""
REQUEST_BYTES = 4_096
"""Bytes that are counted for a waiting request besides its body."""
SMALL_BYTES = 262_144
"""The most inflated bytes of a body that is read beside the large ones: 2,500 topics, about 20 ms."""
MAX_LARGE = 2_000
"""The largest number of large registrations that are read or wait to be read."""
MAX_LARGE_PER_CHANNEL = 20
"""The largest number of large registrations of one connection that are read or wait.

A process with several brokers sends one registration for each of them.
"""


class _Reading(Generic[T]):
    """Work that waits for its turn, with the deferred that fires when the work ends."""

    __slots__ = ("cost", "done", "holder", "host", "work")

    def __init__(self, host: Hashable, holder: Hashable, work: Work[T], cost: int) -> None:
        self.host = host
        self.holder = holder
        self.work = work
        self.cost = cost
        self.done: Deferred[T] = Deferred()


class RegistrationReader:
    """A reader of registrations: one large and one small registration at a time.

    Only the reactor's thread uses this class.

    :param max_waiting_bytes: the most bytes of all requests that are read or wait.
    """

    def __init__(self, turns: Turns, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._turns = turns
        self._bytes: Shares[str] = Shares(max_waiting_bytes)
        self._large_of: Shares[Hashable] = Shares(MAX_LARGE, MAX_LARGE_PER_CHANNEL)
        self._small = _Reader(turns)
        self._large = _Reader(turns)
        self._behind: dict[BrokerAddress, deque[Deferred[None]]] = {}
        self._changes: deque[tuple[int, Deferred[None]]] = deque()
        self._open: dict[int, None] = {}
        """The numbers of the registrations that are not taken yet, in the order of arrival."""
        self._number = 0
        self._is_changing = False
        self._unread: dict[BrokerAddress, set[Request]] = {}

    async def read(
        self,
        request: Request,
        address: BrokerAddress,
        *,
        compressed: bool,
        take_in: Callable[[RegisterBrokerBody], Work[T]],
        is_known: bool = False,
    ) -> T:
        """Read and take in the registration of the broker at this address; at once if it is small and nothing waits.

        :param is_known: True if the broker is registered already.
        :raises BodyError: as ``RegisterBrokerBody.parse_in_steps``.
        :raises RequestRefused: SYSTEM_BUSY, too much waits already; SYSTEM_ERROR, the broker left meanwhile.
        """
        host, channel, body = counted_host(request.channel.remote[0]), request.channel, request.command.body
        cost = likely_bytes(body, compressed)
        is_large = cost > SMALL_BYTES
        held = self._take(host, body)
        if is_large and not self._large_of.take(channel):
            self._bytes.give_back(host, held)
            remark = self._large_of.refusal(channel, "large registrations of this connection that wait to be read")
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, remark)
        self._unread.setdefault(address, set()).add(request)
        self._number += 1
        number = self._number
        self._open[number] = None
        try:
            await self._turn_of(address)
            try:
                work = self._read(request, address, compressed, take_in)
                reading = _Reading((host, is_known), address, work, cost + REQUEST_BYTES)
                return await (self._large if is_large else self._small).read(reading)
            finally:
                self._let_next(address)
        finally:
            self._leave(request, address)
            self._bytes.give_back(host, held)
            if is_large:
                self._large_of.give_back(channel)
            del self._open[number]
            self._let_changes()

    def in_order(self, request: Request, change: Callable[[], Answer]) -> Answer | Awaitable[Answer]:
        """Make a change after all registrations that came before the change; at once if nothing waits.

        :raises RequestRefused: SYSTEM_BUSY, too much waits already.
        """
        return self._change_later(request, change) if self._open or self._changes else change()

    def forget(self, address: BrokerAddress) -> None:
        """Refuse the unread registrations of this broker, because the broker left."""
        self._unread.pop(address, None)

    def _take(self, host: str, body: bytes) -> int:
        """Count the bytes of a request that waits, and return their number."""
        size = len(body) + REQUEST_BYTES
        if not self._bytes.take(host, size):
            remark = self._bytes.refusal(host, f"bytes of registrations from {host} that wait to be read")
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, remark)
        return size

    async def _turn_of(self, address: BrokerAddress) -> None:
        """Wait until the earlier registrations of this broker are taken."""
        behind = self._behind.get(address)
        if behind is None:
            self._behind[address] = deque()
        else:
            behind.append(turn := Deferred[None]())
            await turn

    def _let_next(self, address: BrokerAddress) -> None:
        behind = self._behind[address]
        if behind:
            behind.popleft().callback(None)
        else:
            del self._behind[address]

    async def _change_later(self, request: Request, change: Callable[[], Answer]) -> Answer:
        host = counted_host(request.channel.remote[0])
        held = self._take(host, request.command.body)
        turn: Deferred[None] = Deferred()
        self._changes.append((self._number, turn))
        try:
            await turn
            return change()
        finally:
            self._bytes.give_back(host, held)

    def _let_changes(self) -> None:
        """Start the changes that may be made now, each in another turn."""
        if self._next_change_may_be_made and not self._is_changing:
            self._turns.begin(self._one_change_after_the_other())

    @property
    def _next_change_may_be_made(self) -> bool:
        return bool(self._changes) and next(iter(self._open), self._number + 1) > self._changes[0][0]

    def _one_change_after_the_other(self) -> Work[None]:
        self._is_changing = True
        while self._next_change_may_be_made:
            yield  # what was taken before is answered first
            _, turn = self._changes.popleft()
            turn.callback(None)
        self._is_changing = False

    def _read(
        self,
        request: Request,
        address: BrokerAddress,
        compressed: bool,
        take_in: Callable[[RegisterBrokerBody], Work[T]],
    ) -> Work[T]:
        self._check_there(request, address)
        told = yield from RegisterBrokerBody.parse_in_steps(request.command.body, compressed, request.command.version)
        self._check_there(request, address)
        return (yield from take_in(told))

    def _check_there(self, request: Request, address: BrokerAddress) -> None:
        if request.channel.closed or request not in self._unread.get(address, ()):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the broker left while its registration was read")

    def _leave(self, request: Request, address: BrokerAddress) -> None:
        unread = self._unread.get(address)
        if unread is not None:
            unread.discard(request)
            if not unread:
                del self._unread[address]


class _Reader:
    """A runner of works: one after the other, in turns, in the order of a ``FairLine``."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: FairLine[_Reading[Any]] = FairLine()
        self._is_busy = False

    def read(self, reading: _Reading[T]) -> Deferred[T]:
        """Do this work when its turn comes; the first piece now if nothing waits."""
        self._waiting.put(reading.host, reading.holder, reading, reading.cost)
        if not self._is_busy:
            self._turns.begin(self._one_after_the_other())
        return reading.done

    def _one_after_the_other(self) -> Work[None]:
        self._is_busy = True
        while self._waiting:
            reading = self._waiting.take()
            try:
                value = yield from reading.work
            except Exception as error:  # noqa: BLE001 - whoever waits for the work gets its exception
                fail(reading.done, error)
            else:
                reading.done.callback(value)
            if self._waiting:
                yield
        self._is_busy = False
