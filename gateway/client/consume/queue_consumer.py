"""The base of consumers that read queues: subscriptions that can change, and answers for brokers and tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Answer
from gateway.client.connect.routes import TopicRoute
from gateway.client.consume.broker_calls import BrokerCalls
from gateway.client.consume.group_consumer import GroupConsumer
from gateway.client.consume.settings.consumer_settings import ConsumerSettings
from gateway.client.consume.sharing.assigned_queues import AssignedQueues
from gateway.client.consume.subscriptions import Sql, Subscription, subscription_of
from gateway.client.errors import ClientClosed
from gateway.client.names import with_namespace

_HIDDEN: Final = ("secret_key", "access_key", "security_token", "credentials_file", "tls")
"""The settings that tools do not see."""


class Running(Protocol):
    """The parts of a running consumer that ``QueueConsumer`` needs."""

    instance: ClientInstance
    queues: AssignedQueues
    calls: BrokerCalls
    started_at_ms: int

    def wake(self) -> None:
        """Rebalance soon: members, routes or subscriptions have changed."""

    def change_subscription(self, subscription: Subscription) -> None:
        """Use another expression for a topic from now on."""


P = TypeVar("P", bound=Running)


class QueueConsumer(GroupConsumer, Generic[P]):
    """A ``GroupConsumer`` that gets queues, from its group or from the application."""

    settings: ConsumerSettings

    def __init__(
        self, kind: str, group: str, settings: ConsumerSettings, subscriptions: Mapping[str, str | Sql] | None
    ) -> None:
        super().__init__(kind, group, settings, subscriptions)
        self._message_model = settings.message_model.value
        self._running: P | None = None

    # --- what is consumed -----------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Subscribe to a topic, or replace its expression. Also allowed while the consumer runs, on its loop's thread.

        :param expression: ``"*"``, tags as ``"A || B"``, or ``Sql(...)``. While the consumer runs, the broker does not
            check an SQL expression before it is used.
        :raises ConfigurationError: the expression is not usable.
        :raises MessageRefused: the topic's name is not allowed.
        """
        self._check_usable()
        self._check_loop()
        subscription_of(topic, expression, version_ms=0)
        self._wanted[topic] = expression
        parts = self._running
        if parts is not None:
            parts.change_subscription(self._add(parts.instance, topic, expression))
            self._tell_subscriptions(parts)

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic; do nothing if the topic is not subscribed to."""
        self._check_usable()
        self._check_loop()
        self._wanted.pop(topic, None)
        parts = self._running
        if parts is not None:
            self._subscriptions.pop(with_namespace(self.settings.namespace, topic), None)
            self._tell_subscriptions(parts)

    # --- a member of the client instance --------------------------------------------------------------------

    def route_changed(self, topic: str, route: TopicRoute) -> None:  # noqa: ARG002 - of any topic
        """Rebalance soon: queues may have been added or removed."""
        parts = self._running
        if parts is not None:
            parts.wake()

    def answers(self) -> Mapping[int, Answer]:
        """Return the requests of brokers that the running consumer answers, by request code."""
        parts = self._running
        return parts.calls.answers() if parts is not None else {}

    def properties(self) -> Mapping[str, str]:
        """Return the settings as tools show them."""
        shown = {entry.name: getattr(self.settings, entry.name) for entry in dataclasses.fields(self.settings)}
        return {
            **{name: str(value) for name, value in shown.items() if name not in _HIDDEN},
            "consumerGroup": self.group,
            "PROP_NAMESERVER_ADDR": ";".join(self.settings.name_servers),
            "PROP_CONSUME_TYPE": self._consume_type.value,
            "PROP_CONSUMER_START_TIMESTAMP": str(self._parts().started_at_ms),
        }

    # --- inside ---------------------------------------------------------------------------------------------

    def _parts(self) -> P:
        self._check_process()
        parts = self._running
        if parts is None or self._is_closed:
            raise ClientClosed(self.name)
        return parts

    def _parts_here(self) -> P:
        """Do the work of ``_parts``, for calls that must come from the consumer's loop."""
        parts = self._parts()
        self._check_loop()
        return parts

    def _tell_subscriptions(self, parts: P) -> None:
        """Send the subscriptions to the brokers in a heartbeat, and rebalance soon."""
        parts.instance.spawn(parts.instance.heartbeat(), name="heartbeat after subscribing")
        parts.wake()
