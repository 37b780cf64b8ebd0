"""Stock consumers hear at once that their group changed, also in a group so large that its members are told in pauses.

A stock client shares out the queues every 20 s by itself. What it does sooner it does because the broker told it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from compat_tests import frames
from compat_tests.environment import wait_until
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import QUICK, GatewayProcess
from compat_tests.scenarios import run_name, unused_topic
from gateway.client import AdminClient
from gateway.membership.notices import PROMPT_MEMBERS
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionData
from wire.codes import RequestCode

QUEUES = 8
OTHERS = PROMPT_MEMBERS + 10
"""Members beside the stock one. Their ids come after its id, so that one queue is left to the stock member."""
TOLD_S = 10.0
"""Half of the time after which a client shares out the queues by itself. A notice takes milliseconds."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path_factory.mktemp("notices") / "data", QUICK)
    process.start()
    yield process
    process.stop()


def join(gateway: GatewayProcess, group: str, topic: str, number: int) -> socket.socket:
    """A member that sends a heartbeat and does nothing else, until its socket is closed."""
    member = HeartbeatData(
        client_id=f"~{number}", consumers=[ConsumerData(group=group, subscriptions=[SubscriptionData(topic)])]
    )
    opened = socket.create_connection(("127.0.0.1", gateway.broker_port))
    opened.sendall(frames.request(RequestCode.HEART_BEAT, body=member.build()).pack())
    return opened


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_a_stock_consumer_is_told_of_members_that_join_and_leave(
    gateway: GatewayProcess, clients: Callable[[str], JavaClient], version: str
) -> None:
    topic, client = unused_topic(), clients(version)
    group = f"g_{topic}"
    with ExitStack() as ending, AdminClient(namesrv=gateway.nameserver) as admin:
        admin.topics.create(topic, queues=QUEUES)

        def members() -> list[str]:
            connection = admin.groups.consumers(group)
            return [] if connection is None else [each.client_id for each in connection.connections]

        def has(count: int) -> bool:
            table = admin.groups.running_info(group, client_id)["mqTable"]
            return sum(f'"{topic}"' in str(queue) for queue in table) == count  # and a retry queue

        consuming = client.start(
            "consume-push", ns=gateway.nameserver, topic=topic, run=run_name(topic), group=group, until=group
        )
        ending.callback(client.stop, group)
        wait_until(lambda: len(members()) == 1, "the stock member's heartbeat")
        (client_id,) = members()
        wait_until(lambda: has(QUEUES), "the stock member to have all queues")
        others = [ending.enter_context(join(gateway, group, topic, number)) for number in range(OTHERS)]
        wait_until(lambda: has(1), "the stock member to leave queues to the others", timeout_s=TOLD_S)
        for other in others:
            other.close()
        wait_until(lambda: has(QUEUES), "the stock member to have all queues again", timeout_s=TOLD_S)
    consuming.result()
