"""`rocketmq-gateway store` on directories of Apache RocketMQ 5.5.0, and Apache RocketMQ on directories we repaired.

What Apache's broker wrote must verify without a finding; what we export it must serve; and a log that was damaged in
the middle must be readable for it, message by message, once it is repaired.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from compat_tests import scenarios
from compat_tests.java_client import JavaClient
from compat_tests.peers import ApacheContainer, GatewayProcess, Peer, gateway_command
from compat_tests.scenarios import Scene, run_name
from compat_tests.written import SETTINGS, Directory, served
from wire.message.record import parse_record

_DAMAGED = 3
# What no file says of itself: the sizes of index files, and how long a delayed message waits.
_WRITTEN_WITH = tuple(
    word
    for key in ("maxHashSlotNum", "maxIndexNum", "messageDelayLevel")
    for word in ("--set", f"{key}={SETTINGS[key]}")
)


def store(*arguments: str | Path, code: int = 0) -> str:
    """Run a store command; its output."""
    command = [*gateway_command(), "store", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    said = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
    assert done.returncode == code, f"{command} exited with {done.returncode}:\n{said}"
    return done.stdout


def verified(directory: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(store("verify", directory, "--json", *_WRITTEN_WITH))
    assert values["damage"] == []
    return values


def test_what_apache_rocketmq_wrote_has_no_findings(
    newest_client: JavaClient, written_by_apache: Directory, tmp_path: Path
) -> None:
    data = written_by_apache.copy(tmp_path / "store")
    topic = written_by_apache.written.topic
    values = verified(data)
    assert values["unsettled"] == []
    assert values["messages"] > 2500
    dumped = store("dump", data, "--topic", topic, *_WRITTEN_WITH).splitlines()
    assert len(dumped) == 2500
    target = tmp_path / "imported"
    store("import", data, target, *_WRITTEN_WITH)
    with served(GatewayProcess(target, SETTINGS), newest_client) as scene:
        scenarios.receive_all(scene, topic, count=2500)


def test_apache_rocketmq_serves_what_we_export(
    newest_client: JavaClient, written_by_gateway: Directory, tmp_path: Path
) -> None:
    data, target = written_by_gateway.copy(tmp_path / "data"), tmp_path / "exported"
    verified(data)
    store("export", data, target, *_WRITTEN_WITH)
    with served(ApacheContainer(SETTINGS, store=target), newest_client) as scene:
        scenarios.receive_all(scene, written_by_gateway.written.topic, group="another", count=2500)


def test_apache_rocketmq_serves_a_directory_that_was_damaged_and_repaired(
    newest_client: JavaClient, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with served(GatewayProcess(data, SETTINGS), newest_client) as scene:
        topic = scene.topic()
        scenarios.send_all(scene, topic)
    damaged = damage(data, topic, _DAMAGED)
    store("verify", data, *_WRITTEN_WITH, code=1)
    store("repair", data, "--apply", *_WRITTEN_WITH)
    verified(data)
    peers: tuple[Peer, ...] = (
        ApacheContainer(SETTINGS, store=data, orderly=True),
        GatewayProcess(data, SETTINGS),
    )
    for peer in peers:
        with served(peer, newest_client) as scene:
            read_over(scene, topic, damaged)
        verified(data)


def damage(data: Path, topic: str, count: int) -> set[str]:
    """Zero a few messages of a topic in the middle of the log; their queues and offsets."""
    (path,) = (data / "commitlog").glob("0" * 20)
    lines = store("dump", data, "--topic", topic, "--limit", str(1000 + count), *_WRITTEN_WITH).splitlines()
    messages = [json.loads(line) for line in lines[1000:]]
    with path.open("r+b") as file:
        for message in messages:
            file.seek(message["commit_log_offset"])
            assert parse_record(file.read(message["size"])).topic == topic
            file.seek(message["commit_log_offset"] + 60)
            file.write(bytes(message["size"] - 60))
    return {f"{message['queue_id']}/{message['queue_offset']}" for message in messages}


def read_over(scene: Scene, topic: str, damaged: set[str]) -> None:
    """A consumer gets all other messages, a stand-in for each damaged one, and what is sent afterwards."""
    name, expected = run_name(topic), scene.messages - len(damaged)
    group = f"g_{topic}_{type(scene.peer).__name__}"
    got = scene.run("consume-pull", topic=topic, run=name, group=group, count=expected, linger_ms=2000)
    assert (got["received"], got["duplicates"], got["corrupt"]) == (expected, 0, 0), str(got)
    assert got["strangers"] == len(damaged), str(got)
    assert scene.run("offsets", topic=topic, group="onlooker")["max"] == scene.messages
    more = scene.topic()
    scenarios.send_all(scene, more)
    scenarios.receive_all(scene, more)
