"""The Python admin client against the gateway and against Apache RocketMQ.

What the gateway may not know is tested against Apache RocketMQ; the gateway answers it, or refuses it clearly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.peers import QUICK, Peer, make_peer
from gateway.client import (
    AdminClient,
    BrokerError,
    ClientSettings,
    ConfigurationError,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
    RouteNotFound,
)
from gateway.client.admin.admin_results import MessageNotFound, NothingConsumed
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.codes import ResponseCode

SERVERS = ("gateway-host", "rocketmq-5.5.0")
APACHE = SERVERS[1]
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = make_peer(request.param, tmp_path_factory.mktemp("peer") / "data", QUICK)
    with running(peer):
        yield peer


@pytest.fixture(scope="module")
def admin(server: Peer) -> Iterator[AdminClient]:
    with AdminClient(namesrv=server.nameserver) as client:
        wait_until(lambda: bool(client.cluster.info().broker_addr_table), "a broker at the name server")
        yield client


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"python_admin_{next(_numbers)}"
    admin.topics.create(name, queues=3)
    return name


@pytest.fixture
def filled(server: Peer, topic: str) -> str:
    """A topic with ten messages, each with a key of its own."""
    with Producer("filling", namesrv=server.nameserver) as producer:
        for number in range(10):
            producer.send(Message(topic, b"body %d" % number, keys=[f"key{number}", "all"], tags="t"))
    return topic


class Online:
    """A consumer that is connected while the block runs."""

    def __init__(self, server: Peer, admin: AdminClient, group: str, topic: str) -> None:
        self.got: list[ReceivedMessage] = []
        self._consumer = PushConsumer(group, self.got.append, namesrv=server.nameserver, subscriptions={topic: "*"})
        self._admin = admin
        self._group = group

    def __enter__(self) -> Online:
        self._consumer.start()
        wait_until(lambda: self._admin.groups.consumers(self._group) is not None, "a connected consumer")
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def client_id(self) -> str:
        return self._consumer.client_id


def answered(server: Peer, call: Callable[[], Any]) -> Any:
    """The answer of a server that knows the request: None of a gateway that does not, and says so."""
    try:
        return call()
    except BrokerError as refused:
        if server.name == APACHE or refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return None


def test_a_topic_is_created_changed_listed_and_deleted(admin: AdminClient) -> None:
    name = f"python_admin_{next(_numbers)}"
    admin.topics.create(name, queues=2, write_queues=1, attributes={"message.type": "NORMAL"})
    assert name in admin.topics.list()
    assert name in admin.topics.list(cluster="DefaultCluster")
    (config,) = admin.topics.config(name).values()
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (2, 1, 6)
    admin.topics.create(name, queues=5, perm=4)
    (config,) = admin.topics.config(name).values()
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (5, 5, 4)
    route = admin.topics.route(name)
    assert (len(route.subscribe_queues), route.publish_queues) == (5, ())
    admin.topics.delete(name)
    wait_until(lambda: name not in admin.topics.list(), "the topic to be gone")
    with pytest.raises(RouteNotFound, match=name):
        admin.topics.stats(name)
    admin.topics.delete(name)


def test_names_of_a_namespace_are_told_without_it(server: Peer, admin: AdminClient) -> None:
    name, group = f"python_admin_{next(_numbers)}", f"python_admin_g{next(_numbers)}"
    settings = ClientSettings(namesrv=server.nameserver, namespace="shop")
    sending = ProducerSettings(namesrv=server.nameserver, namespace="shop")
    with AdminClient(settings) as inside, Producer("filling", sending) as producer:
        inside.topics.create(name, queues=1)
        inside.groups.create(group)
        sent = producer.send(Message(name, b"hello", keys="k"))
        assert f"shop%{name}" in admin.topics.list()
        assert name in inside.topics.list()
        assert name not in admin.topics.list()
        assert group in inside.groups.list()
        inside.offsets.reset(group, name, "earliest")
        assert inside.offsets.lag(group, name) == 1
        assert admin.offsets.lag(f"shop%{group}", f"shop%{name}") == 1
        assert [message.topic for message in inside.messages.by_key(name, "k")] == [name]
        assert inside.messages.by_offset(sent.queue, 0).msg_id == sent.msg_id
        inside.topics.delete(name)


def test_a_topic_that_cannot_be_is_refused_before_and_by_the_server(admin: AdminClient) -> None:
    with pytest.raises(ValueError, match="may contain"):
        admin.topics.create("no spaces")
    with pytest.raises(BrokerError):
        admin.topics.create("TBW102")
    with pytest.raises(ConfigurationError, match="DefaultCluster"):
        admin.topics.create("x", cluster="nowhere")


def test_what_queues_hold_is_told(admin: AdminClient, filled: str) -> None:
    stats = admin.topics.stats(filled)
    assert sum(queue.messages for queue in stats.values()) == 10
    for queue, holds in stats.items():
        assert admin.offsets.min(queue) == holds.min_offset == 0
        assert admin.offsets.max(queue) == holds.max_offset
        assert admin.offsets.at(queue, datetime.now(UTC) + timedelta(hours=1)) >= holds.max_offset - 1
        assert admin.offsets.at(queue, datetime.now(UTC) - timedelta(hours=1)) == 0
        stored_at = admin.offsets.earliest_stored_at_ms(queue)
        assert (stored_at is not None) == (holds.messages > 0)


def test_messages_are_found_by_id_by_key_and_by_place(admin: AdminClient, filled: str) -> None:
    wait_until(lambda: len(admin.messages.by_key(filled, "all")) == 10, "the index")
    (found,) = admin.messages.by_key(filled, "key7")
    assert (found.body, found.keys, found.tags) == (b"body 7", ("key7", "all"), "t")
    assert admin.messages.by_id(found.msg_id, filled).body == b"body 7"
    assert admin.messages.by_id(found.offset_msg_id).body == b"body 7"
    assert admin.messages.by_id(found.offset_msg_id, filled).body == b"body 7"
    assert admin.messages.by_offset(found.queue, found.queue_offset).msg_id == found.msg_id
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert admin.messages.by_key(filled, "all", begin=later, end=later + timedelta(hours=1)) == []
    assert admin.messages.by_key(filled, "nothing") == []


def test_a_message_that_is_not_there_is_said_to_be_missing(admin: AdminClient, filled: str) -> None:
    queue = next(iter(admin.topics.stats(filled)))
    with pytest.raises(MessageNotFound, match="the queue holds 0 up to"):
        admin.messages.by_offset(queue, 4711)
    with pytest.raises(MessageNotFound, match="with its topic only"):
        admin.messages.by_id("0" * 32)
    with pytest.raises(ConfigurationError, match="hexadecimal"):
        admin.messages.by_id("what")


def test_a_group_is_created_listed_and_deleted(admin: AdminClient) -> None:
    group = f"python_group_{next(_numbers)}"
    admin.groups.create(SubscriptionGroupConfig(group, retry_max_times=3))
    assert group in admin.groups.list()
    (config,) = admin.groups.config(group).values()
    assert config.retry_max_times == 3
    assert admin.groups.consumers(group) is None
    admin.groups.delete(group, clean_offsets=True)
    assert group not in admin.groups.list()


def test_a_group_that_has_consumed_nothing_is_no_lag_of_zero(admin: AdminClient) -> None:
    with pytest.raises(NothingConsumed, match="misspelt"):
        admin.offsets.lag("no_such_group")


def test_lag_is_what_a_group_has_not_consumed(admin: AdminClient, filled: str) -> None:
    group = f"python_group_{next(_numbers)}"
    admin.groups.create(group)
    stats = admin.topics.stats(filled)
    queue = max(stats, key=lambda queue: stats[queue].messages)
    admin.offsets.set(group, queue, 1)
    progress = admin.offsets.progress(group, filled)
    assert progress.queues[queue].offset == admin.offsets.of_group(group, queue) == 1
    assert progress.queues[queue].lag == stats[queue].messages - 1
    assert admin.offsets.lag(group, filled) == progress.lag == progress.lag_of(filled)
    assert group in admin.groups.of_topic(filled)
    assert filled in admin.groups.topics(group)


def test_a_reset_is_previewed_and_then_done(admin: AdminClient, filled: str) -> None:
    group = f"python_group_{next(_numbers)}"
    admin.groups.create(group)
    stats = admin.topics.stats(filled)
    ends = {queue: holds.max_offset for queue, holds in stats.items()}
    done = admin.offsets.reset(group, filled, "latest")
    assert {change.queue: change.new for change in done.changes} == ends
    assert admin.offsets.lag(group, filled) == 0
    preview = admin.offsets.preview_reset(group, filled, "earliest")
    assert (preview.repeated, preview.skipped, preview.online) == (10, 0, 0)
    assert admin.offsets.lag(group, filled) == 0, "a preview changes nothing"
    admin.offsets.reset(group, filled, datetime.now(UTC) - timedelta(hours=1))
    assert {queue: admin.offsets.of_group(group, queue) for queue in stats} == dict.fromkeys(stats, 0)
    queue = max(ends, key=lambda queue: ends[queue])
    done = admin.offsets.reset(group, filled, {queue: 4711})
    assert [(change.queue, change.new) for change in done.changes] == [(queue, ends[queue])]
    with pytest.raises(ConfigurationError, match="queue of topic"):
        admin.offsets.preview_reset(group, filled, {MessageQueue(filled, "nobody", 0): 1})
    with pytest.raises(ConfigurationError, match="time zone"):
        admin.offsets.preview_reset(group, filled, datetime(2026, 1, 1))


def test_connected_clients_are_told(server: Peer, admin: AdminClient, topic: str) -> None:
    group = f"python_group_{next(_numbers)}"
    with Online(server, admin, group, topic) as online, Producer(f"p_{group}", namesrv=server.nameserver) as producer:
        producer.send(Message(topic, b"x"))
        consumers = admin.groups.consumers(group)
        assert consumers is not None
        assert [client.client_id for client in consumers.connections] == [online.client_id]
        assert consumers.connections[0].language == "PYTHON"
        assert topic in consumers.subscriptions
        wait_until(lambda: bool(admin.groups.producers(f"p_{group}").connections), "a connected producer")
        assert [client.client_id for client in admin.groups.producers(f"p_{group}").connections] == [producer.client_id]
        assert f"p_{group}" in admin.groups.all_producers()
    wait_until(lambda: admin.groups.consumers(group) is None, "the consumer to be gone")
    assert admin.groups.producers(f"p_{group}").connections == ()


def test_a_connected_group_is_reset_by_its_broker(server: Peer, admin: AdminClient, filled: str) -> None:
    group = f"python_group_{next(_numbers)}"
    admin.groups.create(group)
    admin.offsets.reset(group, filled, "latest")
    with Online(server, admin, group, filled) as online:
        assert admin.offsets.preview_reset(group, filled, "earliest").online == 1
        if answered(server, lambda: admin.offsets.reset(group, filled, "earliest")) is not None:
            wait_until(lambda: len({message.msg_id for message in online.got}) == 10, "all ten once more", timeout_s=40)


def test_a_client_says_what_it_is_doing(server: Peer, admin: AdminClient, filled: str) -> None:
    group = f"python_group_{next(_numbers)}"
    with Online(server, admin, group, filled) as online:
        info = answered(server, lambda: admin.groups.running_info(group, online.client_id))
        if info is not None:
            assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        (found,) = admin.messages.by_key(filled, "key3")
        result = answered(
            server, lambda: admin.groups.consume_directly(group, online.client_id, found.offset_msg_id, filled)
        )
        if result is not None:
            assert result["consumeResult"] == "CR_SUCCESS"
            assert b"body 3" in {message.body for message in online.got}
        subscription = answered(server, lambda: admin.groups.subscription(group, filled))
        if subscription is not None:
            assert (subscription.topic, subscription.sub_string) == (filled, "*")


def test_offsets_are_cloned_and_time_spans_told(server: Peer, admin: AdminClient, filled: str) -> None:
    group, heir = f"python_group_{next(_numbers)}", f"python_group_{next(_numbers)}"
    for each in (group, heir):
        admin.groups.create(each)
    admin.offsets.reset(group, filled, "latest")

    def clone() -> bool:
        admin.offsets.clone(group, heir, filled)
        return True

    if answered(server, clone):
        assert admin.offsets.lag(heir, filled) == 0
    spans = answered(server, lambda: admin.offsets.time_spans(group, filled))
    if spans is not None:
        assert [span.queue for span in spans] == sorted(admin.topics.stats(filled))


def test_a_broker_tells_its_figures_and_settings(server: Peer, admin: AdminClient) -> None:
    (name,) = admin.cluster.info().broker_addr_table
    assert admin.cluster.info().cluster_addr_table == {"DefaultCluster": (name,)}
    assert "putTps" in admin.cluster.runtime(name)
    before = admin.cluster.config(name)
    assert before["brokerName"] == name
    if server.name == APACHE:
        admin.cluster.set_config(name, {"transactionCheckMax": "7"})
        assert admin.cluster.config(name)["transactionCheckMax"] == "7"
    else:
        with pytest.raises(BrokerError, match="at start only"):
            admin.cluster.set_config(name, {"transactionCheckMax": "7"})
    answered(server, lambda: admin.cluster.consume_stats(name))
    answered(server, lambda: admin.cluster.delay_offsets(name))
    answered(server, lambda: admin.offsets.table(name))
    with pytest.raises(ConfigurationError, match="broker with a master"):
        admin.cluster.runtime("nobody")
