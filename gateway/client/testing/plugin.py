"""The pytest plugin: a gateway for the session, topics of their own for each test.

    def test_an_order_is_announced(rocketmq_gateway):
        topic = rocketmq_gateway.topic()
        with Producer(rocketmq_gateway.group(), namesrv=rocketmq_gateway.nameserver) as producer:
            producer.send(Message(topic, b"order 7"))

``rocketmq_gateway_settings`` may be overridden in a ``conftest.py`` to start the gateway with other settings. With
pytest-xdist each worker has a gateway of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pytest

# Every pytest run of an environment with this package loads this module: what a gateway needs is imported with it.
if TYPE_CHECKING:
    from gateway.client.blocking.admin import AdminClient
    from gateway.client.testing.server import GatewayServer

MAX_NAME_CHARS = 80
"""Of a test's name in the name of a topic, which may have 127 characters."""


class GatewayForTest:
    """What a test gets: addresses, and names that no other test uses. As a context manager it clears up.

    :param server: the process behind it, for tests that kill it and start it again.
    :param prefix: with what topics and groups begin.
    """

    def __init__(self, server: GatewayServer, prefix: str) -> None:
        self.server = server
        self._prefix = re.sub(r"[^A-Za-z0-9_-]+", "_", prefix)[:MAX_NAME_CHARS].strip("_")
        self._topics: list[str] = []
        self._admin: AdminClient | None = None

    @property
    def nameserver(self) -> str:
        """``host:port`` for the clients' ``namesrv``."""
        return self.server.nameserver

    @property
    def broker(self) -> str:
        """``host:port`` of the broker."""
        return self.server.broker

    @property
    def admin(self) -> AdminClient:
        """An admin client of this gateway, made when it is first asked for and closed after the test."""
        if self._admin is None:
            from gateway.client.blocking.admin import AdminClient

            self._admin = AdminClient(namesrv=self.nameserver)
            self._admin.start()
        return self._admin

    def topic(self, name: str = "topic", *, queues: int = 4) -> str:
        """Create a topic that only this test uses; it is deleted afterwards.

        :param name: part of the topic's name, for logs.
        :returns: the name of the topic.
        """
        topic = self._fresh(name)
        self.admin.topics.create(topic, queues=queues)
        self._topics.append(topic)
        return topic

    def group(self, name: str = "group") -> str:
        """A producer or consumer group that only this test uses; brokers make consumer groups when they connect."""
        return self._fresh(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    """Settings of the gateway by Apache RocketMQ's names; override it to change some."""
    return {}


@pytest.fixture(scope="session")
def rocketmq_gateway_server(rocketmq_gateway_settings: Mapping[str, str]) -> Iterator[GatewayServer]:
    """The process behind ``rocketmq_gateway``: for tests that kill it and start it again."""
    from gateway.client.testing.server import GatewayServer

    with GatewayServer(settings=rocketmq_gateway_settings) as server:
        yield server


@pytest.fixture
def rocketmq_gateway(
    request: pytest.FixtureRequest, rocketmq_gateway_server: GatewayServer
) -> Iterator[GatewayForTest]:
    """A gateway on free ports of this machine, with topics and groups of this test's own."""
    with GatewayForTest(rocketmq_gateway_server, request.node.name) as gateway:
        yield gateway
