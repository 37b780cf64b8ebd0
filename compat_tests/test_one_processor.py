"""Stock 5.x consumers that see one processor: no question of a broker may hold them up.

Their requests from brokers, their pulls and the answers to their synchronous calls share one thread. What a broker asks
and a client answers with a call of its own stops all of that for five seconds (docs/requests-to-clients.md). Every
second start leaves out the heartbeats after its first, as a busy client does: its pulls name a newer subscription than
the brokers know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.client_program import client_program
from compat_tests.images import image
from compat_tests.peers import GatewayProcess, free_ports
from compat_tests.scenarios import unused_topic
from gateway.client import AdminClient

BROKERS = 3
QUEUES = 8
MESSAGES = 240
LONGEST_WAIT_S = 3.0
"""From a consumer's start to its first message; a call that times out takes five seconds."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    process = GatewayProcess(
        tmp_path_factory.mktemp("brokers") / "data",
        {"brokerName": "mq", "gateway.hotBytes": "0"},  # so that no client is told where its group begins
        ports=(0, free_ports()[1]),
        arguments=("--brokers", str(BROKERS)),
    )
    process.start()
    yield process
    process.stop()


@pytest.mark.alone
@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_a_consumer_on_one_processor_gets_its_first_message_soon(
    gateway: GatewayProcess, version: str, request: pytest.FixtureRequest
) -> None:
    topic = unused_topic()
    with AdminClient(namesrv=gateway.nameserver) as admin:
        admin.topics.create(topic, queues=QUEUES)
    environment = {"ROCKETMQ_VERSION": version, "JDK_JAVA_OPTIONS": "-XX:ActiveProcessorCount=1"}
    with client_program(image("java-client"), version, environment) as client:
        options: dict[str, Any] = {"ns": gateway.nameserver, "topic": topic, "run": "one", "count": MESSAGES}
        client.run("send-sync", **options)
        waits = []
        for number in range(2 * request.config.getoption("--rounds") + 1):
            held = {"holds_heartbeats": True} if number % 2 else {}
            got = client.run(
                "consume-push", group=f"g_{topic}_{number}", heartbeat_ms=30_000, linger_ms=0, **held, **options
            )
            assert (got["received"], got["duplicates"]) == (MESSAGES, 0), str(got)
            waits.append((got["first_ms"] / 1000, got["took_ms"] / 1000))
        said = client.read("/root/logs/rocketmqlogs/rocketmq_client.log")
    first, everything = zip(*waits[1:], strict=True)  # the first start also loads the classes
    print(f"{version}: the slowest of {len(first)} first messages came after {max(first)} s")
    assert max(first) < LONGEST_WAIT_S, waits
    assert max(everything) < LONGEST_WAIT_S + 2, waits
    assert re.findall(r".*TimeoutException.*|.*timeout request.*", said) == []
