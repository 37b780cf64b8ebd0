"""A group goes on where it was after `kill -9`, and an orderly stop under load loses nothing.

That nothing acknowledged is lost by kills under load is asked in `test_soak.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests import scenarios
from compat_tests.environment import wait_until
from compat_tests.java_client import Answer, JavaClient
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess, Peer
from compat_tests.scenarios import Scene, run_name

# A container that is killed and started again has its address only if no other one was started meanwhile.
pytestmark = pytest.mark.alone

# Load per round before the kill: enough to be in the middle of things.
_NEW_MESSAGES = 300


@dataclass(frozen=True, slots=True)
class Subject:
    """A running server, and where it stores."""

    peer: Peer
    data: Path


@pytest.fixture(params=["gateway-host", "rocketmq-5.5.0"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    """Our server, and the control."""
    data = tmp_path / "data"
    peer: Peer
    if request.param == "gateway-host":
        peer = GatewayProcess(data, QUICK)
    else:
        data.mkdir()
        peer = ApacheContainer(QUICK, store=data)
    peer.start()
    try:
        yield Subject(peer, data)
    finally:
        peer.kill()
        peer.stop()


def stored(scene: Scene, topic: str, group: str = "onlooker") -> int:
    return scene.run("offsets", topic=topic, group=group)["max"]


def committed_on_disk(data: Path, topic: str, group: str) -> int:
    """The sum of a group's offsets in consumerOffset.json; keys of the inner object may be bare numbers."""
    path = data / "config" / "consumerOffset.json"
    text = path.read_text() if path.exists() else ""
    found = re.search(rf'"{topic}@{group}"\s*:\s*\{{([^}}]*)\}}', text)
    return sum(int(n) for n in re.findall(r":\s*(\d+)", found.group(1))) if found else 0


def wait_for_new_messages(scene: Scene, *topics: str) -> None:
    """Until each topic has grown: both kinds of load are running again."""
    for topic in topics:
        goal = stored(scene, topic) + _NEW_MESSAGES
        wait_until(functools.partial(reached, scene, topic, goal), f"new messages in {topic}", timeout_s=60)


def reached(scene: Scene, topic: str, goal: int) -> bool:
    return stored(scene, topic) >= goal


def nothing_lost(scene: Scene, topic: str, sent: Answer) -> None:
    """Every acknowledged message is in the log, unharmed, once."""
    read = scene.run("consume-pull", topic=topic, run=run_name(topic), group=f"all_{topic}", linger_ms=1000)
    lost = sent.numbers() - read.numbers()
    assert not lost, f"{len(lost)} messages answered SEND_OK are gone: {sorted(lost)[:20]}"
    assert (read["duplicates"], read["corrupt"], read["strangers"]) == (0, 0, 0), str(read)


def test_a_group_resumes_from_its_offsets_after_a_kill(newest_client: JavaClient, subject: Subject) -> None:
    scene = Scene(subject.peer, newest_client, 2000)
    topic = scene.topic()
    group = f"g_{topic}"
    scenarios.send_all(scene, topic)
    scenarios.receive_all(scene, topic, group=group)
    wait_until(lambda: committed_on_disk(subject.data, topic, group) == 2000, "offsets written to disk")
    subject.peer.kill()
    subject.peer.start()
    scene.run("send-sync", topic=topic, run=run_name(topic), first=2000, count=100)
    more = scene.run("consume-push", topic=topic, run=run_name(topic), group=group, count=100)
    assert more.numbers() == frozenset(range(2000, 2100))
    assert more["duplicates"] == 0


def test_a_clean_stop_under_load_keeps_everything_and_exits_0(newest_client: JavaClient, tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path / "data", QUICK)
    gateway.start()
    try:
        scene = Scene(gateway, newest_client, 0)
        topic = scene.topic()
        load = f"load_{topic}"
        sends = scene.start("send-sync", topic=topic, run=run_name(topic), until=load, retries=0, send_timeout_ms=3000)
        wait_for_new_messages(scene, topic)
        gateway.stop()
        newest_client.stop(load)
        gateway.start()
        nothing_lost(scene, topic, sends.result())
        gateway.stop()
    finally:
        gateway.kill()
