"""A store directory changes hands between our gateway and Apache RocketMQ 5.5.0, in both directions.

Messages, the key index, a group's offsets and half messages that nobody has decided must all be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compat_tests import frames, scenarios
from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess, Peer
from compat_tests.scenarios import Scene, run_name
from compat_tests.soak.streams import commits
from wire.message.record import parse_records

_MESSAGES = 2000
_HALF_MESSAGES = 60
_QUERY_MESSAGE = 12
_QUERY_NOT_FOUND = 22
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
    unique_ids: tuple[str, ...]
    looked_up: dict[str, bytes] = field(default_factory=dict)
    """What the writing server's index answered, by question."""

    @property
    def group(self) -> str:
        return f"g_{self.topic}"


def write(scene: Scene) -> Written:
    """Messages that a group has received, 500 more that it has not, and undecided half messages."""
    topic, transactional = scene.topic(), scene.topic()
    scenarios.send_all(scene, topic, tags="red,green")
    scenarios.receive_all(scene, topic, group=f"g_{topic}")
    more = scene.run("send-sync", topic=topic, run=run_name(topic), first=_MESSAGES, count=500)
    assert more["acknowledged"] == 500
    written = Written(topic, transactional, tuple(ids.split("/")[1] for ids in more.json("ids")))
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
    written.looked_up.update(look_up(scene.peer, written))
    assert len(written.looked_up) > 10
    return written


def look_up(peer: Peer, written: Written) -> dict[str, bytes]:
    """Answers of the key index, as the records of the log: of keys, unique ids, tags (5.5) and ranges of time."""
    topic = written.topic
    keys = [f"{run_name(topic)}-{number}" for number in (0, 1, _MESSAGES // 2, _MESSAGES + 499)]
    found = {f"key {key}": query(peer, topic, key) for key in keys}
    for unique_id in written.unique_ids[:3]:
        found[f"id {unique_id}"] = query(peer, topic, unique_id, _UNIQUE_KEY_QUERY="true")
    for tag in ("red", "green"):
        newest = query(peer, topic, tag, indexType="T")
        found[f"tag {tag}"] = newest
        times = [record.stored_at_ms for record in parse_records(newest)]
        assert len(times) == 64, "the newest of a thousand"
        # Apache RocketMQ sees whole seconds of the time since the index file began, we milliseconds.
        for begin, end in ((times[0] - 2000, times[-1] + 2000), (0, times[0] - 3_600_000), (times[-1] + 2000, 1 << 62)):
            found[f"tag {tag} {begin}-{end}"] = query(
                peer, topic, tag, indexType="T", beginTimestamp=str(begin), endTimestamp=str(end)
            )
    assert [bool(records) for records in found.values()].count(False) == 4, "two ranges of two tags"
    return found


def query(peer: Peer, topic: str, key: str, **fields: str) -> bytes:
    asked = {"topic": topic, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(1 << 62), **fields}
    assert isinstance(peer, ApacheContainer | GatewayProcess)
    address = peer.broker_address if isinstance(peer, ApacheContainer) else ("127.0.0.1", peer.broker_port)
    answer = frames.ask(address, frames.request(_QUERY_MESSAGE, asked))
    assert answer is not None
    assert answer.code == 0 or (answer.code == _QUERY_NOT_FOUND and not answer.body), f"{key}: {answer.remark}"
    return answer.body


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
    for unique_id in written.unique_ids:
        assert scene.run("view-id", topic=topic, id=unique_id).json("id") == unique_id
    assert look_up(scene.peer, written) == written.looked_up, "the same files give the same answers"

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
