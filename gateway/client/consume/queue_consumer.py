"""What the consumers that read queues have in common: subscriptions that change, and what brokers and tools ask."""

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
from gateway.client.namespaces import with_namespace

_HIDDEN: Final = ("secret_key", "access_key", "security_token", "tls")
"""Settings that tools do not see."""


class Running(Protocol):
    """The parts of a consumer that runs, as far as they are needed here."""

    instance: ClientInstance
    queues: AssignedQueues
    calls: BrokerCalls
    started_at_ms: int

    def wake(self) -> None:
        """Members, routes or subscriptions have changed."""

    def change_subscription(self, subscription: Subscription) -> None:
        """Use another expression for a topic from now on."""


P = TypeVar("P", bound=Running)


class QueueConsumer(GroupConsumer, Generic[P]):
    """A ``GroupConsumer`` that is given queues; see the module."""

    settings: ConsumerSettings

    def __init__(
        self, kind: str, group: str, settings: ConsumerSettings, subscriptions: Mapping[str, str | Sql] | None
    ) -> None:
        super().__init__(kind, group, settings, subscriptions)
        self._message_model = settings.message_model.value
        self._running: P | None = None

    # --- what is consumed -----------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Subscribe to a topic, or to other messages of it; also while running. Not for threads.

        :param expression: ``"*"``, tags as ``"A || B"``, or ``Sql(...)`` (not checked by the broker while running).
        :raises ConfigurationError: the expression cannot work; ``MessageRefused``: the topic's name cannot.
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
        """Give up a topic; nothing happens when it is not subscribed to."""
        self._check_usable()
        self._check_loop()
        self._wanted.pop(topic, None)
        parts = self._running
        if parts is not None:
            self._subscriptions.pop(with_namespace(self.settings.namespace, topic), None)
            self._tell_subscriptions(parts)

    # --- a member of the client instance --------------------------------------------------------------------

    def route_changed(self, topic: str, route: TopicRoute) -> None:  # noqa: ARG002 - of any topic
        """Queues may have come or gone."""
        parts = self._running
        if parts is not None:
            parts.wake()

    def answers(self) -> Mapping[int, Answer]:
        """Requests of brokers."""
        parts = self._running
        return parts.calls.answers() if parts is not None else {}

    def properties(self) -> Mapping[str, str]:
        """What tools show of the settings."""
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
        """As ``_parts``, for work on the loop."""
        parts = self._parts()
        self._check_loop()
        return parts

    def _tell_subscriptions(self, parts: P) -> None:
        """Tell the brokers and look for queues."""
        parts.instance.spawn(parts.instance.heartbeat(), name="heartbeat after subscribing")
        parts.wake()
