"""HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG: clients saying who they are, and goodbye.

Upstream: ``ClientManageProcessor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.delivery.filters.tags import EXPRESSION_TYPE_TAG
from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Answer
from wire.bodies.consumers import CheckClientRequest
from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode, ResponseCode
from wire.headers.groups import HeartbeatResponse, UnregisterClientRequest

if TYPE_CHECKING:
    from gateway.membership.heartbeats import Heartbeats
    from gateway.remoting.dispatch import Dispatch, Request


class HeartbeatRequests:
    """Answers HEART_BEAT (34), UNREGISTER_CLIENT (35) and CHECK_CLIENT_CONFIG (46)."""

    def __init__(self, *, heartbeats: Heartbeats) -> None:
        self._heartbeats = heartbeats

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.HEART_BEAT, None, self.heartbeat)
        dispatch.answers(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequest, self.unregister)
        dispatch.answers(RequestCode.CHECK_CLIENT_CONFIG, None, self.check_client_config)

    def heartbeat(self, request: Request, _header: None) -> Answer:
        """Take the client and its groups over.

        The answer tells that unchanged subscriptions may be left out next time, and (to a heartbeat with a
        fingerprint) whether they must be sent again because they are not the ones known here.
        """
        command = request.command
        data = HeartbeatData.parse(command.body)
        moved = self._heartbeats.receive(request.channel, command.language, command.version, data)
        return Answer(
            header=HeartbeatResponse(
                is_support_heart_beat_v2=True, is_sub_change=moved if data.fingerprint != 0 else None
            )
        )

    def unregister(self, request: Request, header: UnregisterClientRequest) -> Answer:
        """Take the client out of the groups it names."""
        self._heartbeats.unregister(
            request.channel, producer_group=header.producer_group, consumer_group=header.consumer_group
        )
        return Answer()

    def check_client_config(self, request: Request, _header: None) -> Answer:
        """Whether the broker can filter what a push consumer is about to subscribe."""
        subscription = CheckClientRequest.parse(request.command.body).subscription
        if subscription is not None and subscription.expression_type not in (None, "", EXPRESSION_TYPE_TAG):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {subscription.expression_type}: "
                "it filters by tags only",
            )
        return Answer()
