"""The gateway in a container, reached from another one: what depends on the addresses that it tells its clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests import scenarios
from compat_tests.environment import LABEL, engine, owner, wait_until
from compat_tests.images import image
from compat_tests.peers import GatewayContainer
from compat_tests.scenarios import Scene


def test_what_is_sent_to_a_container_is_received_once(in_container: Scene) -> None:
    topic = in_container.topic()
    scenarios.send_all(in_container, topic)
    scenarios.receive_all(in_container, topic, "consume-push")


def test_queues_are_locked_and_kept_in_order_in_a_container(in_container: Scene) -> None:
    topic = in_container.topic(queues=8)
    scenarios.send_all(in_container, topic, "send-orderly", shards=16, threads=8)
    got = scenarios.receive_all(in_container, topic, "consume-orderly", shards=16)
    assert got["order_breaks"] == 0, str(got)


def test_messages_are_viewed_by_ids_that_name_a_container(in_container: Scene) -> None:
    topic = in_container.topic()
    sent = in_container.run("send-sync", topic=topic, run=scenarios.run_name(topic), count=10)
    offset_id, unique_id, key = sent.json("ids")[0].split("/")
    for message_id in (offset_id, unique_id):
        assert in_container.run("view-id", topic=topic, id=message_id).text("key") == key


def test_producers_are_asked_by_a_container(in_container: Scene) -> None:
    scenarios.transactions_by_thirds(in_container)


def test_the_container_has_no_privileges_and_writes_to_its_volume_only(in_container: Scene) -> None:
    peer = in_container.peer
    assert isinstance(peer, GatewayContainer)
    status = dict(line.split(":\t", 1) for line in peer.shell("cat /proc/1/status").splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["10001"] * 4
    assert [int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    written = peer.shell("for each in / /app /etc /var/tmp /tmp /data; do touch $each/new 2>&1 && echo $each; done")
    assert written.count("Read-only file system") == 4, written
    assert written.split("\n")[-3:] == ["/tmp", "/data", ""]


def ended(command: list[str], **keywords: Any) -> tuple[int, str]:
    """Run the image until it ends: exit code and what it wrote."""
    with engine() as client:
        container = client.containers.run(image("gateway"), command, detach=True, labels={LABEL: owner()}, **keywords)
        try:
            status = container.wait(timeout=60)["StatusCode"]
            return status, container.logs().decode()
        finally:
            container.remove(force=True, v=True)


@pytest.fixture
def volume() -> Iterator[dict[str, dict[str, str]]]:
    """A new volume, as the argument that mounts it at /data."""
    with engine() as client:
        made = client.volumes.create(labels={LABEL: owner()})
        yield {made.name: {"bind": "/data", "mode": "rw"}}
        made.remove(force=True)


def test_point_20_the_image_is_compiled_and_its_user_has_no_privileges() -> None:
    status, said = ended(["version"])
    assert (status, said.count(", compiled)")) == (0, 1), said
    with engine() as client:
        assert client.images.get(image("gateway")).attrs["Config"]["User"] == "10001:10001"


def test_point_20_a_volume_of_an_earlier_image_is_refused_with_the_command_that_mends_it(
    volume: dict[str, dict[str, str]],
) -> None:
    as_root = {"user": "0", "volumes": volume}
    assert ended(["-c", "touch /data/lock && chown -R 0:0 /data"], entrypoint="sh", **as_root)[0] == 0
    serve = ["serve", "--data", "/data"]
    status, said = ended(serve, volumes=volume)
    assert status == 1
    assert "belongs to user 0, and this process runs as user 10001: run 'chown -R 10001:10001 /data' as root" in said
    assert said.count("Error: ") == 1
    assert "Traceback" not in said
    assert ended(["-R", "10001:10001", "/data"], entrypoint="chown", **as_root)[0] == 0
    with engine() as client:
        container = client.containers.run(image("gateway"), serve, detach=True, volumes=volume, labels={LABEL: owner()})
        try:
            wait_until(lambda: b"ready nameserver=" in container.logs(), "the server starts", timeout_s=60)
        finally:
            container.remove(force=True)
