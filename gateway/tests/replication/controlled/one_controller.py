"""A controller of memory, as far as members see one: ids, registration, elections, sync state sets.

It elects a living member of the set, the old master first, as Apache RocketMQ's does. It can be cut off, can lose
answers, and forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.remoting.pending import CallTimeout, ChannelClosed
from gateway.settings import Address
from wire.bodies.controller import SyncStateSet
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.controller import (
    AlterSyncStateSetResponse,
    ApplyBrokerIdResponse,
    ControllerMetadataResponse,
    ElectMasterResponse,
    NextBrokerIdResponse,
    RegisterToControllerResponse,
    ReplicaInfoResponse,
    RoleChangedRequest,
)
from wire.headers.declare import Header, build_header

ADDRESS = "10.0.0.9:9878"
Said = tuple[int, Header | None, bytes]


class OneController:
    """One controller of one broker name."""

    def __init__(self) -> None:
        self.asked: list[RequestCode] = []
        self.codes: dict[int, str] = {}
        self.addresses: dict[int, str] = {}
        self.living: dict[int, Callable[[RoleChangedRequest, bytes], None]] = {}
        self.master: int | None = None
        self.epoch = self.set_epoch = 0
        self.set: set[int] = set()
        self.leader = ADDRESS
        self.loses_answers = False
        self.late: list[Callable[[], Said]] | None = None
        """The questions about the set that are on their way, where they take long; their answers are lost."""
        self.answers_only: tuple[RequestCode, Said] | None = None

    def die(self, broker_id: int) -> None:
        """A member died: its connection is closed, and another one is elected at once if it was the master."""
        self.living.pop(broker_id, None)
        if self.master == broker_id:
            self.master = None
            self._elect()

    def answer(self, code: RequestCode, header: Any, body: bytes) -> Said:
        if self.answers_only is not None and code is self.answers_only[0]:
            return self.answers_only[1]
        return getattr(self, code.name.lower())(header, body)  # type: ignore[no-any-return]

    def controller_get_metadata_info(self, _header: Any, _body: bytes) -> Said:
        return 0, ControllerMetadataResponse(controller_leader_address=self.leader, is_leader=True), b""

    def controller_get_next_broker_id(self, _header: Any, _body: bytes) -> Said:
        return 0, NextBrokerIdResponse(next_broker_id=max(self.codes, default=0) + 1), b""

    def controller_apply_broker_id(self, header: Any, _body: bytes) -> Said:
        if self.codes.setdefault(header.applied_broker_id, header.register_check_code) != header.register_check_code:
            return ResponseCode.CONTROLLER_BROKER_ID_INVALID, None, b""
        return 0, ApplyBrokerIdResponse(), b""

    def controller_register_broker(self, header: Any, _body: bytes) -> Said:
        if header.broker_id not in self.codes:
            return ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, None, b""
        self.addresses[header.broker_id] = header.broker_address
        return 0, RegisterToControllerResponse(**self._four()), self._body()

    def controller_elect_master(self, header: Any, _body: bytes) -> Said:
        if self.master is not None:
            return ResponseCode.CONTROLLER_MASTER_STILL_EXIST, ElectMasterResponse(**self._four()), self._body()
        if not self.set:
            self.set = {header.broker_id}
        self._elect()
        if self.master is None:
            return ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, None, b""
        return 0, ElectMasterResponse(**self._four()), self._body()

    def controller_get_replica_info(self, _header: Any, _body: bytes) -> Said:
        four = self._four()
        four.pop("sync_state_set_epoch", None)
        return 0, ReplicaInfoResponse(**four), self._body()

    def controller_alter_sync_state_set(self, header: Any, body: bytes) -> Said:
        if self.late is not None:
            self.late.append(partial(self._alter, header, body))
            raise CallTimeout("no answer")
        return self._alter(header, body)

    def _alter(self, header: Any, body: bytes) -> Said:
        wanted = SyncStateSet.parse(body)
        if header.master_broker_id != self.master:
            return ResponseCode.CONTROLLER_INVALID_MASTER, None, b""
        if header.master_epoch != self.epoch:
            return ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, None, b""
        if wanted.sync_state_set_epoch != self.set_epoch:
            return ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, None, b""
        if set(wanted.sync_state_set) - set(self.living):
            return ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, None, b""
        self.set = set(wanted.sync_state_set)
        self.set_epoch += 1
        return 0, AlterSyncStateSetResponse(new_sync_state_set_epoch=self.set_epoch), self._body()

    def choose(self, candidates: list[int]) -> int:
        return candidates[0]

    def _elect(self) -> None:
        candidates = sorted(self.set & set(self.living))
        if not candidates:
            return
        self.master = self.choose(candidates)
        self.epoch += 1
        self.set_epoch += 1
        self.set = {self.master}
        for notice in list(self.living.values()):
            notice(RoleChangedRequest(**self._four()), self._body())

    def _four(self) -> dict[str, Any]:
        if self.master is None:
            return {}
        return {
            "master_broker_id": self.master,
            "master_address": self.addresses[self.master],
            "master_epoch": self.epoch,
            "sync_state_set_epoch": self.set_epoch,
        }

    def _body(self) -> bytes:
        return SyncStateSet(sorted(self.set), self.set_epoch).build()


class Line:
    """The connections of one member to the controller; its heartbeats keep it alive there."""

    local = ("10.0.0.1", 50_000)
    remote = ("10.0.0.9", 9_878)

    def __init__(self, controller: OneController) -> None:
        self.controller = controller
        self.notice: Callable[[RoleChangedRequest, bytes], None] = lambda _header, _body: None
        self.is_cut = False

    async def channel(self, address: Address) -> Any:
        if self.is_cut:
            raise ChannelClosed(f"{address} cannot be reached")
        return self

    async def call(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
        controller = self.controller
        controller.asked.append(RequestCode(code))
        answered, answer_header, answer_body = controller.answer(RequestCode(code), header, body)
        if controller.loses_answers:
            raise CallTimeout("no answer")
        fields = {} if answer_header is None else build_header(answer_header)
        return RemotingCommand(code=answered, ext_fields=fields, body=answer_body)

    def notify(self, _code: int, header: Any) -> bool:
        self.controller.living[header.broker_id] = lambda header, body: self.notice(header, body)
        return True
