"""Registrations of brokers, read a piece at a time.

A broker with ten thousand topics registers with megabytes, and a peer that is no broker may send a frame full of them.
Reading one takes seconds in all, and hundreds of bytes of memory for each of its bytes. So one is read at a time, in
turns that leave other requests their time, and the bodies that wait for it have a limit together.

They are taken in the order in which they came, also several of one broker: some brokers tell of what changed only. What
an administrator changes waits in the same line, so that no registration that came before undoes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.nameserver.addresses import BrokerAddress
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.turns import T, Turns, Work, fail
from gateway.shares import Shares
from wire.bodies.registration import RegisterBrokerBody
from wire.codes import ResponseCode

MAX_WAITING_BYTES = 268_435_456
"""Bytes of the registrations that are read or wait to be read, in shares of a host.

A name server that starts hears of all brokers at once: 100 of them with 20,000 topics each are 170 MB.
"""
REQUEST_BYTES = 4_096
"""Bytes that a request that waits is counted with besides its body."""


class RegistrationReader:
    """Reads registrations one after the other. Only the reactor's thread uses this class.

    :param max_waiting_bytes: of all requests that are read or wait.
    """

    def __init__(self, turns: Turns, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._turns = turns
        self._bytes: Shares[str] = Shares(max_waiting_bytes)
        self._waiting: deque[tuple[Work[Any], Deferred[Any]]] = deque()
        self._is_busy = False
        self._unread: dict[BrokerAddress, set[Request]] = {}

    async def read(
        self,
        request: Request,
        address: BrokerAddress,
        *,
        compressed: bool,
        take_in: Callable[[RegisterBrokerBody], Work[T]],
    ) -> T:
        """Read and take in what a broker at this address registers with; at once when it is small and nothing waits.

        :raises BodyError: as ``RegisterBrokerBody.parse_in_steps``.
        :raises RequestRefused: SYSTEM_BUSY, too much waits already; SYSTEM_ERROR, the broker went meanwhile.
        """
        self._unread.setdefault(address, set()).add(request)
        try:
            return await self._in_line(request, self._read(request, address, compressed, take_in))
        finally:
            self._leave(request, address)

    def in_order(self, request: Request, change: Callable[[], Answer]) -> Answer | Awaitable[Answer]:
        """Make a change after all registrations that came before it; at once when nothing waits.

        :raises RequestRefused: SYSTEM_BUSY, too much waits already.
        """
        return self._in_line(request, _once(change)) if self._is_busy else change()

    def forget(self, address: BrokerAddress) -> None:
        """Refuse what this broker registered with and is not read yet: it went."""
        self._unread.pop(address, None)

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

    async def _in_line(self, request: Request, work: Work[T]) -> T:
        host, size = request.channel.remote[0], len(request.command.body) + REQUEST_BYTES
        if not self._bytes.take(host, size):
            remark = self._bytes.refusal(host, f"bytes of registrations from {host} that wait to be read")
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, remark)
        done: Deferred[T] = Deferred()
        self._waiting.append((work, done))
        try:
            if not self._is_busy:
                self._turns.begin(self._one_after_the_other())
            return await done
        finally:
            self._bytes.give_back(host, size)

    def _one_after_the_other(self) -> Work[None]:
        self._is_busy = True
        while self._waiting:
            work, done = self._waiting.popleft()
            try:
                value = yield from work
            except Exception as error:  # noqa: BLE001 - whoever waits for the work gets its exception
                fail(done, error)
            else:
                done.callback(value)
            if self._waiting:
                yield
        self._is_busy = False


def _once(change: Callable[[], Answer]) -> Work[Answer]:
    yield from ()
    return change()
