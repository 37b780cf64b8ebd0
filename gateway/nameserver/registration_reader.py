"""Registrations of brokers, read a piece at a time.

A broker with ten thousand topics registers with megabytes, and a peer that is no broker may send a frame full of them.
Reading one takes seconds in all, and hundreds of bytes of memory for each of its bytes. So one is read at a time, in
turns that leave other requests their time, and the bodies that wait for it have a limit together.
"""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import DeferredLock

from gateway.errors import RequestRefused
from gateway.nameserver.addresses import BrokerAddress
from gateway.remoting.turns import Turns
from wire.bodies.registration import RegisterBrokerBody
from wire.codes import ResponseCode

MAX_WAITING_BYTES = 67_108_864
"""Bytes of the registrations that are read or wait to be read: 64 MiB are those of 20 brokers with 20,000 topics."""


class RegistrationReader:
    """Reads registrations one after the other. Only the reactor's thread uses this class.

    :param max_waiting_bytes: of all registrations that are read or wait.
    """

    def __init__(self, turns: Turns, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._turns = turns
        self._max_waiting_bytes = max_waiting_bytes
        self._one_at_a_time = DeferredLock()
        self._waiting_bytes = 0
        self._newest: dict[BrokerAddress, object] = {}

    async def read(self, address: BrokerAddress, raw: bytes, *, compressed: bool, version: int) -> RegisterBrokerBody:
        """What a broker at this address registers with; when nothing waits, a small one is read at once.

        :raises BodyError: as ``RegisterBrokerBody.parse_in_steps``.
        :raises RequestRefused: SYSTEM_BUSY, too much waits already; SYSTEM_ERROR, the broker registered again or went
            meanwhile.
        """
        if self._waiting_bytes + len(raw) > self._max_waiting_bytes:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"registrations of {self._waiting_bytes} bytes wait to be read, the limit is {self._max_waiting_bytes}",
            )
        self._waiting_bytes += len(raw)
        self._newest[address] = mark = object()
        try:
            work = RegisterBrokerBody.parse_in_steps(raw, compressed, version)
            told: RegisterBrokerBody = await cast(Any, self._one_at_a_time.run(self._turns.begin, work))
            if self._newest.get(address) is not mark:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the broker registered again or went meanwhile")
        finally:
            self._waiting_bytes -= len(raw)
            if self._newest.get(address) is mark:
                del self._newest[address]
        return told

    def forget(self, address: BrokerAddress) -> None:
        """Refuse what is still being read of this broker: it went."""
        self._newest.pop(address, None)
