"""The pytest plugin: a gateway for the session, and separate topics for each test.

    def test_an_order_is_announced(rocketmq_gateway):
        topic = rocketmq_gateway.topic()
        with Producer(rocketmq_gateway.group(), namesrv=rocketmq_gateway.nameserver) as producer:
            producer.send(Message(topic, b"order 7"))

Override ``rocketmq_gateway_settings`` in a ``conftest.py`` to start the gateway with other settings. With pytest-xdist
each worker has its own gateway.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Self

import pytest

# Every pytest run of an environment with this package loads this module: what a gateway needs is imported with it.
if TYPE_CHECKING:
    from gateway.client.blocking.admin import AdminClient
    from gateway.client.testing.server import GatewayServer

MAX_NAME_CHARS = 80
"""The most characters of a test's name in the name of a topic, which may have 127 characters."""


class GatewayForTest:
    """The gateway as a test sees it: addresses, and names that no other test uses.

    A context manager, which deletes the topics of the test at the end.

    :param server: the process of the gateway, for tests that kill it and start it again.
    :param prefix: the start of the names of topics and groups.
    """

    def __init__(self, server: GatewayServer, prefix: str) -> None:
        self.server = server
        self._prefix = re.sub(r"[^A-Za-z0-9_-]+", "_", prefix)[:MAX_NAME_CHARS].strip("_")
        self._topics: list[str] = []
        self._admin: AdminClient | None = None

    @property
    def nameserver(self) -> str:
        """The ``host:port`` of the name server, for the clients' ``namesrv``."""
        return self.server.nameserver

    @property
    def broker(self) -> str:
        """The ``host:port`` of the broker."""
        return self.server.broker

    @property
    def admin(self) -> AdminClient:
        """An admin client of this gateway, made at its first use and closed after the test."""
        if self._admin is None:
            from gateway.client.blocking.admin import AdminClient

            self._admin = AdminClient(namesrv=self.nameserver)
            self._admin.start()
        return self._admin

    def topic(self, name: str = "topic", *, queues: int = 4) -> str:
        """Create a topic that only this test uses; the topic is deleted after the test.

        :param name: a part of the topic's name, for logs.
        :returns: the name of the topic.
        """
        topic = self._fresh(name)
        self.admin.topics.create(topic, queues=queues)
        self._topics.append(topic)
        return topic

    def group(self, name: str = "group") -> str:
        """Return the name of a producer or consumer group that only this test uses.

        Brokers create a consumer group when its first consumer connects.
        """
        return self._fresh(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        admin, self._admin = self._admin, None
        if admin is None:
            return
        with admin:
            for topic in self._topics:
                admin.topics.delete(topic)

    def _fresh(self, name: str) -> str:
        return f"{self._prefix}-{name}-{next(_numbers)}"


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def rocketmq_gateway_settings() -> Mapping[str, str]:
    """Settings of the gateway by Apache RocketMQ's names; override this fixture to change settings."""
    return {}


@pytest.fixture(scope="session")
def rocketmq_gateway_server(rocketmq_gateway_settings: Mapping[str, str]) -> Iterator[GatewayServer]:
    """The process of ``rocketmq_gateway``, for tests that kill it and start it again."""
    from gateway.client.testing.server import GatewayServer

    with GatewayServer(settings=rocketmq_gateway_settings) as server:
        yield server


@pytest.fixture
def rocketmq_gateway(
    request: pytest.FixtureRequest, rocketmq_gateway_server: GatewayServer
) -> Iterator[GatewayForTest]:
    """A gateway on free ports of this machine, with separate topics and groups for this test."""
    with GatewayForTest(rocketmq_gateway_server, request.node.name) as gateway:
        yield gateway
