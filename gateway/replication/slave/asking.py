"""The questions of a slave to its master, and the question whether the broker at the address is a master at all."""

from __future__ import annotations

from gateway.errors import GatewayError
from gateway.replication.surroundings import Call
from gateway.settings import Address
from wire.bodies.tools.statistics import ReplicationState
from wire.codes import RequestCode, ResponseCode, request_code_name, response_code_name
from wire.command import RemotingCommand
from wire.headers.declare import Header


async def ask(
    call: Call, master: Address, code: RequestCode, header: Header | None = None, *, unless: int = ResponseCode.SUCCESS
) -> RemotingCommand:
    """Return the answer of the master.

    :raises GatewayError: the master does not answer, or refuses the request with another code than ``unless``.
    """
    answer = await call(master, code, header)
    if answer.code not in (ResponseCode.SUCCESS, unless):
        refusal = f"{response_code_name(answer.code)}: {answer.remark}"
        raise GatewayError(f"the master refuses {request_code_name(code)} with {refusal}")
    return answer


async def check_role(master: Address, call: Call) -> None:
    """Ask whether a broker is a master: the old master may have come back as a slave, at the address that is known.

    :raises GatewayError: the broker is a slave, or does not answer.
    """
    answer = await ask(call, master, RequestCode.GET_BROKER_HA_STATUS, unless=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    if answer.code == ResponseCode.SUCCESS and not ReplicationState.parse(answer.body).master:
        raise GatewayError("the broker there is a slave itself, what it has is a copy")
