"""The Python consumers against the gateway and against Apache RocketMQ, alone and in one group with Java consumers.

The tests are in ``python_consumers``, by kind of consumer. They are collected here, as those of one file, since a run
in two processes hands out whole files: so each server is started once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import QUICK, Peer, make_peer
from compat_tests.python_consumers import groups, lite_pull, push, simple, with_java
from compat_tests.python_consumers.consuming import APACHE, GATEWAY, make_topic
from gateway.client import (
    Producer,
    RocketMQError,
)

TRACES = {"traceTopicEnable": "true"}
NEEDED = {"enablePropertyFilter": "true"}

for module in (push, lite_pull, simple, groups, with_java):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})


@pytest.fixture(scope="module", params=(GATEWAY, APACHE))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    extra = NEEDED if request.param == APACHE else {}
    peer = make_peer(request.param, tmp_path_factory.mktemp("peer") / "data", {**QUICK, **TRACES, **extra})
    with running(peer):
        _wait_for_broker(peer)
        yield peer


@pytest.fixture(scope="module")
def producer(server: Peer) -> Iterator[Producer]:
    with Producer("python_consume_p", namesrv=server.nameserver) as producer:
        yield producer


@pytest.fixture(scope="module")
def java(clients: Callable[[str], JavaClient]) -> JavaClient:
    return clients(CLIENT_VERSIONS[-1])


@pytest.fixture
def topic(server: Peer) -> str:
    return make_topic(server, 4)


def _wait_for_broker(server: Peer) -> None:
    with Producer("python_consume_look", namesrv=server.nameserver) as producer:

        def is_there() -> bool:
            try:
                producer.publish_queues("TBW102")
            except RocketMQError:
                return False
            return True

        wait_until(is_there, "a route to the broker")
