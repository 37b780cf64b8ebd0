"""The place where a cell is executed: server, client, and an administrator who makes topics and looks at the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compat_tests.access.stands import Stand
from compat_tests.environment import wait_until
from compat_tests.scenarios import Scene, unused_topic
from gateway.client import AdminClient, RocketMQError
from wire.bodies.subscriptions import SubscriptionGroupConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Scene):
    """A scene whose topics an administrator makes, since not every client can."""

    stand: Stand
    admin: AdminClient
    address: str
    """What the client connects to: the name server, or a proxy."""
    topic_type: str = ""
    """Of 5.x; only proxies look at it."""
    behind_proxy: bool = False

    def _common(self, options: dict[str, object]) -> dict[str, Any]:
        return {"ns": self.address, "timeout_s": 40, "idle_s": self.patience_s, **self.keys, **options}

    def topic(self, queues: int = 4, namespace: str = "") -> str:
        topic = f"{namespace}%{unused_topic()}" if namespace else unused_topic()
        wait_until(lambda: self._is_created(topic, queues), f"a route of {topic}")
        return topic

    def _is_created(self, topic: str, queues: int) -> bool:
        try:
            self.admin.topics.create(
                topic, queues=queues, attributes={"message.type": self.topic_type} if self.topic_type else None
            )
        except RocketMQError:  # a broker that has just started may not have registered yet
            return False
        return True

    def group(
        self, name: str, *, orderly: bool = False, retries: int = 16, attributes: dict[str, str] | None = None
    ) -> str:
        """A consumer group made by the administrator; what is popped is retried after a second."""
        config = SubscriptionGroupConfig(
            group_name=name,
            consume_message_orderly=orderly,
            retry_max_times=retries,
            group_retry_policy={"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}},
            attributes={f"+{name}": value for name, value in (attributes or {}).items()},
        )
        self.admin.groups.create(config)
        return name

    def let_pop(self, topic: str, group: str) -> None:
        """Have the broker tell the group's members to pop, as `mqadmin setConsumeMode` does."""
        self.stand.let_pop(topic, group)
