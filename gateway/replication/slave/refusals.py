"""The requests that a slave refuses: everything that changes what it has from its master.

A slave that accepted such a request would lose the change with the next copy of the table, or hand out locks that the
master knows nothing of. Upstream refuses sends and outcomes of transactions only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from gateway.errors import RequestRefused
from gateway.remoting.declared import OnSlave
from gateway.remoting.dispatch import CarryOut, Request
from wire.codes import RequestCode, ResponseCode

OUTCOMES = frozenset({RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE})
"""The requests that are refused with SLAVE_NOT_AVAILABLE, as upstream does; all others with SYSTEM_BUSY."""


class SlaveRefusals:
    """The refusals of a slave.

    :param is_readable: whether consumers may read here (``slaveReadEnable``).
    :param master: returns the address of the master, None as long as nobody named it.
    """

    def __init__(self, is_readable: bool, master: Callable[[], str | None]) -> None:
        self._is_readable = is_readable
        self._master = master

    def refusal_of(self, code: RequestCode, slave: OnSlave) -> CarryOut | None:
        """Return a function that refuses a request; None if a slave answers the request."""
        if slave is OnSlave.SERVED or (slave is OnSlave.READ and self._is_readable):
            return None
        reason = "answers no pulls, slaveReadEnable is false" if slave is OnSlave.READ else "takes no changes"
        answer = ResponseCode.SLAVE_NOT_AVAILABLE if code in OUTCOMES else ResponseCode.SYSTEM_BUSY
        return partial(self._refuse, answer, reason)

    def _refuse(self, code: ResponseCode, reason: str, _request: Request) -> NoReturn:
        master = self._master()
        place = "its master is not known yet" if master is None else f"its master is {master}"
        raise RequestRefused(code, f"this broker is a slave and {reason}: {place}")
