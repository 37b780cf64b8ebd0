"""A store directory changes hands between our gateway and Apache RocketMQ 5.5.0, in both directions.

Messages, the key index, a group's offsets and half messages that nobody has decided must all be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests import scenarios
from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess, Peer
from compat_tests.scenarios import Scene, run_name
from compat_tests.test_restart import commits

_MESSAGES = 2000
_HALF_MESSAGES = 60
# Sizes must be the same on both sides, as they are by default: Apache RocketMQ takes the places of things in a file
# from its settings, not from the file.
_SETTINGS = {
    **QUICK,
    "mappedFileSizeCommitLog": "104857600",
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
}


@dataclass(frozen=True, slots=True)
class Written:
    """What the first server left behind."""

    topic: str
    transactional: str

    @property
    def group(self) -> str:
        return f"g_{self.topic}"


def write(scene: Scene) -> Written:
    """Messages that a group has received, 500 more that it has not, and undecided half messages."""
    topic, transactional = scene.topic(), scene.topic()
    written = Written(topic, transactional)
    scenarios.send_all(scene, topic, tags="red,green")
    scenarios.receive_all(scene, topic, group=written.group)
    more = scene.run("send-sync", topic=topic, run=run_name(topic), first=_MESSAGES, count=500)
    assert more["acknowledged"] == 500
    half = scene.run(
        "transact",
        topic=transactional,
        run=run_name(transactional),
        group=f"pg_{transactional}",
        count=_HALF_MESSAGES,
        all_unknown=True,
        no_checks=True,
        wait_checks_s=0,
    )
    assert half["acknowledged"] == _HALF_MESSAGES
    return written


def take_over(scene: Scene, written: Written) -> None:
    """The second server must know all of it, and go on."""
    topic, name = written.topic, run_name(written.topic)
    resumed = scene.run("consume-push", topic=topic, run=name, group=written.group, count=500)
    assert resumed.numbers() == frozenset(range(_MESSAGES, _MESSAGES + 500)), str(resumed)
    scenarios.receive_all(scene, topic, group=f"new_{topic}", count=_MESSAGES + 500)
    green = frozenset(range(1, _MESSAGES, 2))
    tagged = scene.run("consume-pull", topic=topic, run=name, group=f"t_{topic}", tags="green", count=len(green))
    assert tagged.numbers() == green
    found = scene.run("query-key", topic=topic, run=name, count=_MESSAGES + 500)
    assert found["found"] == _MESSAGES + 500, str(found)

    # One more transaction (its number commits): who has sent nothing does not report to the broker.
    decided = scene.run(
        "transact",
        topic=written.transactional,
        run=run_name(written.transactional),
        group=f"pg_{written.transactional}",
        first=_HALF_MESSAGES,
        count=1,
        expect_checks=_HALF_MESSAGES,
        wait_checks_s=60,
    )
    assert decided.numbers("checked") >= frozenset(range(_HALF_MESSAGES))
    committed = frozenset(n for n in range(_HALF_MESSAGES + 1) if commits(n))
    final = scene.run(
        "consume-pull",
        topic=written.transactional,
        run=run_name(written.transactional),
        group=f"all_{written.transactional}",
        count=len(committed),
        linger_ms=3000,
    )
    assert final.numbers() == committed

    # Writing goes on in the same files.
    scene.run("send-sync", topic=topic, run=name, first=_MESSAGES + 500, count=100)
    after = scene.run("consume-push", topic=topic, run=name, group=written.group, count=100)
    assert after.numbers() == frozenset(range(_MESSAGES + 500, _MESSAGES + 600))


@contextmanager
def served(peer: Peer, client: JavaClient) -> Iterator[Scene]:
    peer.start()
    try:
        yield Scene(peer, client, _MESSAGES)
    finally:
        peer.stop()


@pytest.mark.parametrize("first", ["gateway", "apache"])
def test_a_directory_is_served_by_the_other(newest_client: JavaClient, tmp_path: Path, first: str) -> None:
    data = tmp_path / "store"
    data.mkdir()
    gateway: Peer = GatewayProcess(data, _SETTINGS)
    apache: Peer = ApacheContainer(_SETTINGS, store=data)
    writer, reader = (gateway, apache) if first == "gateway" else (apache, gateway)
    with served(writer, newest_client) as scene:
        written = write(scene)
    with served(reader, newest_client) as scene:
        take_over(scene, written)


def test_a_directory_goes_there_and_back(newest_client: JavaClient, tmp_path: Path) -> None:
    """Ours, Apache RocketMQ's, ours again: nothing that either wrote is lost."""
    data = tmp_path / "store"
    data.mkdir()
    with served(GatewayProcess(data, _SETTINGS), newest_client) as scene:
        topic = scene.topic()
        scenarios.send_all(scene, topic)
    with served(ApacheContainer(_SETTINGS, store=data), newest_client) as scene:
        scene.run("send-sync", topic=topic, run=run_name(topic), first=_MESSAGES, count=1000)
    with served(GatewayProcess(data, _SETTINGS), newest_client) as scene:
        scenarios.receive_all(scene, topic, count=_MESSAGES + 1000)
