"""A store directory with all kinds of things in it, written by one server and to be read by others.

Messages, the key index, a group's offsets and half messages that nobody has decided. Starting Apache RocketMQ and
ending it in an orderly way takes half a minute: each server writes one directory in a session, every test gets a copy.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests import frames, scenarios
from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess, Peer
from compat_tests.scenarios import Scene, run_name
from wire.message.record import parse_records

MESSAGES = 2000
HALF_MESSAGES = 60
_QUERY_MESSAGE = 12
_QUERY_NOT_FOUND = 22
# Sizes must be the same on both sides, as they are by default: Apache RocketMQ takes the places of things in a file
# from its settings, not from the file.
SETTINGS = {
    **QUICK,
    "mappedFileSizeCommitLog": "104857600",
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
}


@dataclass(frozen=True, slots=True)
class Written:
    """The directory and the facts that the first server left."""

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
    more = scene.run("send-sync", topic=topic, run=run_name(topic), first=MESSAGES, count=500)
    assert more["acknowledged"] == 500
    written = Written(topic, transactional, tuple(ids.split("/")[1] for ids in more.json("ids")))
    half = scene.run(
        "transact",
        topic=transactional,
        run=run_name(transactional),
        group=f"pg_{transactional}",
        count=HALF_MESSAGES,
        all_unknown=True,
        no_checks=True,
        wait_checks_s=0,
    )
    assert half["acknowledged"] == HALF_MESSAGES
    written.looked_up.update(look_up(scene.peer, written))
    assert len(written.looked_up) > 10
    return written


def look_up(peer: Peer, written: Written) -> dict[str, bytes]:
    """Answers of the key index, as the records of the log: of keys, unique ids, tags (5.5) and ranges of time."""
    topic = written.topic
    keys = [f"{run_name(topic)}-{number}" for number in (0, 1, MESSAGES // 2, MESSAGES + 499)]
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


@dataclass(frozen=True, slots=True)
class Directory:
    """A store that nobody serves any more."""

    path: Path
    written: Written

    def copy(self, to: Path) -> Path:
        """A copy for one test; large files with little in them stay small."""
        subprocess.run(["cp", "-a", "--sparse=always", str(self.path), str(to)], check=True, timeout=60)
        return to


def written_by_gateway(client: JavaClient, path: Path) -> Directory:
    with served(GatewayProcess(path, SETTINGS), client) as scene:
        return Directory(path, write(scene))


def written_by_apache(client: JavaClient, path: Path) -> Directory:
    path.mkdir()
    with served(ApacheContainer(SETTINGS, store=path, orderly=True), client) as scene:
        return Directory(path, write(scene))


@contextmanager
def served(peer: Peer, client: JavaClient) -> Iterator[Scene]:
    peer.start()
    try:
        yield Scene(peer, client, MESSAGES)
    finally:
        peer.stop()
