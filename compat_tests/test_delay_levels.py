"""Messages of Apache RocketMQ's own first three delay levels: once, whole, at their time, and with their level.

Clients show the level of a received message, and programs compute from it when the message was due. All clients send
and wait at the same time, since the longest level takes ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.client_program import Answer
from compat_tests.java_client import JavaClient
from compat_tests.peers import make_peer
from compat_tests.scenarios import only_once
from gateway.client import AdminClient
from gateway.tests.stalls import Stalls

VERSIONS = ("4.9.3", "4.9.8", "5.5.0")
LEVELS_MS = {1: 1_000, 2: 5_000, 3: 10_000}
COUNT = 10
LATE_MS = 5_000
"""So much later a message may reach its listener, beside what the machine itself takes."""


@dataclass(frozen=True, slots=True)
class Received:
    """The deliveries, by the client's version and the level.

    :param stalled_ms: the longest time that the disk and the processors took, in the meantime, for one byte.
    """

    answers: Mapping[tuple[str, int], Answer]
    stalled_ms: int


@pytest.fixture(scope="module", params=["gateway-host", "rocketmq-5.5.0"])
def received(
    request: pytest.FixtureRequest, clients: Callable[[str], JavaClient], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Received]:
    folder = tmp_path_factory.mktemp("levels")
    peer = make_peer(request.param, folder / "data", {})
    peer.start()
    try:
        yield _sent_and_received(peer.nameserver, clients, folder)
    finally:
        peer.stop()


def _sent_and_received(nameserver: str, clients: Callable[[str], JavaClient], folder: Path) -> Received:
    topics = {
        (version, level): f"delay_{index}_{level}" for index, version in enumerate(VERSIONS) for level in LEVELS_MS
    }
    with AdminClient(namesrv=nameserver) as admin:
        for topic in topics.values():
            admin.topics.create(topic, queues=4)
    with Stalls(folder) as stalls:
        waiting = {
            (version, level): clients(version).start(
                "consume-push", ns=nameserver, topic=topic, run=topic, group=f"g_{topic}", count=COUNT
            )
            for (version, level), topic in topics.items()
        }
        for (version, level), topic in topics.items():
            sent = clients(version).run("send-sync", ns=nameserver, topic=topic, run=topic, count=COUNT, delay=level)
            assert (sent["acknowledged"], sent["not_ok"]) == (COUNT, 0), str(sent)
        answers = {asked: answer.result() for asked, answer in waiting.items()}
    return Received(answers, stalls.longest_ms)


@pytest.mark.parametrize("level", LEVELS_MS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_of_a_delay_level_comes_once_at_its_time_with_its_level(
    received: Received, version: str, level: int
) -> None:
    got = received.answers[version, level]
    only_once(got, COUNT)
    assert got.text("delay_levels") == f"[{level}]", str(got)
    assert got["waited_min_ms"] >= LEVELS_MS[level], f"before its time: {got}"
    assert got["arrived_max_ms"] <= LEVELS_MS[level] + LATE_MS + received.stalled_ms, f"late: {got}"
