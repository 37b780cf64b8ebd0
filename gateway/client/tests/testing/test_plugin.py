"""The pytest plugin as its users have it: in a pytest of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gateway.client.testing.plugin import GatewayForTest

TESTS = """
import pytest
from gateway.client import AdminClient, LitePullConsumer, Message, Producer
from gateway.client.consume.settings.consumer_settings import LitePullSettings
from gateway.client.consume.settings.consumer_settings import ConsumeFrom

names = []


@pytest.fixture(scope="session")
def rocketmq_gateway_settings():
    return {"brokerName": "made-for-tests"}


@pytest.mark.parametrize("part", ["a/b", "x y"])
def test_each_test_has_a_topic_of_its_own(rocketmq_gateway, part):
    topic = rocketmq_gateway.topic("orders", queues=1)
    names.append(topic)
    with Producer(rocketmq_gateway.group(), namesrv=rocketmq_gateway.nameserver) as producer:
        producer.send(Message(topic, b"one"))
    settings = LitePullSettings(namesrv=rocketmq_gateway.nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
    with LitePullConsumer(rocketmq_gateway.group(), settings, subscriptions={topic: "*"}) as consumer:
        assert [message.body for message in consumer.poll(10)] == [b"one"]
    assert list(rocketmq_gateway.admin.cluster.info().broker_addr_table) == ["made-for-tests"]


def test_topics_of_other_tests_are_gone(rocketmq_gateway):
    assert len(set(names)) == 2
    assert not set(names) & set(rocketmq_gateway.admin.topics.list())


def test_the_server_can_be_killed(rocketmq_gateway, rocketmq_gateway_server):
    rocketmq_gateway_server.kill()
    rocketmq_gateway_server.start()
    assert rocketmq_gateway.admin.topics.list()
"""


def test_the_fixture_gives_a_gateway_and_fresh_topics(tmp_path: Path) -> None:
    (tmp_path / "test_service.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += ["-W", "error", "--rootdir", str(tmp_path), str(tmp_path)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


def test_point_16_the_page_names_the_type_of_the_fixture_and_all_that_it_has() -> None:
    page = (Path(__file__).parents[4] / "docs" / "python-client" / "testing-kit.md").read_text(encoding="utf-8")
    assert "from gateway.client.testing.plugin import GatewayForTest" in page
    assert "(rocketmq_gateway: GatewayForTest)" in page
    for name in {*vars(GatewayForTest), "server"}:
        assert name.startswith("_") or re.search(rf"^\|.*`{name}\b.*\|$", page, re.MULTILINE), name
