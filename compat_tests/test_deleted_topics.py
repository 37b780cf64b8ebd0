"""Directories in which Apache RocketMQ 5.5.0 deleted topics and made them again: no damage, nothing comes back.

The directory is taken while the broker runs, as a kill would leave it, and after it was stopped.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat_tests.environment import wait_until
from compat_tests.java_client import JavaClient
from compat_tests.peers import ApacheContainer, GatewayProcess
from compat_tests.scenarios import run_name
from compat_tests.test_store_tool import store, verified
from compat_tests.written import SETTINGS, served
from gateway.client import AdminClient, LitePullConsumer, Message, MessageQueue, Producer

OLD, NEW = 30, 20
"""Messages of a topic that a group has read, and of the one made again."""
AGAIN, GONE, OTHER = "again", "gone", "other"
"""A topic made again, one that was not, and one that goes on."""
SIZES = tuple(word for key in ("maxHashSlotNum", "maxIndexNum") for word in ("--set", f"{key}={SETTINGS[key]}"))


def write(nameserver: str) -> None:
    with AdminClient(namesrv=nameserver) as admin, Producer("writers", namesrv=nameserver) as producer:
        for topic in (AGAIN, GONE, OTHER):
            admin.topics.create(topic, queues=2)
        for topic in (AGAIN, GONE, OTHER):
            # Queue 0 last: when it begins anew, that proves that the message of queue 1 was deleted, too.
            for queue in sorted(producer.publish_queues(topic), key=lambda queue: -queue.queue_id):
                producer.send(Message(topic, b"first life"), queue=queue)
        admin.topics.delete(AGAIN)
        admin.topics.delete(GONE)
        admin.topics.create(AGAIN, queues=2)
    with Producer("more_writers", namesrv=nameserver) as producer:
        queues = sorted(producer.publish_queues(AGAIN), key=lambda queue: queue.queue_id)
        producer.send(Message(AGAIN, b"second life"), queue=queues[0])


def read(nameserver: str, topic: str) -> dict[int, list[bytes]]:
    """Everything a consumer can get, by queue."""
    found: dict[int, list[bytes]] = {}
    with AdminClient(namesrv=nameserver) as admin, LitePullConsumer("readers", namesrv=nameserver) as consumer:
        ends: dict[MessageQueue, int] = {queue: holds.max_offset for queue, holds in admin.topics.stats(topic).items()}
        consumer.assign(ends)
        for queue in ends:
            consumer.seek(queue, 0)
        while sum(map(len, found.values())) < sum(ends.values()):
            for message in consumer.poll(1.0):
                found.setdefault(message.queue.queue_id, []).append(message.body)
    return found


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return two directories: as a kill leaves it, and as a stop does."""
    root = tmp_path_factory.mktemp("deleted")
    data = root / "stopped"
    data.mkdir()
    peer = ApacheContainer(SETTINGS, store=data, orderly=True)
    peer.start()
    try:
        write(peer.nameserver)
        shutil.copytree(data, root / "killed", ignore=shutil.ignore_patterns("timerwheel"))
    finally:
        peer.stop()
    return {"killed": root / "killed", "stopped": data}


@pytest.mark.parametrize(
    ("tool", "how"), [("serve", "stopped"), ("serve", "killed"), ("import", "stopped"), ("repair", "killed")]
)
def test_what_apache_rocketmq_deleted_stays_deleted(
    directories: dict[str, Path], tmp_path: Path, tool: str, how: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(directories[how], data)
    assert (data / "abort").exists() == (how == "killed")
    verified(data)
    if tool == "import":
        store("import", data, tmp_path / "imported", *SIZES)
        data = tmp_path / "imported"
    elif tool == "repair":
        units = next((data / "consumequeue" / OTHER / "0").iterdir())
        with units.open("r+b") as file:
            file.seek(9)
            file.write(b"\x07")
        store("repair", data, "--apply", *SIZES)
    verified(data)
    peer = GatewayProcess(data, SETTINGS)
    peer.start()
    try:
        assert read(peer.nameserver, AGAIN) == {0: [b"second life"]}
        assert read(peer.nameserver, OTHER) == {0: [b"first life"], 1: [b"first life"]}
        with AdminClient(namesrv=peer.nameserver) as admin:
            assert GONE not in admin.topics.list()
    finally:
        peer.stop()
    verified(data)


def test_a_stock_consumer_that_stays_gets_all_of_a_topic_made_again(newest_client: JavaClient, tmp_path: Path) -> None:
    """Of fewer messages than it had read: Apache RocketMQ would pass over all of them."""
    with served(GatewayProcess(tmp_path / "data", SETTINGS), newest_client) as scene:
        topic = scene.topic(queues=1)
        group, name = f"g_{topic}", run_name(topic)
        consumer = scene.start("consume-push", topic=topic, run=name, group=group, count=OLD + NEW)
        scene.run("send-sync", topic=topic, run=name, count=OLD)
        with AdminClient(namesrv=scene.peer.nameserver) as admin:
            (queue,) = admin.topics.stats(topic)
            wait_until(lambda: admin.offsets.of_group(group, queue) == OLD, "the group to have read all", timeout_s=60)
            admin.topics.delete(topic)
            admin.topics.create(topic, queues=1)
        scene.run("send-sync", topic=topic, run=name, first=OLD, count=NEW)
        assert consumer.result().numbers() == frozenset(range(OLD + NEW))
