"""The Java scenarios must fail when a broker misbehaves; a proxy makes good brokers misbehave, once.

Each fault is first not set: the same scenario passes through the same proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from compat_tests import scenarios
from compat_tests.conftest import running
from compat_tests.environment import bridge_gateway
from compat_tests.faulty_proxy import (
    Fault,
    FaultyProxy,
    commit_what_was_rolled_back,
    lose_a_message,
    store_a_message_twice,
)
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import QUICK, GatewayProcess
from compat_tests.scenarios import Scene

_MESSAGES = 300
# A lost message never comes: do not wait for it longer than needed.
_PATIENCE_S = 5


@dataclass(frozen=True, slots=True)
class Bench:
    """A scene whose clients reach the broker through the proxy."""

    scene: Scene
    proxy: FaultyProxy


@pytest.fixture(scope="module")
def bench(clients: Callable[[str], JavaClient], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    proxy = FaultyProxy(0)
    data = tmp_path_factory.mktemp("break") / "data"
    peer = GatewayProcess(data, QUICK, advertise=f"{bridge_gateway()}:{proxy.port}")
    try:
        with running(peer):
            proxy.target = ("127.0.0.1", peer.broker_port)
            yield Bench(Scene(peer, clients(CLIENT_VERSIONS[-1]), _MESSAGES, patience_s=_PATIENCE_S), proxy)
    finally:
        proxy.close()


def send_and_receive(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic)
    scenarios.receive_all(scene, topic)


def transactions(scene: Scene) -> None:
    scenarios.transactions_by_thirds(scene, _MESSAGES)


@pytest.mark.parametrize(
    ("scenario", "fault", "complaint"),
    [
        (send_and_receive, lose_a_message, "1 messages missing"),
        (send_and_receive, store_a_message_twice, "1 messages delivered twice"),
        (transactions, commit_what_was_rolled_back, "rolled back, yet delivered"),
    ],
    ids=["loses-one", "stores-one-twice", "delivers-a-rolled-back-one"],
)
def test_a_scenario_fails_when_the_broker_breaks_its_promise(
    bench: Bench, scenario: Callable[[Scene], None], fault: Fault, complaint: str
) -> None:
    bench.proxy.fault = None
    scenario(replace(bench.scene, patience_s=30))
    bench.proxy.strike_with(fault)
    with pytest.raises(AssertionError, match=complaint):
        scenario(bench.scene)
    assert bench.proxy.struck == 1
