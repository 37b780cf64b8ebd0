"""The broker's door: requests pass through the door to their handlers, and the door closes before the store does.

``RequestAdmission`` is the one place that refuses a request because its sender lacks the declared right.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from gateway.errors import RequestRefused
from gateway.remoting.channel import Channel
from gateway.remoting.declared import Right, Who
from gateway.remoting.dispatch import Admit, Dispatch, Request
from gateway.settings.addresses import is_loopback
from gateway.settings.transaction import BrokerTransactionSettings, OperatorAccess
from gateway.telemetry.logs import EventLog
from wire.codes import ResponseCode
from wire.command import RemotingCommand

log = EventLog("broker")


class Door:
    """Lets requests in until the broker stops; later requests are refused, so that clients try again elsewhere."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._open = True

    def close(self) -> None:
        """Refuse requests from now on; answers to the broker's own questions still come in."""
        self._open = False

    def commands(self, channel: Channel, commands: list[RemotingCommand]) -> None:
        """Carry out or refuse all commands of one read."""
        if self._open:
            self._dispatch.commands(channel, commands)
            return
        self._dispatch.commands(channel, [command for command in commands if command.is_response])
        for command in commands:
            if not (command.is_response or command.is_oneway):
                channel.send(command.response(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping"))


class RequestAdmission:
    """The admission rule of one broker.

    Without access control everybody has every right but one. The exception is the right to look at transactions and to
    settle them: ``gateway.operatorAccess`` says from which hosts operators may do so.

    :param admit: judges every request by its account; None without access control.
    """

    def __init__(self, settings: BrokerTransactionSettings, admit: Admit | None = None) -> None:
        self._access = settings.operator_access
        self._admit_account = admit

    def admit(self, request: Request, right: Right) -> None:
        """Let a request through; every request passes here before its header is read.

        :raises RequestRefused: the sender lacks the right.
        """
        if self._admit_account is not None:
            self._admit_account(request, right)
        if right.who is Who.OPERATOR:
            self._admit_operator(request)

    def _admit_operator(self, request: Request) -> None:
        host = request.channel.remote[0]
        if self._access is OperatorAccess.EVERYWHERE or (self._access is OperatorAccess.LOOPBACK and is_loopback(host)):
            return
        log.warning("operator refused", remote=request.channel.remote_text, access=self._access.value)
        advice = "set gateway.operatorAccess=LOOPBACK or EVERYWHERE"
        if self._access is OperatorAccess.LOOPBACK:
            advice = (
                "run the command on the broker's machine, against a loopback address, "
                "or set gateway.operatorAccess=EVERYWHERE"
            )
        raise RequestRefused(
            ResponseCode.NO_PERMISSION,
            f"gateway.operatorAccess={self._access.value} does not admit {host}: {advice}",
        )
