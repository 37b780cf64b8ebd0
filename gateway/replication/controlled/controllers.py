"""The calls of a member to the controllers: questions become requests, and answers become events of the machine."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from twisted.internet.defer import DeferredList, ensureDeferred

from gateway.clock import Milliseconds
from gateway.remoting.channel import Channel
from gateway.remoting.pending import CallFailed
from gateway.replication.controlled.machine import (
    GroupTold,
    GroupView,
    IdOffered,
    IdRefused,
    IdTaken,
    LeaderNamed,
    MemberEvent,
    MemberState,
    NotAnswered,
    NotKnown,
    Question,
)
from gateway.replication.master.verdicts import plain_host
from gateway.settings import Address
from gateway.settings.addresses import parse_address
from gateway.telemetry.logs import EventLog
from wire.bodies.controller import MAX_MEMBERS, SyncStateSet
from wire.codes import RequestCode, ResponseCode, request_code_name, response_code_name
from wire.command import RemotingCommand
from wire.errors import BodyError, FieldError, RemoteError
from wire.headers.controller import (
    AlterSyncStateSetRequest,
    AlterSyncStateSetResponse,
    ApplyBrokerIdRequest,
    ControllerMetadataResponse,
    ElectMasterRequest,
    ElectMasterResponse,
    NextBrokerIdRequest,
    NextBrokerIdResponse,
    RegisterToControllerRequest,
    RegisterToControllerResponse,
    ReplicaInfoRequest,
    ReplicaInfoResponse,
    RoleChangedRequest,
)
from wire.headers.declare import Header, parse_header
from wire.headers.name_server import BrokerHeartbeatRequest

log = EventLog("controller")
T = TypeVar("T")
_NUMBER = re.compile(r"[0-9]+")

NO_MASTER = frozenset({ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED})
FORGOTTEN = frozenset(
    {ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED}
)
NOBODY = GroupView(None, "", 0)
MAX_ADDRESS_CHARACTERS = 261
"""The length of an address in an answer of a controller: a name of 255 characters, and a port."""
_MAX_EPOCH = 2**31 - 1
_MAX_ID = 2**63 - 1


class ControllerClient(Protocol):
    """The connections to controllers; ``RemotingClient`` has them."""

    async def channel(self, address: Address) -> Channel:
        """Return the open channel to an address.

        :raises CallFailed: the connection cannot be made.
        """


class AskedSet(NamedTuple):
    """The set that a master asks for: its members, and the epochs of the master and of the set before."""

    members: frozenset[int]
    master_epoch: int
    set_epoch: int


class Controllers:
    """The controllers of a group.

    :param addresses: all of them.
    :param own_address: returns the address of this broker, as a peer gets it that we reach from one of our addresses.
    """

    def __init__(
        self,
        client: ControllerClient,
        addresses: Sequence[Address],
        clock_ms: Milliseconds,
        own_address: Callable[[str], str],
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._clock_ms = clock_ms
        self._own_address = own_address
        self._last_fault = ""
        self._hosts: dict[Address, str] = {}

    def is_host(self, host: str) -> bool:
        """Return whether a controller was reached at a host, or the settings name it."""
        known = (*self._hosts.values(), *(address.host for address in self._addresses))
        return plain_host(host) in map(plain_host, known)

    async def ask(self, question: Question, state: MemberState) -> MemberEvent:
        """Ask the leader, or any controller who leads; return what the answer means."""
        if question is Question.LEADER:
            return await self._find_leader()
        assert state.leader is not None, "found before anything else is asked"
        try:
            leader = parse_address(state.leader)
            channel = await self._client.channel(leader)
            code, header = self._request(question, state, self._own_address(channel.local[0]))
            answer = await channel.call(code, header)
            return self._event(question, answer, channel)
        except (CallFailed, RemoteError, ValueError) as error:
            self._tell_fault(f"{state.leader}: {error}")
            return NotAnswered()

    async def alter(self, state: MemberState, asked: AskedSet) -> tuple[frozenset[int], int] | None:
        """Ask for another sync state set (1001); return the set and its epoch if the leader took it, otherwise None."""
        if state.leader is None or state.broker_id is None:
            return None
        header = AlterSyncStateSetRequest(
            broker_name=state.broker_name,
            master_broker_id=state.broker_id,
            master_epoch=asked.master_epoch,
            invoke_time=self._clock_ms(),
        )
        body = SyncStateSet(sorted(asked.members), asked.set_epoch)
        try:
            channel = await self._client.channel(parse_address(state.leader))
            answer = await channel.call(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body.build())
            if answer.code != ResponseCode.SUCCESS:
                self._tell_fault(_refusal(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, answer))
                return None
            changed = parse_header(AlterSyncStateSetResponse, answer.ext_fields)
            set_epoch = changed.new_sync_state_set_epoch
            _check("the epoch of the changed sync state set", set_epoch, asked.set_epoch + 1, _MAX_EPOCH)
            return asked.members, set_epoch
        except (CallFailed, RemoteError, ValueError) as error:
            self._tell_fault(f"{state.leader}: {error}")
            return None

    async def beat(self, make: Callable[[str], BrokerHeartbeatRequest]) -> None:
        """Send a sign of life to every controller that can be reached; ``make`` gets the address of this broker."""

        async def to(address: Address) -> None:
            try:
                channel = await self._client.channel(address)
            except CallFailed:
                return
            self._hosts[address] = channel.remote[0]
            channel.notify(RequestCode.BROKER_HEARTBEAT, make(self._own_address(channel.local[0])))

        await _all(to(address) for address in self._addresses)

    # -- questions ----------------------------------------------------------------------------------------------

    async def _find_leader(self) -> MemberEvent:
        """Ask every controller at once; the first one in the order of the settings that names a leader is believed."""
        faults: list[str] = []

        async def named(address: Address) -> str | None:
            try:
                channel = await self._client.channel(address)
                answer = await channel.call(RequestCode.CONTROLLER_GET_METADATA_INFO)
                found = parse_header(ControllerMetadataResponse, answer.ext_fields).controller_leader_address
                if answer.code != ResponseCode.SUCCESS or not found:
                    faults.append(f"{address}: no leader is known there")
                    return None
                return _address("controllerLeaderAddress", found)
            except (CallFailed, RemoteError, ValueError) as error:
                faults.append(f"{address}: {error}")
                return None

        leaders = [leader for leader in await _all(named(address) for address in self._addresses) if leader]
        if leaders:
            return LeaderNamed(leaders[0])
        self._tell_fault("; ".join(faults))
        return NotAnswered()

    def _request(self, question: Question, state: MemberState, own: str) -> tuple[RequestCode, Header]:
        names = {"cluster_name": state.cluster, "broker_name": state.broker_name}
        match question:
            case Question.NEXT_ID:
                return RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, NextBrokerIdRequest(**names)
            case Question.APPLY_ID:
                assert state.applied is not None, "an id was offered"
                return RequestCode.CONTROLLER_APPLY_BROKER_ID, ApplyBrokerIdRequest(
                    **names,
                    applied_broker_id=state.applied.identity.broker_id,
                    register_check_code=state.applied.check_code,
                )
            case Question.GROUP:
                return RequestCode.CONTROLLER_GET_REPLICA_INFO, ReplicaInfoRequest(broker_name=state.broker_name)
            case _:
                assert state.broker_id is not None, "taken before"
                if question is Question.ELECT:
                    return RequestCode.CONTROLLER_ELECT_MASTER, ElectMasterRequest(
                        cluster_name=state.cluster,
                        broker_name=state.broker_name,
                        broker_id=state.broker_id,
                        invoke_time=self._clock_ms(),
                    )
                return RequestCode.CONTROLLER_REGISTER_BROKER, RegisterToControllerRequest(
                    **names, broker_id=state.broker_id, broker_address=own, invoke_time=self._clock_ms()
                )

    # -- answers ------------------------------------------------------------------------------------------------

    def _event(self, question: Question, answer: RemotingCommand, channel: Channel) -> MemberEvent:
        """Return what an answer of the leader means."""
        still_lives = question is Question.ELECT and answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        if answer.code != ResponseCode.SUCCESS and not still_lives:
            return self._refused(question, answer)
        event = self._understood(question, answer, channel)
        self._last_fault = ""
        return event

    def _understood(self, question: Question, answer: RemotingCommand, channel: Channel) -> MemberEvent:
        """Return what an answer that is no refusal means.

        :raises RemoteError: it has a value that no controller gives.
        """
        match question:
            case Question.NEXT_ID:
                offered = parse_header(NextBrokerIdResponse, answer.ext_fields).next_broker_id
                if offered is None or offered < 1:
                    return NotAnswered(is_lost=False)
                return IdOffered(offered, f"{self._own_address(channel.local[0])};{self._clock_ms()}")
            case Question.APPLY_ID:
                return IdTaken()
            case Question.ELECT:
                return GroupTold(view_of(parse_header(ElectMasterResponse, answer.ext_fields), answer.body))
            case Question.REGISTER:
                return GroupTold(view_of(parse_header(RegisterToControllerResponse, answer.ext_fields), answer.body))
            case _:
                return GroupTold(view_of(parse_header(ReplicaInfoResponse, answer.ext_fields), answer.body))

    def _refused(self, question: Question, answer: RemotingCommand) -> MemberEvent:
        """Return what a refusal means."""
        code = answer.code
        if question is Question.APPLY_ID and code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
            return IdRefused()
        self._tell_fault(_refusal(question.name, answer))
        if code in FORGOTTEN:
            return NotKnown()
        if question is Question.ELECT and code in NO_MASTER:
            return GroupTold(NOBODY)
        return NotAnswered(is_lost=code == ResponseCode.CONTROLLER_NOT_LEADER)

    def _tell_fault(self, fault: str) -> None:
        """Log each kind of fault once in a row."""
        kind = _NUMBER.sub("", fault)
        if kind != self._last_fault:
            self._last_fault = kind
            log.warning("no use of a controller", reason=fault)


def view_of(
    header: ElectMasterResponse | RegisterToControllerResponse | ReplicaInfoResponse | RoleChangedRequest, body: bytes
) -> GroupView:
    """Return the group as an answer or a notice shows it.

    :raises RemoteError: the body is no set or names too many members, or a value is one that no controller gives.
    """
    if header.master_broker_id is None or not header.master_address or header.master_epoch is None:
        return NOBODY
    told = SyncStateSet.parse(body) if body else SyncStateSet()
    if len(told.sync_state_set) > MAX_MEMBERS:
        raise BodyError(f"the sync state set has {len(told.sync_state_set)} members, the limit is {MAX_MEMBERS}")
    own_epoch = None if isinstance(header, ReplicaInfoResponse) else header.sync_state_set_epoch
    set_epoch = told.sync_state_set_epoch if own_epoch is None else own_epoch
    _check("the master's id", header.master_broker_id, 1, _MAX_ID)
    _check("the master's epoch", header.master_epoch, 0, _MAX_EPOCH)
    _check("the epoch of the sync state set", set_epoch, 0, _MAX_EPOCH)
    for broker_id in told.sync_state_set:
        _check("a member of the sync state set", broker_id, 1, _MAX_ID)
    address = _address("masterAddress", header.master_address)
    return GroupView(header.master_broker_id, address, header.master_epoch, frozenset(told.sync_state_set), set_epoch)


def _check(what: str, value: int, lowest: int, highest: int) -> None:
    """Refuse a number that no controller gives.

    :raises BodyError: it is out of its range.
    """
    if not lowest <= value <= highest:
        shown = str(value) if value.bit_length() < 65 else f"a number of {value.bit_length()} bits"
        raise BodyError(f"{what} is {shown}, expected {lowest} to {highest}")


def _address(field: str, text: str) -> str:
    """Return an address of a controller's answer as it is written in settings.

    :raises FieldError: it is none.
    """
    if len(text) <= MAX_ADDRESS_CHARACTERS:
        with suppress(ValueError):
            return str(parse_address(text))
    raise FieldError("the answer", field, text, f"HOST:PORT, of {MAX_ADDRESS_CHARACTERS} characters at most")


def _refusal(asked: RequestCode | str, answer: RemotingCommand) -> str:
    name = asked if isinstance(asked, str) else request_code_name(asked)
    return f"{name} was answered {response_code_name(answer.code)}: {answer.remark}"


async def _all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of calls that run at the same time."""
    found = await DeferredList(
        [ensureDeferred(cast(Any, call)) for call in calls], fireOnOneErrback=True, consumeErrors=True
    )
    return [result for _, result in found]
