"""Pop consumption with stock clients: a Java push consumer whose queues the broker shares out, set to pop by mqadmin.

Apache RocketMQ 5.5.0 is the control.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.admin_tool import admin_tool, failure
from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, GatewayProcess, Peer, make_peer
from gateway.client import (
    AdminClient,
    BrokerError,
    ConsumeFrom,
    Message,
    PoppedMessage,
    Producer,
    RocketMQError,
    SimpleConsumer,
    SimpleSettings,
    Sql,
)
from wire.codes import ResponseCode

GATEWAY, APACHE = "gateway-host", "rocketmq-5.5.0"
COUNT = 300
_numbers = itertools.count()
_SESSION = uuid.uuid4().hex[:6]


@pytest.fixture(scope="module", params=(GATEWAY, APACHE))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    settings = {**QUICK, "enablePropertyFilter": "true", "popFromRetryProbability": "50"}
    with running(make_peer(request.param, tmp_path_factory.mktemp("peer") / "data", settings)) as peer:
        yield peer


@pytest.fixture
def topic(server: Peer) -> str:
    topic = f"popped_{_SESSION}_{next(_numbers)}"
    with AdminClient(namesrv=server.nameserver) as admin:

        def is_there() -> bool:
            try:
                admin.topics.create(topic, queues=4)
                return len(admin.topics.route(topic).subscribe_queues) == 4
            except RocketMQError:
                return False

        wait_until(is_there, f"a route of {topic}")
    return topic


def send(server: Peer, topic: str, count: int, **parts: object) -> None:
    with Producer("popped_p", namesrv=server.nameserver) as producer:
        for number in range(count):
            producer.send(Message(topic, b"%d" % number, **parts))  # type: ignore[arg-type]


def consumer(server: Peer, topic: str, wanted: str | Sql = "*") -> SimpleConsumer:
    settings = SimpleSettings(namesrv=server.nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
    return SimpleConsumer("g_" + topic, settings, subscriptions={topic: wanted})


def receive(consumer: SimpleConsumer, count: int, timeout_s: float = 20.0, **terms: float) -> list[PoppedMessage]:
    """Return this number of messages, or those that came in time."""
    end = time.monotonic() + timeout_s
    got: list[PoppedMessage] = []
    while len(got) < count and time.monotonic() < end:
        got += consumer.receive(min(32, count - len(got)), timeout=2, **terms)
    return got


def test_a_java_push_consumer_pops_when_mqadmin_says_so(
    server: Peer, topic: str, clients: Callable[[str], JavaClient]
) -> None:
    java, group, run = clients("5.5.0"), "g_" + topic, "r" + topic.rsplit("_", 1)[1]
    common: dict[str, Any] = {"ns": server.nameserver, "topic": topic, "run": run}
    with AdminClient(namesrv=server.nameserver) as admin, admin_tool(server.nameserver) as tool:
        admin.groups.create(group)
        lines = tool.run(f"setConsumeMode -c DefaultCluster -t {topic} -g {group} -m POP -q 0")
        assert failure(lines) is None, lines
    receiving = java.start("consume-push", group=group, count=COUNT, broker_balances=True, timeout_s=50, **common)
    sent = java.run("send-sync", count=COUNT, **common)
    assert sent["acknowledged"] == COUNT
    got = receiving.result(60)
    assert (got["received"], got["duplicates"], got["strangers"], got["corrupt"]) == (COUNT, 0, 0, 0), str(got)
    with consumer(server, topic) as other:  # what was acknowledged is not there for anyone of the group
        assert other.receive(32, timeout=1) == []


def test_what_is_not_acknowledged_comes_again_and_counts(server: Peer, topic: str) -> None:
    send(server, topic, 10)
    with consumer(server, topic) as popping:
        first = receive(popping, 10, invisible_time=3)
        assert sorted(int(message.body) for message in first) == list(range(10))
        popping.ack([message for message in first if int(message.body) % 2])
        again = receive(popping, 5, invisible_time=20)
        assert sorted(int(message.body) for message in again) == [0, 2, 4, 6, 8]
        assert {message.reconsume_times for message in again} == {1}
        assert {message.topic for message in again} == {topic}
        popping.ack(again)
        assert popping.receive(32, timeout=1) == []


@pytest.mark.parametrize("wanted", ["red || blue", Sql("colour IN ('red', 'blue')")], ids=["tags", "sql92"])
def test_filters_hold_for_pops(server: Peer, topic: str, wanted: str | Sql) -> None:
    for colour in ("red", "green", "blue"):
        send(server, topic, 5, tags=colour, properties={"colour": colour})
    with consumer(server, topic, wanted) as popping:
        got = receive(popping, 10)
        popping.ack(got)
        assert sorted(message.tags or "" for message in got) == ["blue"] * 5 + ["red"] * 5
        assert popping.receive(32, timeout=1) == []


def test_a_held_pop_is_woken_by_a_message(server: Peer, topic: str) -> None:
    with consumer(server, topic) as popping:
        assert popping.receive(1, timeout=0.5) == []
        begun = time.monotonic()
        send(server, topic, 1)
        got = receive(popping, 1)
        assert time.monotonic() - begun < 10
        popping.ack(got)


def test_a_kill_loses_nothing_that_was_popped(tmp_path: Path) -> None:
    peer = GatewayProcess(tmp_path / "data", QUICK, bind="127.0.0.1")
    with running(peer):
        topic = "popped_killed"
        with AdminClient(namesrv=peer.nameserver) as admin:
            admin.topics.create(topic, queues=4)
        send(peer, topic, 40)
        with consumer(peer, topic) as popping:
            first = receive(popping, 40, invisible_time=8)
            assert len(first) == 40
            popping.ack(first[:20])
        peer.kill()
        peer.start()
        with consumer(peer, topic) as popping:
            again = receive(popping, 20, invisible_time=60)
            assert sorted(message.body for message in again) == sorted(message.body for message in first[20:])
            popping.ack(again)
            with pytest.raises(BrokerError) as refused:
                popping.ack(first[30])  # it was given out again since
            assert refused.value.code == ResponseCode.NO_MESSAGE
            assert popping.receive(32, timeout=1) == []
