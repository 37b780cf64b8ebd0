"""The requests about the group of a controller: who is its master now, and the epochs of this broker's log."""

from __future__ import annotations

from gateway.broker.desk import DeskRequests
from gateway.errors import RequestRefused
from gateway.reactor.thread_result import thread_result
from gateway.remoting.declared import ADMIN, CLUSTER_GET, SERVED
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from gateway.telemetry.logs import EventLog
from wire.bodies.controller import EpochSpan, EpochSpans
from wire.codes import RequestCode, ResponseCode
from wire.headers.controller import RoleChangedRequest

log = EventLog("controller")

NO_GROUP = "enableControllerMode is false: no controller decides the role of this broker"
OPEN_END = 2**63 - 1
"""The end of the last epoch, as Apache RocketMQ's brokers tell it."""
MAX_TOLD_HOSTS = 64
"""The number of hosts without a controller whose notices are logged, once each."""


class Controller(DeskRequests):
    """Answers GET_BROKER_EPOCH_CACHE (1007), and takes NOTIFY_BROKER_ROLE_CHANGED (1008)."""

    _told: frozenset[str] = frozenset()

    @answers(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, RoleChangedRequest, ADMIN, slave=SERVED)
    def role_changed(self, request: Request, header: RoleChangedRequest) -> Answer:
        """Take the controller's word about a new master, if it comes from a controller's host.

        Controllers sign nothing. So with accounts the notice is refused, and the member asks for itself soon enough.
        """
        group, host = self._desk.group, request.channel.remote[0]
        if group is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, NO_GROUP)
        if not group.notice(host, header, bytes(request.command.body)):
            if host not in self._told and len(self._told) < MAX_TOLD_HOSTS:
                self._told |= {host}
                log.warning("a notice of a new master is no controller's", host=host)
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"{host} is no host of a controller (controllerAddr)")
        return Answer()

    @answers(RequestCode.GET_BROKER_EPOCH_CACHE, None, CLUSTER_GET, slave=SERVED)
    async def epochs(self, _request: Request, _header: None) -> Answer:
        """Answer with the epochs of the log; an epoch ends where the next one starts."""
        group, settings = self._desk.group, self._desk.settings
        if group is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, NO_GROUP)
        entries = (await thread_result(self._desk.in_thread, group.epoch_file.load)).entries
        ends = [*(entry.start for entry in entries[1:]), OPEN_END]
        spans = [EpochSpan(entry.epoch, entry.start, end) for entry, end in zip(entries, ends, strict=False)]
        epochs = EpochSpans(
            cluster_name=settings.broker_cluster_name,
            broker_name=settings.broker_name,
            broker_id=group.own_id,
            epoch_list=spans,
            max_offset=self._desk.store.max_commit_log_offset,
        )
        return Answer(body=epochs.build())
