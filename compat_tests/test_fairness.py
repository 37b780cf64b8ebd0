"""A topic that takes all it can get, and others beside it: they are served as if it were not there, only later.

The busy topic has producers and a consumer in a process of their own, so that what is measured is the broker.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator

import pytest

from compat_tests.environment import wait_until
from compat_tests.peers import QUICK, GatewayProcess
from gateway.client import AdminClient, ConsumeFrom, Message, Producer, ProducerSettings, PushConsumer, PushSettings
from gateway.client.message import ReceivedMessage
from gateway.tests.stalls import Stalls

BUSY, QUIET = "busy", "quiet"
IN_FLIGHT = 500
COUNT = 30
SLOWEST_S = 5.0
"""Of one message, sent and received; on busy machines. Behind the busy topic's backlog it would be the whole test."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    peer = GatewayProcess(tmp_path_factory.mktemp("fair") / "data", QUICK, bind="127.0.0.1")
    peer.start()
    with AdminClient(namesrv=peer.nameserver) as admin:
        for topic in (BUSY, QUIET):
            admin.topics.create(topic, queues=4)
    yield peer
    peer.stop()


def keep_busy(nameserver: str) -> None:
    """Send without a pause, and consume what is sent, until the process is ended."""

    def send() -> None:
        room = threading.Semaphore(IN_FLIGHT)
        with Producer("busy_p", ProducerSettings(namesrv=nameserver)) as producer:
            while True:
                room.acquire()
                producer.send_async(Message(BUSY, bytes(1_000))).add_done_callback(lambda _: room.release())

    settings = PushSettings(namesrv=nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
    with PushConsumer("busy_g", lambda _: None, settings, subscriptions={BUSY: "*"}):
        send()


def stored(server: GatewayProcess) -> int:
    with AdminClient(namesrv=server.nameserver) as admin:
        return sum(queue.max_offset for queue in admin.topics.stats(BUSY).values())


def test_a_busy_topic_does_not_starve_the_others(server: GatewayProcess) -> None:
    came = threading.Event()

    def listen(_: ReceivedMessage) -> None:
        came.set()

    busy = multiprocessing.get_context("spawn").Process(target=keep_busy, args=(server.nameserver,), daemon=True)
    settings = PushSettings(namesrv=server.nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
    with (
        Producer("quiet_p", ProducerSettings(namesrv=server.nameserver)) as producer,
        PushConsumer("quiet_g", listen, settings, subscriptions={QUIET: "*"}),
        Stalls(server.data.parent) as stalls,
    ):
        busy.start()
        try:
            wait_until(lambda: stored(server) > 2 * IN_FLIGHT, "traffic", timeout_s=60)
            before, slowest_s = stored(server), 0.0
            for number in range(COUNT):
                came.clear()
                begun = time.monotonic()
                producer.send(Message(QUIET, b"%d" % number))
                assert came.wait(12 * SLOWEST_S), f"message {number} did not come"
                slowest_s = max(slowest_s, time.monotonic() - begun)
            assert stored(server) - before > COUNT, "the other topic was busy meanwhile"
            assert slowest_s < SLOWEST_S + stalls.longest_ms / 1_000
        finally:
            busy.kill()
            busy.join()
