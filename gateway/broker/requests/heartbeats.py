"""HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG: clients report who they are, and that they leave.

Upstream: ``ClientManageProcessor``.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from gateway.access.needs import Entries, consumer_needs
from gateway.broker.desk import Desk, DeskRequests
from gateway.delivery.filters.message_filter import is_tag_type
from gateway.delivery.filters.sql92 import ExpressionError
from gateway.delivery.filters.subscribed import (
    MAX_HEARTBEAT_CHARACTERS,
    check_expression_type,
    compiled,
)
from gateway.membership.heartbeats import check_size
from gateway.remoting.declared import ACCOUNT, SERVED, SUB, Kind, Need, needs, on_group
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from wire.bodies.consumers import CheckClientRequest
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionData
from wire.codes import RequestCode, ResponseCode
from wire.headers.groups import HeartbeatResponse, UnregisterClientRequest


class HeartbeatRequests(DeskRequests):
    """Answers HEART_BEAT (34), UNREGISTER_CLIENT (35) and CHECK_CLIENT_CONFIG (46)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._property_filter_enabled = desk.settings.enable_property_filter

    @answers(
        RequestCode.HEART_BEAT,
        None,
        needs(in_body="Group Sub and Topic Sub of each entry"),
        slave=SERVED,
    )
    def heartbeat(self, request: Request, _header: None) -> Answer:
        """Register the client and its groups.

        The answer says that the client may leave out unchanged subscriptions next time. If the heartbeat has a
        fingerprint, the answer also says whether the client must send its subscriptions again because the broker knows
        other ones.
        """
        command = request.command
        data = HeartbeatData.parse(command.body)
        if request.caller is not None:
            check_size(data)  # a judgement of each entry takes its time
            data = _allowed(request, data)
        heartbeats = self._desk.heartbeats
        moved = heartbeats.receive(request.channel, command.language, command.version, data)
        client = heartbeats.clients.get(request.channel)
        if client is not None:
            client.caller = request.caller
        if self._property_filter_enabled:
            left = MAX_HEARTBEAT_CHARACTERS
            for consumer in data.consumers:
                left = self._desk.filters.register(consumer.group, consumer.subscriptions, left)
        return Answer(
            header=HeartbeatResponse(
                is_support_heart_beat_v2=True, is_sub_change=moved if data.fingerprint != 0 else None
            )
        )

    @answers(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequest, needs(on_group(SUB, optional=True)), slave=SERVED)
    def unregister(self, request: Request, header: UnregisterClientRequest) -> Answer:
        """Remove the client from the groups that it names."""
        self._desk.heartbeats.unregister(
            request.channel, producer_group=header.producer_group, consumer_group=header.consumer_group
        )
        return Answer()

    @answers(RequestCode.CHECK_CLIENT_CONFIG, None, ACCOUNT, slave=SERVED)
    def check_client_config(self, request: Request, _header: None) -> Answer | None:
        """Answer whether the broker can evaluate the filter that a push consumer is about to subscribe with."""
        subscription = CheckClientRequest.parse(request.command.body).subscription
        if subscription is None or is_tag_type(subscription.expression_type):
            return Answer()
        if not self._property_filter_enabled:
            check_expression_type(subscription.expression_type)
        if self._desk.filter_turns.is_busy:
            check = partial(self._check, request, subscription)
            self._desk.filter_turns.later(request.channel, check, len(subscription.sub_string))
        else:
            self._check(request, subscription)
        return None

    def _check(self, request: Request, subscription: SubscriptionData) -> None:
        try:
            compiled(subscription.expression_type, subscription.sub_string, self._desk.filter_turns)
        except ExpressionError as error:
            request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        else:
            request.answer(ResponseCode.SUCCESS)


def _allowed(request: Request, data: HeartbeatData) -> HeartbeatData:
    """Return a heartbeat without the groups and topics that its sender may not consume.

    :raises RequestRefused: the heartbeat has consumers, and the sender may be none of them.
    """
    consumers: list[ConsumerData] = []
    entries = Entries(request)
    for consumer in data.consumers:
        group = consumer.group
        if entries.allows(Need(Kind.GROUP, group, SUB)):
            topics = entries.topics(group, (subscription.topic for subscription in consumer.subscriptions))
            subscriptions = [one for one in consumer.subscriptions if one.topic in topics]
            if subscriptions or not consumer.subscriptions:
                consumers.append(replace(consumer, subscriptions=subscriptions))
    if data.consumers and not consumers:
        first = data.consumers[0]
        request.require(*consumer_needs(first.group, [one.topic for one in first.subscriptions[:1]]))
    return replace(data, consumers=consumers)
