"""Stock Java clients with nothing but `-Dtls.enable=true`: send, consume, transactions; and what a plain one gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from compat_tests import scenarios
from compat_tests.conftest import running
from compat_tests.java_client import CLIENT_VERSIONS, OVER_TLS, java_client
from compat_tests.peers import QUICK, GatewayProcess
from compat_tests.scenarios import Scene

MESSAGES = 1_000


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that serves nothing but TLS, with a certificate of its own making."""
    data = tmp_path_factory.mktemp("tls") / "data"
    with running(GatewayProcess(data, {**QUICK, "tls.server.mode": "enforcing"})) as peer:
        assert isinstance(peer, GatewayProcess)
        yield peer


@pytest.fixture(scope="module", params=CLIENT_VERSIONS)
def scene(request: pytest.FixtureRequest, enforcing: GatewayProcess) -> Iterator[Scene]:
    with java_client(request.param, OVER_TLS) as client:
        found = Scene(enforcing, client, MESSAGES)
        with suppress(AssertionError):  # a JVM's first handshake on a busy machine may take longer than a request may
            found.topic()
        yield found


def test_what_is_sent_is_received_once(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-sync")
    scenarios.receive_all(scene, topic, "consume-push")
    scenarios.receive_all(scene, topic, "consume-pull")


def test_exactly_the_committed_transactions_are_received(scene: Scene) -> None:
    scenarios.transactions_by_thirds(scene)


def test_a_plain_client_is_not_served_and_the_log_says_why(scene: Scene, enforcing: GatewayProcess) -> None:
    version = scene.client.version
    with java_client(version) as plain, pytest.raises(AssertionError):
        replace(scene, client=plain).topic()
    assert "plain connection refused: only TLS is served" in enforcing.log.read_text()
