"""The admin client against a scripted broker: what it asks of whom, and what it makes of odd answers."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from gateway.client import process
from gateway.client.admin.admin import AdminClient
from gateway.client.admin.admin_results import MessageNotFound, NothingConsumed
from gateway.client.compression import Hold
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.pulled import inner_messages
from gateway.client.errors import (
    BrokerError,
    ClientClosed,
    ConfigurationError,
    MessageRefused,
    ProtocolError,
    RequestTimeout,
    RouteNotFound,
    UsedAfterFork,
)
from gateway.client.message import MessageQueue
from gateway.client.tests.consume.test_pulled import bomb
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.bodies.consumers import Connection, ConsumerConnection
from wire.bodies.route import BrokerData, ClusterInfo
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.tools.statistics import ConsumeStats, OffsetWrapper
from wire.bodies.tools.statistics import MessageQueue as QueueKey
from wire.bodies.topics import TopicConfig, TopicList
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.offsets import ResetOffsetRequest, UpdateConsumerOffsetRequest
from wire.headers.topics import CreateTopicRequest
from wire.message.message_id import build_offset_message_id, pack_host
from wire.message.record import OutgoingMessage, StoredMessage, build_record

QUEUE = MessageQueue("orders", "broker-a", 0)
Scenario = Callable[[ScriptedBroker, AdminClient], Awaitable[None]]


def with_admin(scenario: Scenario, queues: int = 2, namespace: str = "") -> None:
    async def whole() -> None:
        async with ScriptedBroker(queues=queues) as broker:
            info = ClusterInfo({"broker-a": BrokerData("c1", "broker-a", {0: broker.address})}, {"c1": ("broker-a",)})
            broker.on(
                RequestCode.GET_BROKER_CLUSTER_INFO,
                lambda request: request.response(ResponseCode.SUCCESS, body=info.build()),
            )
            offsets(broker)
            async with AdminClient(ClientSettings(namesrv=broker.address, namespace=namespace)) as admin:
                await scenario(broker, admin)

    run(whole())


def offsets(broker: ScriptedBroker, first: int = 2, end: int = 10) -> None:
    """Every queue holds ``first`` up to ``end``; the group is at 5 in queue 0 and nowhere else."""

    def of_group(request: RemotingCommand) -> RemotingCommand:
        if request.ext_fields["queueId"] != "0":
            return request.response(ResponseCode.QUERY_NOT_FOUND, "none")
        return request.response(ResponseCode.SUCCESS, ext_fields={"offset": "5"})

    broker.on(RequestCode.GET_MIN_OFFSET, lambda request: request.response(0, ext_fields={"offset": str(first)}))
    broker.on(RequestCode.GET_MAX_OFFSET, lambda request: request.response(0, ext_fields={"offset": str(end)}))
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, of_group)
    broker.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, lambda request: request.response(0, ext_fields={"offset": "7"}))
    broker.answer(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SUCCESS)
    broker.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResponseCode.SUCCESS)
    broker.answer(RequestCode.GET_CONSUMER_CONNECTION_LIST, ResponseCode.CONSUMER_NOT_ONLINE)


def test_a_topic_is_made_on_the_masters_and_waited_for_until_it_has_a_route() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.answer(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SUCCESS)
        await admin.topics.create("orders", queues=2, attributes={"message.type": "FIFO"})
        (asked,) = broker.asked(RequestCode.UPDATE_AND_CREATE_TOPIC)
        header = parse_header(CreateTopicRequest, asked.ext_fields)
        assert (header.read_queue_nums, header.write_queue_nums, header.perm) == (2, 2, 6)
        assert (header.topic_filter_type, header.attributes) == ("SINGLE_TAG", "+message.type=FIFO")

    with_admin(scenario)


def test_a_topic_with_more_queues_to_write_to_than_to_read_from_is_known_by_those_of_both() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.answer(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SUCCESS)
        await admin.topics.create("orders", queues=2, write_queues=3, timeout=5)

    with_admin(scenario)


def test_a_topic_without_a_route_in_time_is_a_timeout() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.answer(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SUCCESS)
        with pytest.raises(RequestTimeout, match="the route of new topic orders"):
            await admin.topics.create("orders", queues=99, timeout=0.05)

    with_admin(scenario)


def test_what_cannot_be_asked_is_refused_before() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        with pytest.raises(MessageRefused):
            await admin.topics.create("no spaces")
        with pytest.raises(MessageRefused):
            await admin.groups.create("no spaces")
        with pytest.raises(ConfigurationError, match="queues is 0"):
            await admin.topics.create("orders", queues=0)
        with pytest.raises(ConfigurationError, match="it must be a cluster the name server knows: c1"):
            await admin.topics.create("orders", cluster="c2")
        with pytest.raises(ConfigurationError, match="broker with a master"):
            await admin.cluster.runtime("broker-b")
        with pytest.raises(ConfigurationError, match="one that has topic orders: broker-a"):
            await admin.offsets.min(QUEUE._replace(broker_name="broker-b"))
        with pytest.raises(ConfigurationError, match="0 or more"):
            await admin.offsets.set("g", QUEUE, -1)
        with pytest.raises(ConfigurationError, match="time zone"):
            await admin.offsets.at(QUEUE, datetime(2026, 1, 1))
        with pytest.raises(ConfigurationError, match="32 or 56 hexadecimal digits"):
            await admin.messages.by_id("7F00")
        with pytest.raises(ConfigurationError, match="earliest"):
            await admin.offsets.preview_reset("g", "orders", "yesterday")  # type: ignore[arg-type]

    with_admin(scenario)


def test_a_topic_nobody_knows_has_no_route() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.unknown_topics.add("nothing")
        for ask in (admin.topics.stats, admin.topics.config, admin.topics.route, admin.groups.of_topic):
            with pytest.raises(RouteNotFound, match="'nothing'"):
                await ask("nothing")

    with_admin(scenario)


def test_a_reset_is_previewed_without_changing_anything() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        for to, new in (("earliest", 2), ("latest", 10), (datetime(2026, 1, 1, tzinfo=UTC), 7)):
            planned = await admin.offsets.preview_reset("g", "orders", to)  # type: ignore[arg-type]
            assert [(change.current, change.new) for change in planned.changes] == [(5, new), (None, new)]
        (only,) = (await admin.offsets.preview_reset("g", "orders", {QUEUE: 4711})).changes
        assert (only.queue, only.new) == (QUEUE, 10), "not beyond the end"
        assert not broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)

    with_admin(scenario)


def test_offsets_of_a_group_without_clients_are_written() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        await admin.offsets.reset("g", "orders", "earliest")
        written = broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)
        headers = [parse_header(UpdateConsumerOffsetRequest, request.ext_fields) for request in written]
        assert [(header.queue_id, header.commit_offset) for header in headers] == [(0, 2), (1, 2)]
        assert not broker.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)

    with_admin(scenario)


def test_a_queue_that_waits_for_its_reset_is_set_by_another_one() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.answer(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.PULL_OFFSET_MOVED, "not kept")
        broker.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResponseCode.SUCCESS)
        await admin.offsets.reset("g", "orders", {QUEUE: 3})
        (asked,) = broker.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
        header = parse_header(ResetOffsetRequest, asked.ext_fields)
        assert (header.queue_id, header.offset, header.is_force) == (0, 3, True)

    with_admin(scenario)


def test_connected_clients_are_told_by_their_broker() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        body = ConsumerConnection((Connection("c1", "1.2.3.4:5", "JAVA", 1),)).build()
        broker.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, lambda request: request.response(0, body=body))
        done = await admin.offsets.reset("g", "orders", {QUEUE: 3})
        assert done.online == 1
        (asked,) = broker.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
        header = parse_header(ResetOffsetRequest, asked.ext_fields)
        assert (header.queue_id, header.offset, header.is_force) == (0, 3, True)
        assert not broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)
        broker.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no")
        with pytest.raises(BrokerError, match="REQUEST_CODE_NOT_SUPPORTED"):
            await admin.offsets.reset("g", "orders", {QUEUE: 3})

    with_admin(scenario)


def test_lag_is_summed_and_an_empty_table_is_no_lag_of_zero() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        stats = ConsumeStats({QueueKey("orders", "broker-a", n): OffsetWrapper(10, n) for n in (3, 4)})
        broker.on(RequestCode.GET_CONSUME_STATS, lambda request: request.response(0, body=stats.build()))
        assert await admin.offsets.lag("g") == 13
        broker.on(RequestCode.GET_CONSUME_STATS, lambda request: request.response(0, body=ConsumeStats().build()))
        with pytest.raises(NothingConsumed, match="in topic 'orders'"):
            await admin.offsets.lag("g", "orders")

    with_admin(scenario)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"offsetTable": 3}'], ids=repr)
def test_a_body_that_cannot_be_read_is_a_protocol_error(body: bytes) -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.on(RequestCode.GET_CONSUME_STATS, lambda request: request.response(0, body=body))
        broker.on(RequestCode.QUERY_CONSUME_TIME_SPAN, lambda request: request.response(0, body=body))
        with pytest.raises((ProtocolError, NothingConsumed)):
            await admin.offsets.progress("g")

    with_admin(scenario)


def test_a_header_or_a_record_that_cannot_be_read_is_a_protocol_error() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.answer(RequestCode.GET_MIN_OFFSET, ResponseCode.SUCCESS)
        with pytest.raises(ProtocolError, match="offset"):
            await admin.offsets.min(QUEUE)
        broker.on(RequestCode.QUERY_MESSAGE, lambda request: request.response(0, body=b"garbage"))
        with pytest.raises(ProtocolError, match="message"):
            await admin.messages.by_key("orders", "k")
        broker.on(
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            lambda request: request.response(0, body=b'{"consumeTimeSpanSet":[{"minTimeStamp":1}]}'),
        )
        with pytest.raises(ProtocolError, match="time span"):
            await admin.offsets.time_spans("g", "orders")

    with_admin(scenario)


def test_an_answer_of_a_million_messages_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def counting(record: StoredMessage, hold: Hold | None) -> list[StoredMessage]:
        messages = inner_messages(record, hold)
        taken.append(len(messages))
        return messages

    monkeypatch.setattr("gateway.client.admin.admin_messages.inner_messages", counting)
    monkeypatch.setattr("gateway.client.admin.admin_messages.MAX_ANSWER_MESSAGES", 5_000)

    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        body = bomb(0, 2_000) * 500
        broker.on(RequestCode.QUERY_MESSAGE, lambda request: request.response(0, body=body))
        with pytest.raises(ProtocolError, match="6000 messages and more, the limit is 5000"):
            await admin.messages.by_key("orders", "k")

    with_admin(scenario)
    assert sum(taken) == 6_000


def test_an_id_that_names_no_broker_is_not_asked_for() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        for impossible in ("0" * 32, "F" * 32, "7F00000100002A9F" + "8" + "0" * 15):
            with pytest.raises(MessageNotFound, match="with its topic only"):
                await admin.messages.by_id(impossible)
        assert broker.codes() == []

    with_admin(scenario)


def test_who_may_read_a_topic_finds_its_messages_by_the_ids_of_their_broker() -> None:
    """The name of the broker is in the topic's route: who may read a topic need not be allowed to see the cluster."""

    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        broker.answer(RequestCode.GET_BROKER_CLUSTER_INFO, ResponseCode.NO_PERMISSION, "Get is needed")
        host, port = broker.address.split(":")
        place = pack_host(host, int(port))
        record = build_record(OutgoingMessage("orders", 0, 0, 0, 1, place, place, 0, 0, b"body", b""), 3, 7, 2)
        broker.on(RequestCode.VIEW_MESSAGE_BY_ID, lambda request: request.response(0, body=record))
        found = await admin.messages.by_id(build_offset_message_id(place, 7))
        assert (found.body, found.queue.broker_name) == (b"body", "broker-a")
        broker.unknown_topics.add("orders")
        assert (await admin.messages.by_id(found.offset_msg_id)).queue.broker_name == broker.address

    with_admin(scenario)


def test_every_method_says_when_the_client_does_not_run() -> None:
    async def scenario() -> None:
        admin = AdminClient(namesrv="127.0.0.1:9")
        with pytest.raises(ClientClosed, match="start"):
            await admin.topics.list()
        await admin.start()
        await admin.start()
        await admin.close()
        await admin.close()
        with pytest.raises(ClientClosed):
            await admin.cluster.info()

    run(scenario())


def test_names_are_those_within_the_namespace() -> None:
    async def scenario(broker: ScriptedBroker, admin: AdminClient) -> None:
        def answer_body(code: RequestCode, body: bytes) -> None:
            broker.on(code, lambda request: request.response(ResponseCode.SUCCESS, body=body))

        names = ("ns%orders", "%RETRY%ns%g", "TBW102", "orders", "other%orders")
        answer_body(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, TopicList(names).build())
        assert await admin.topics.list() == ["%RETRY%g", "TBW102", "orders"]
        answer_body(RequestCode.GET_TOPIC_CONFIG, TopicConfig("ns%orders", 2, 2).build())
        assert (await admin.topics.config("orders"))["broker-a"].topic_name == "orders"
        assert {queue.topic for queue in (await admin.topics.route("orders")).subscribe_queues} == {"orders"}
        broker.answer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ResponseCode.SUCCESS)
        await admin.groups.create("g")
        (created,) = broker.asked(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
        assert SubscriptionGroupConfig.parse(created.body).group_name == "ns%g"
        stats = ConsumeStats({QueueKey("ns%orders", "broker-a", 0): OffsetWrapper(10, 4, 0)})
        answer_body(RequestCode.GET_CONSUME_STATS, stats.build())
        assert await admin.offsets.lag("g", "orders") == 6
        assert list((await admin.offsets.progress("g")).queues) == [QUEUE]
        done = await admin.offsets.reset("g", "orders", "earliest")
        assert {change.queue.topic for change in done.changes} == {"orders"}
        header = parse_header(
            UpdateConsumerOffsetRequest, broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)[0].ext_fields
        )
        assert (header.consumer_group, header.topic) == ("ns%g", "ns%orders")

    with_admin(scenario, namespace="ns")


def test_a_client_without_name_servers_does_not_start() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match="NAMESRV_ADDR"):
            await AdminClient(ClientSettings()).start()

    run(scenario())


def test_another_process_may_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with AdminClient(namesrv="127.0.0.1:9") as admin:
            with monkeypatch.context() as forked:
                forked.setattr(process, "number", -1)
                with pytest.raises(UsedAfterFork):
                    await admin.topics.list()

    run(scenario())


def test_point_16_a_client_that_is_forgotten_warns() -> None:
    async def scenario() -> None:
        admin = AdminClient(namesrv="127.0.0.1:9")
        await admin.start()
        instance = admin._instance
        assert instance is not None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            admin.__del__()
        assert [warning.category for warning in caught] == [ResourceWarning]
        await admin.close()

    run(scenario())
