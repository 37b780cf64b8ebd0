"""No request of the broker and no disconnect costs more than in proportion to the tables that it walks.

All tables are doubled at once: topics, groups, queues of a topic, offsets, members of a group, producers and modes.
So work that multiplies two of them is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.remoting.declared import Size
from gateway.tests.broker.popping import popping
from gateway.tests.broker.whole_broker import WholeBroker, sending
from gateway.tests.doubling import Prepared, check_growth
from gateway.tests.membership.subscriptions import subscription
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.message_queue import LockBatchRequest, MessageQueue, UnlockBatchRequest
from wire.bodies.pop import MessageRequestMode, QueryAssignmentRequest
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupList
from wire.bodies.topics import CreateTopicList, TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers import admin, groups, offsets, pop, topics
from wire.headers.declare import Header
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

SIZE = 400
SILENCE_S = 500.0
GROUP, WIDE, SHARED = "g", "wide", "shared"
MANY_GROUPS = 1_000
FEW_MEMBERS = 5
CODES = RequestCode


class World:
    """A broker all of whose tables have ``size`` entries, and that many clients."""

    def __init__(self, directory: Path, size: int) -> None:
        self.size = size
        self.broker = WholeBroker(directory)
        self.asker = self.broker.connect()
        parts = self.broker.parts
        names = [f"topic-{number}" for number in range(size)]
        retries = [f"{RETRY_TOPIC_PREFIX}{group}" for group in (GROUP, *self.groups)]
        narrow = [TopicConfig(name, 1, 1) for name in (*names, *retries, SHARED)]
        parts.topics.put_all([*narrow, TopicConfig(WIDE, size, size)])
        parts.groups.put_all([SubscriptionGroupConfig(name) for name in (GROUP, "copy", *self.groups)])
        for topic, group in zip(names, self.groups, strict=True):
            parts.offsets.keep(GROUP, topic, 0, 1)
            parts.offsets.keep(group, SHARED, 0, 1)
            parts.modes.put(MessageRequestMode(topic, GROUP))
        for number in range(size):
            parts.offsets.keep(GROUP, WIDE, number, 0)
        self.queues = [MessageQueue(WIDE, "broker-a", number) for number in range(size)]
        self.members = [self.broker.connect() for _ in range(size)]

    @property
    def groups(self) -> list[str]:
        """Return as many groups as the size says."""
        return [f"group-{number}" for number in range(self.size)]

    def join(self) -> None:
        """Let every client become a member of the group, and a producer."""
        for number, member in enumerate(self.members):
            consumer = ConsumerData(GROUP, subscriptions=(subscription(WIDE),))
            data = HeartbeatData(f"client-{number}", producers=("p", f"p-{number}"), consumers=(consumer,))
            member.ask_all(CODES.HEART_BEAT, body=data.build())
        self.settle()

    def settle(self) -> None:
        """Let turns pass until all work is done."""
        self.broker.turn()

    def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
        """Ask, and let turns pass until the answer is there."""
        answers = self.asker.ask_all(code, header, body)
        while not any(answer.is_response for answer in answers):
            self.settle()
            answers = self.asker.received()
        (answer,) = (answer for answer in answers if answer.is_response)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer


Operation = Callable[[World], object]
Case = tuple[RequestCode | None, Operation]


def asks(code: RequestCode, kind: type[Header] | None = None, body: bytes = b"", **fields: Any) -> Case:
    """Ask one question."""
    header = None if kind is None else kind(**fields)
    return code, lambda world: world.ask(code, header, body)


def sends(code: RequestCode, body: Callable[[World], bytes]) -> Case:
    """Send a body that is as long as the tables."""
    return code, lambda world: world.ask(code, body=body(world))


def _new_topics(world: World) -> bytes:
    return CreateTopicList([TopicConfig(f"new-{number}") for number in range(world.size)]).build()


def _new_groups(world: World) -> bytes:
    return SubscriptionGroupList([SubscriptionGroupConfig(f"new-{number}") for number in range(world.size)]).build()


def _beat_of_many_topics(world: World) -> bytes:
    wanted = tuple(subscription(f"topic-{number}") for number in range(world.size))
    return HeartbeatData("asker", consumers=(ConsumerData("other", subscriptions=wanted),)).build()


def _for_each_queue(world: World, code: RequestCode, header: Header) -> None:
    """Ask as often as the topic has queues; answers may come later."""
    for _ in range(world.size):
        world.asker.ask_all(code, header)
    world.settle()
    world.asker.received()


def _popping(**changed: Any) -> Header:
    return popping(topic=WIDE, consumer_group=GROUP, **changed)


def _pops(world: World) -> None:
    _for_each_queue(world, CODES.POP_MESSAGE, _popping())


def _held(world: World, code: RequestCode, header: Header) -> None:
    """Let as many wait as there are queues, and send ten messages."""
    _for_each_queue(world, code, header)
    for _ in range(10):
        world.asker.ask_all(CODES.SEND_MESSAGE, sending(WIDE, queue_id=world.size - 1))
        world.settle()
    world.asker.ask_all(CODES.POP_MESSAGE, _popping(queue_id=world.size - 1))
    world.broker.wait(2)
    world.asker.received()


def _held_pops(world: World) -> None:
    _held(world, CODES.POP_MESSAGE, _popping(poll_time=1_000))


def _held_news(world: World) -> None:
    news = pop.NotificationRequest(consumer_group=GROUP, topic=WIDE, queue_id=-1, poll_time=1_000)
    _held(world, CODES.NOTIFICATION, news)


def _looks(world: World) -> None:
    header = pop.PeekMessageRequest(consumer_group=GROUP, topic=WIDE, queue_id=-1, max_msg_nums=32)
    _for_each_queue(world, CODES.PEEK_MESSAGE, header)


LASTING: dict[str, Case] = {
    "all topics": asks(CODES.GET_ALL_TOPIC_CONFIG, topics.GetAllTopicConfigRequest),
    "a topic's configuration": asks(CODES.GET_TOPIC_CONFIG, topics.GetTopicConfigRequest, topic=WIDE),
    "topics of the system": asks(CODES.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
    "many topics changed": sends(CODES.UPDATE_AND_CREATE_TOPIC_LIST, _new_topics),
    "a topic changed": asks(
        CODES.UPDATE_AND_CREATE_TOPIC,
        topics.CreateTopicRequest,
        topic="another",
        default_topic="TBW102",
        read_queue_nums=8,
        write_queue_nums=8,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    ),
    "all groups": asks(CODES.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups.GetAllSubscriptionGroupRequest),
    "a group's configuration": asks(
        CODES.GET_SUBSCRIPTIONGROUP_CONFIG, groups.GetSubscriptionGroupConfigRequest, group=GROUP
    ),
    "many groups changed": sends(CODES.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, _new_groups),
    "a group changed": asks(CODES.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=SubscriptionGroupConfig("another").build()),
    "what a group may read": asks(
        CODES.UPDATE_AND_GET_GROUP_FORBIDDEN, groups.UpdateGroupForbiddenRequest, group=GROUP, topic=WIDE
    ),
    "statistics of a topic": asks(CODES.GET_TOPIC_STATS_INFO, topics.GetTopicStatsInfoRequest, topic=WIDE),
    "progress of a group": asks(CODES.GET_CONSUME_STATS, topics.GetConsumeStatsRequest, consumer_group=GROUP),
    "progress of all groups": asks(
        CODES.GET_BROKER_CONSUME_STATS, admin.GetConsumeStatsInBrokerRequest, is_order=False
    ),
    "groups of a topic": asks(CODES.QUERY_TOPIC_CONSUME_BY_WHO, topics.QueryTopicConsumeByWhoRequest, topic=SHARED),
    "topics of a group": asks(CODES.QUERY_TOPICS_BY_CONSUMER, topics.QueryTopicsByConsumerRequest, group=GROUP),
    "a subscription": asks(
        CODES.QUERY_SUBSCRIPTION_BY_CONSUMER, topics.QuerySubscriptionByConsumerRequest, group=GROUP, topic=WIDE
    ),
    "time spans": asks(CODES.QUERY_CONSUME_TIME_SPAN, topics.QueryConsumeTimeSpanRequest, topic=WIDE, group=GROUP),
    "all offsets": asks(CODES.GET_ALL_CONSUMER_OFFSET),
    "offsets of delay levels": asks(CODES.GET_ALL_DELAY_OFFSET),
    "lowest offsets": asks(
        CODES.QUERY_CORRECTION_OFFSET, offsets.QueryCorrectionOffsetRequest, topic=SHARED, compare_group=GROUP
    ),
    "offsets copied": asks(
        CODES.CLONE_GROUP_OFFSET, offsets.CloneGroupOffsetRequest, src_group=GROUP, dest_group="copy", offline=True
    ),
    "offsets reset": asks(
        CODES.INVOKE_BROKER_TO_RESET_OFFSET,
        offsets.ResetOffsetRequest,
        group=GROUP,
        topic=WIDE,
        timestamp=-1,
        is_force=True,
    ),
    "clients of a group": asks(
        CODES.GET_CONSUMER_LIST_BY_GROUP, groups.GetConsumerListByGroupRequest, consumer_group=GROUP
    ),
    "connections of a group": asks(
        CODES.GET_CONSUMER_CONNECTION_LIST, groups.GetConsumerConnectionListRequest, consumer_group=GROUP
    ),
    "connections of producers": asks(
        CODES.GET_PRODUCER_CONNECTION_LIST, groups.GetProducerConnectionListRequest, producer_group="p"
    ),
    "all producers": asks(CODES.GET_ALL_PRODUCER_INFO),
    "a heartbeat of many topics": sends(CODES.HEART_BEAT, _beat_of_many_topics),
    "leaving of one": asks(
        CODES.UNREGISTER_CLIENT, groups.UnregisterClientRequest, client_id="asker", consumer_group="other"
    ),
    "assignment of queues": asks(
        CODES.QUERY_ASSIGNMENT, body=QueryAssignmentRequest(WIDE, GROUP, "client-3", "AVG").build()
    ),
    "assignment of all queues": asks(
        CODES.QUERY_ASSIGNMENT, body=QueryAssignmentRequest(WIDE, GROUP, "client-3", "AVG", "BROADCASTING").build()
    ),
    "a request mode": asks(CODES.SET_MESSAGE_REQUEST_MODE, body=MessageRequestMode(WIDE, GROUP).build()),
    "all request modes": asks(CODES.GET_ALL_MESSAGE_REQUEST_MODE),
    "locks": sends(CODES.LOCK_BATCH_MQ, lambda world: LockBatchRequest(GROUP, "client-3", world.queues).build()),
    "locks given back": sends(
        CODES.UNLOCK_BATCH_MQ, lambda world: UnlockBatchRequest(GROUP, "client-3", world.queues).build()
    ),
    "news of many queues": asks(
        CODES.NOTIFICATION, pop.NotificationRequest, consumer_group=GROUP, topic=WIDE, queue_id=-1
    ),
    "pops of many queues": (CODES.POP_MESSAGE, _pops),
    "messages beside pops that wait": (CODES.POP_MESSAGE, _held_pops),
    "messages beside others that wait for news": (CODES.NOTIFICATION, _held_news),
    "looks into many queues": (CODES.PEEK_MESSAGE, _looks),
    "pops that wait": asks(CODES.POLLING_INFO, pop.PollingInfoRequest, consumer_group=GROUP, topic=WIDE, queue_id=-1),
    "settings and figures": asks(CODES.GET_BROKER_RUNTIME_INFO),
    "old files of queues": asks(CODES.CLEAN_EXPIRED_CONSUMEQUEUE),
    "queues without a topic": asks(CODES.CLEAN_UNUSED_TOPIC),
}
"""Requests that leave the tables about as they are."""


def _end_all(world: World) -> None:
    for member in world.members:
        member.leave()
    world.settle()
    assert world.broker.parts.consumers.client_ids(GROUP) == []


def _fall_silent(world: World) -> None:
    world.broker.reactor.rightNow += SILENCE_S
    world.broker.parts.turns.begin(world.broker.parts.heartbeats.close_silent())
    world.settle()
    assert world.broker.parts.consumers.client_ids(GROUP) == []


def _beat(world: World, number: int) -> None:
    wanted = (subscription(WIDE),)
    consumers = tuple(ConsumerData(group, subscriptions=wanted) for group in world.groups[:MANY_GROUPS])
    data = HeartbeatData(f"client-{number}", consumers=consumers)
    world.members[number].ask_all(CODES.HEART_BEAT, body=data.build())


def _many_groups(world: World) -> None:
    for number in range(FEW_MEMBERS):
        _beat(world, number)
    world.settle()
    world.members[0].leave()
    world.settle()


ENDING: dict[str, Case] = {
    "many members join": (CODES.HEART_BEAT, World.join),
    "many members leave at once": (None, _end_all),
    "many members are silent": (None, _fall_silent),
    "a member of many groups comes and goes": (None, _many_groups),
    "end of a topic of many queues": asks(CODES.DELETE_TOPIC_IN_BROKER, topics.DeleteTopicRequest, topic=WIDE),
    "end of a group of many offsets": asks(
        CODES.DELETE_SUBSCRIPTIONGROUP, groups.DeleteSubscriptionGroupRequest, group_name=GROUP, clean_offset=True
    ),
}
"""What empties or fills tables, so that each run needs new ones."""
JOINED_LATER = {"many members join", "a member of many groups comes and goes"}

ONE_MESSAGE = "is about one message or the messages of one queue, as many as one answer may have"
ONE_ENTRY = "looks up one entry by its name"
TRANSACTIONS = "gives a page of the pending transactions, or one; gateway/tests/transaction counts what that reads"
LITE = "is about lite topics, which test_doubling_lite doubles"
ASKS_CLIENTS = "waits for clients, and costs one call for each"
OF_USERS = "is about users, which this broker does not have; rare/test_users asks about many"
OF_ACCOUNTS = "is about accounts of ACL 1.0, which this broker does not have; rare/test_plain_accounts asks about them"
WITHOUT_A_CASE: dict[RequestCode, str] = {
    **{code: OF_ACCOUNTS for code in CODES if 50 <= code <= 54},
    **{code: OF_USERS for code in CODES if code.name.startswith("AUTH_")},
    **dict.fromkeys(
        (
            CODES.SEND_MESSAGE,
            CODES.SEND_MESSAGE_V2,
            CODES.SEND_BATCH_MESSAGE,
            CODES.SEND_REPLY_MESSAGE,
            CODES.SEND_REPLY_MESSAGE_V2,
            CODES.PULL_MESSAGE,
            CODES.LITE_PULL_MESSAGE,
            CODES.QUERY_MESSAGE,
            CODES.VIEW_MESSAGE_BY_ID,
            CODES.CONSUMER_SEND_MSG_BACK,
            CODES.END_TRANSACTION,
            CODES.RECALL_MESSAGE,
            CODES.QUERY_CONSUME_QUEUE,
            CODES.ACK_MESSAGE,
            CODES.BATCH_ACK_MESSAGE,
            CODES.CHANGE_MESSAGE_INVISIBLETIME,
            CODES.POP_ROLLBACK,
        ),
        ONE_MESSAGE,
    ),
    **dict.fromkeys(
        (
            CODES.QUERY_CONSUMER_OFFSET,
            CODES.UPDATE_CONSUMER_OFFSET,
            CODES.SEARCH_OFFSET_BY_TIMESTAMP,
            CODES.GET_MAX_OFFSET,
            CODES.GET_MIN_OFFSET,
            CODES.GET_EARLIEST_MSG_STORETIME,
            CODES.VIEW_BROKER_STATS_DATA,
            CODES.CHECK_CLIENT_CONFIG,
            CODES.GET_TIMER_CHECK_POINT,
            CODES.GET_BROKER_HA_STATUS,
            CODES.GATEWAY_REPLICA_STATE,
            CODES.GATEWAY_CHANGE_ROLE,
            CODES.GATEWAY_ENTER_REPLICA,
            CODES.GET_BROKER_EPOCH_CACHE,
            CODES.NOTIFY_BROKER_ROLE_CHANGED,
            CODES.DELETE_EXPIRED_COMMITLOG,
            CODES.UPDATE_BROKER_CONFIG,
            CODES.GET_BROKER_CONFIG,
        ),
        ONE_ENTRY,
    ),
    **dict.fromkeys(
        (
            CODES.RESUME_CHECK_HALF_MESSAGE,
            CODES.GATEWAY_LIST_TRANSACTIONS,
            CODES.GATEWAY_SHOW_TRANSACTION,
            CODES.GATEWAY_SETTLE_TRANSACTION,
            CODES.GATEWAY_CHECK_TRANSACTION,
            CODES.GATEWAY_RESUME_TRANSACTION,
            CODES.GATEWAY_TRANSACTION_STATISTICS,
        ),
        TRANSACTIONS,
    ),
    **dict.fromkeys(
        (
            CODES.POP_LITE_MESSAGE,
            CODES.LITE_SUBSCRIPTION_CTL,
            CODES.GET_BROKER_LITE_INFO,
            CODES.GET_PARENT_TOPIC_INFO,
            CODES.GET_LITE_TOPIC_INFO,
            CODES.GET_LITE_CLIENT_INFO,
            CODES.GET_LITE_GROUP_INFO,
            CODES.TRIGGER_LITE_DISPATCH,
        ),
        LITE,
    ),
    **dict.fromkeys(
        (
            CODES.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            CODES.GET_CONSUMER_RUNNING_INFO,
            CODES.CONSUME_MESSAGE_DIRECTLY,
        ),
        ASKS_CLIENTS,
    ),
}


def test_twice_the_tables_are_about_twice_the_work(tmp_path: Path) -> None:
    @cache
    def world(size: int) -> World:
        made = World(tmp_path / str(size), size)
        made.join()
        return made

    for name, (_, operation) in LASTING.items():

        def prepare(size: int, operation: Operation = operation) -> Prepared:
            return lambda: operation(world(size))

        check_growth(prepare, SIZE, name)


@pytest.mark.parametrize("name", ENDING)
def test_twice_the_clients_and_queues_are_about_twice_the_work(name: str, tmp_path: Path) -> None:
    _, operation = ENDING[name]
    made: list[World] = []

    def prepare(size: int) -> Prepared:
        made.append(World(tmp_path / str(len(made)), size))
        if name not in JOINED_LATER:
            made[-1].join()
        return lambda: operation(made[-1])

    check_growth(prepare, SIZE, name)


def test_every_request_has_a_case_or_a_reason(tmp_path: Path) -> None:
    answered = {entry.code for entry in WholeBroker(tmp_path / "store").conversation.dispatch.entries()}
    tried = {code for code, _ in (*LASTING.values(), *ENDING.values()) if code is not None}
    assert answered == tried | set(WITHOUT_A_CASE)
    assert not tried & set(WITHOUT_A_CASE)


NO_LIST: dict[str, frozenset[RequestCode]] = {
    "is waited for by stock clients, and takes turns": frozenset(
        {CODES.GET_CONSUMER_LIST_BY_GROUP, CODES.QUERY_ASSIGNMENT, CODES.LOCK_BATCH_MQ}
    ),
    "is answered with one entry, or with nothing": frozenset(
        {
            *(CODES.GET_TOPIC_CONFIG, CODES.UPDATE_AND_CREATE_TOPIC_LIST, CODES.UPDATE_AND_CREATE_TOPIC),
            *(CODES.GET_SUBSCRIPTIONGROUP_CONFIG, CODES.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST),
            *(CODES.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, CODES.UPDATE_AND_GET_GROUP_FORBIDDEN, CODES.HEART_BEAT),
            *(CODES.QUERY_SUBSCRIPTION_BY_CONSUMER, CODES.UNREGISTER_CLIENT, CODES.SET_MESSAGE_REQUEST_MODE),
            *(CODES.UNLOCK_BATCH_MQ, CODES.NOTIFICATION, CODES.POLLING_INFO, CODES.CLEAN_EXPIRED_CONSUMEQUEUE),
            *(CODES.CLEAN_UNUSED_TOPIC, CODES.DELETE_TOPIC_IN_BROKER, CODES.DELETE_SUBSCRIPTIONGROUP),
        }
    ),
    "is answered with figures, whose number is fixed": frozenset({CODES.GET_BROKER_RUNTIME_INFO}),
}


def test_every_request_whose_answer_grows_with_tables_is_a_list(tmp_path: Path) -> None:
    """One that is not could be asked for a hundred times at once, and nobody would have to read the answers."""
    tried = {code for code, _ in (*LASTING.values(), *ENDING.values()) if code is not None}
    entries = WholeBroker(tmp_path / "store").conversation.dispatch.entries()
    small = {entry.code for entry in entries if entry.size is Size.SMALL}
    assert tried & small == frozenset().union(*NO_LIST.values())
