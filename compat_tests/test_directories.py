"""A store directory changes hands between our gateway and Apache RocketMQ 5.5.0, in both directions.

Messages, the key index, a group's offsets and half messages that nobody has decided must all be found.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests import frames, scenarios
from compat_tests.frames import Frame
from compat_tests.java_client import JavaClient
from compat_tests.peers import ApacheContainer, GatewayProcess
from compat_tests.scenarios import Scene, run_name
from compat_tests.soak.streams import commits
from compat_tests.written import HALF_MESSAGES, MESSAGES, SETTINGS, Directory, Written, look_up, served
from gateway.client import AdminClient, Message, Producer
from wire.message.record import parse_records

LIGHT = "%LMQ%a"


def take_over(scene: Scene, written: Written) -> None:
    """The second server must know all of it, and go on."""
    topic, name = written.topic, run_name(written.topic)
    resumed = scene.run("consume-push", topic=topic, run=name, group=written.group, count=500)
    assert resumed.numbers() == frozenset(range(MESSAGES, MESSAGES + 500)), str(resumed)
    scenarios.receive_all(scene, topic, group=f"new_{topic}", count=MESSAGES + 500)
    green = frozenset(range(1, MESSAGES, 2))
    tagged = scene.run("consume-pull", topic=topic, run=name, group=f"t_{topic}", tags="green", count=len(green))
    assert tagged.numbers() == green
    found = scene.run("query-key", topic=topic, run=name, count=MESSAGES + 500)
    assert found["found"] == MESSAGES + 500, str(found)
    for unique_id in written.unique_ids:
        assert scene.run("view-id", topic=topic, id=unique_id).json("id") == unique_id
    assert look_up(scene.peer, written) == written.looked_up, "the same files give the same answers"

    # One more transaction (its number commits): who has sent nothing does not report to the broker.
    decided = scene.run(
        "transact",
        topic=written.transactional,
        run=run_name(written.transactional),
        group=f"pg_{written.transactional}",
        first=HALF_MESSAGES,
        count=1,
        expect_checks=HALF_MESSAGES,
        wait_checks_s=60,
    )
    assert decided.numbers("checked") >= frozenset(range(HALF_MESSAGES))
    committed = frozenset(n for n in range(HALF_MESSAGES + 1) if commits(n))
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
    scene.run("send-sync", topic=topic, run=name, first=MESSAGES + 500, count=100)
    after = scene.run("consume-push", topic=topic, run=name, group=written.group, count=100)
    assert after.numbers() == frozenset(range(MESSAGES + 500, MESSAGES + 600))


def test_apache_rocketmq_serves_a_directory_of_ours(
    newest_client: JavaClient, written_by_gateway: Directory, tmp_path: Path
) -> None:
    data = written_by_gateway.copy(tmp_path / "store")
    with served(ApacheContainer(SETTINGS, store=data), newest_client) as scene:
        take_over(scene, written_by_gateway.written)


def test_we_serve_a_directory_of_apache_rocketmq(
    newest_client: JavaClient, written_by_apache: Directory, tmp_path: Path
) -> None:
    data = written_by_apache.copy(tmp_path / "store")
    with served(GatewayProcess(data, SETTINGS), newest_client) as scene:
        take_over(scene, written_by_apache.written)


class LightQueue:
    """A light queue and its group, as a client of either server uses them."""

    def __init__(self, nameserver: str, topic: str) -> None:
        with AdminClient(namesrv=nameserver) as admin:
            (addresses,) = admin.topics.route(topic).brokers.values()
        host, port = addresses[0].split(":")
        self._address = (host, int(port))
        self._nameserver = nameserver
        self._topic = topic
        self._names = {"topic": LIGHT, "consumerGroup": LIGHT, "queueId": "0"}

    def send(self, body: bytes) -> None:
        """A message to a topic and to the light queue."""
        with Producer("light_p", namesrv=self._nameserver) as producer:
            producer.send(Message(self._topic, body, properties={"INNER_MULTI_DISPATCH": f"%LMQ%other,{LIGHT}"}))

    def pull(self) -> list[tuple[bytes, str, str]]:
        """Everything in it: body, topic, its offsets in light queues."""
        fields = {"queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "subVersion": "1"}
        fields |= {"suspendTimeoutMillis": "0", "subscription": "*", **self._names}
        records = parse_records(self._ask(11, fields).body)
        return [(record.body, record.topic, record.property_map["INNER_MULTI_QUEUE_OFFSET"]) for record in records]

    def commit(self, offset: int) -> None:
        """Consumed up to here."""
        assert self._ask(15, {"commitOffset": str(offset), **self._names}).code == 0

    def committed(self) -> int:
        """Return the committed offset, once it is known."""
        return int(self._ask(14, self._names).fields["offset"])

    def _ask(self, code: int, fields: dict[str, str]) -> Frame:
        answer = frames.ask(self._address, frames.request(code, fields))
        assert answer is not None
        return answer


def test_a_directory_goes_there_and_back(newest_client: JavaClient, tmp_path: Path) -> None:
    """Ours, Apache RocketMQ's, ours again: nothing that either wrote is lost, nor is it in light queues."""
    data = tmp_path / "store"
    data.mkdir()
    settings = {**SETTINGS, "enableLmq": "true", "enableMultiDispatch": "true"}
    with served(GatewayProcess(data, settings), newest_client) as scene:
        topic, other = scene.topic(), scene.topic()
        scenarios.send_all(scene, topic)
        light = LightQueue(scene.peer.nameserver, other)
        light.send(b"of ours")
        light.commit(1)
    with served(ApacheContainer(settings, store=data, orderly=True), newest_client) as scene:
        scene.topic()  # when it is there, clients find the others, too
        light = LightQueue(scene.peer.nameserver, other)
        assert light.committed() == 1
        light.send(b"of Apache RocketMQ")
        assert light.pull() == [(b"of ours", other, "0,0"), (b"of Apache RocketMQ", other, "1,1")]
        light.commit(2)
        sent = scene.run("send-sync", topic=topic, run=run_name(topic), first=MESSAGES, count=1000)
        assert (sent["acknowledged"], sent["failed"]) == (1000, 0), str(sent)
    with served(GatewayProcess(data, settings), newest_client) as scene:
        light = LightQueue(scene.peer.nameserver, other)
        assert light.committed() == 2
        light.send(b"of ours again")
        assert [(body, offsets) for body, _, offsets in light.pull()][1:] == [
            (b"of Apache RocketMQ", "1,1"),
            (b"of ours again", "2,2"),
        ]
        scenarios.receive_all(scene, topic, count=MESSAGES + 1000)
