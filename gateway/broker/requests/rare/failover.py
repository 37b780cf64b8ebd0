"""The gateway's own requests about replicas (19007 to 19009): the state, a change of role, the way in for a slave.

``rocketmq-gateway failover`` sends the first two, a slave of ours the third. A change is answered before it begins,
because a stop waits for every answer. Stock tools know none of these requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.defer import ensureDeferred

from gateway.broker.desk import DeskRequests
from gateway.broker.kept_role import keep_role
from gateway.broker.life import BrokerLife
from gateway.errors import GatewayError, RequestRefused
from gateway.reactor.thread_result import thread_result
from gateway.remoting.declared import ADMIN_UPDATE, CLUSTER_GET, SERVED
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from gateway.settings import Settings
from gateway.settings.addresses import Address, parse_address
from gateway.settings.replication import BrokerRole
from gateway.store.errors import StoreError
from gateway.store.recovery.log_cut import cut_log
from gateway.telemetry.logs import EventLog
from wire.bodies.tools.failover import ReplicaState
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import ChangeRoleRequest, EnterReplicaRequest

log = EventLog("broker")

ANSWER_MS = 8_000
"""The milliseconds within which a change is answered: the command line waits 10 s for an answer."""


class Failover(DeskRequests):
    """Answers the requests of ``rocketmq-gateway failover`` and of slaves."""

    @answers(RequestCode.GATEWAY_REPLICA_STATE, None, CLUSTER_GET, slave=SERVED)
    def state(self, _request: Request, _header: None) -> Answer:
        """Answer with role and log of this broker."""
        return Answer(body=self._state().build())

    def _state(self) -> ReplicaState:
        desk, settings, store = self._desk, self._desk.settings, self._desk.store
        known = None if desk.slave is None else desk.slave.known()
        copying = None if desk.slave is None else desk.slave.state().copying
        end = store.max_commit_log_offset
        return ReplicaState(
            broker_name=settings.broker_name,
            cluster=settings.broker_cluster_name,
            role=settings.broker_role.value,
            broker_id=settings.broker_id,
            log_begin=store.min_commit_log_offset,
            log_end=end if desk.master is None else desk.master.end_for_slaves(end),
            durable_end=store.durable_end,
            visible_end=store.shown_end,
            is_changing=desk.life is not None and desk.life.is_changing,
            changes=0 if desk.life is None else desk.life.changes,
            master="" if copying is None else copying.master_addr,
            master_log_end=-1 if known is None else known.log_end,
            tables_age_ms=None if known is None else self._age_ms(known.copied_at_ms),
            master_log_end_age_ms=None if known is None else self._age_ms(known.said_at_ms),
            master_role="" if known is None else known.role,
            process="" if desk.life is None else desk.life.process,
        )

    @answers(RequestCode.GATEWAY_CHANGE_ROLE, ChangeRoleRequest, ADMIN_UPDATE, slave=SERVED)
    async def change_role(self, _request: Request, header: ChangeRoleRequest) -> Answer:
        """Answer with the state, then stop the broker and start it in the other role, which holds after a restart."""
        desk = self._desk
        life, role = self._changeable(header)
        asked_ms = desk.steady_ms()
        if header.tables_of and desk.slave is not None:
            failed = await desk.slave.copy_tables(_address(header.tables_of))
            if failed is not None:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the tables were not copied: {failed}")
        if desk.slave is not None and role is not BrokerRole.SLAVE:
            try:
                await thread_result(desk.in_thread, desk.transactions.check_database)
            except GatewayError as error:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"it would not start as a master: {error}") from error
        if desk.steady_ms() - asked_ms > ANSWER_MS:  # who asked has gone and may have made another broker the master
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, "it took too long: ask again")
        self._changeable(header)
        end = desk.store.max_commit_log_offset
        if header.log_end is not None and header.log_end != end:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the log ends at {end} and not at {header.log_end}")
        prepare = partial(_prepare, desk.settings, role, header.broker_id)
        desk.soon(lambda: _begin(life, role, header.broker_id, prepare))
        return Answer(body=self._state().build())

    @answers(RequestCode.GATEWAY_ENTER_REPLICA, EnterReplicaRequest, ADMIN_UPDATE)
    def enter(self, request: Request, header: EnterReplicaRequest) -> Answer:
        """Answer a slave that is about to copy."""
        self._refuse_other(header.broker_name)
        master, channel = self._desk.master, request.channel
        if master is None:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "this broker has no port for slaves (haListenPort)")
        return Answer(header=master.entry(channel.remote[0], header.broker_id, channel.peer_print))

    def _age_ms(self, at_ms: int | None) -> int | None:
        return None if at_ms is None else max(self._desk.clock() - at_ms, 0)

    def _refuse_other(self, name: str) -> None:
        """Refuse a request that means the broker of another name."""
        own = self._desk.settings.broker_name
        if name != own:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"this broker is {own}, not {name}")

    def _changeable(self, header: ChangeRoleRequest) -> tuple[BrokerLife, BrokerRole]:
        self._refuse_other(header.broker_name)
        life = self._desk.life
        if life is None:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                "a controller decides the role of this broker: use mqadmin electMaster (docs/controller.md)",
            )
        if life.is_changing:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, "the role changes already")
        try:
            role = BrokerRole(header.broker_role)
        except ValueError:
            names = ", ".join(role.value for role in BrokerRole)
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"brokerRole is one of {names}") from None
        if (role is BrokerRole.SLAVE) is not (header.broker_id > 0):
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "a master has id 0, each slave another above 0")
        return life, role


def _address(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{text!r} is not one HOST:PORT") from error


def _prepare(settings: Settings, role: BrokerRole, broker_id: int) -> None:
    """Bring a closed directory into the state for its next role; blocks.

    A slave's log does not end with a filler: its master, which lacks the filler, may have stored a record there.
    """
    if role is BrokerRole.SLAVE:
        try:
            cut = cut_log(settings.store_path_root_dir, None, settings)
        except StoreError as error:  # it was not closed in order, or the disk is full
            log.warning("the end of the log was not looked at", reason=str(error))
        else:
            if cut.copy is not None:
                log.info("a filler at the end of the log was cut", log_end=cut.offset, before=cut.end)
    keep_role(settings, role, broker_id)


def _begin(life: BrokerLife, role: BrokerRole, broker_id: int, prepare: Callable[[], None]) -> None:
    changing = ensureDeferred(life.become(role, broker_id, between=prepare))
    changing.addErrback(lambda failure: log.error("role not changed", reason=str(failure.value)))
