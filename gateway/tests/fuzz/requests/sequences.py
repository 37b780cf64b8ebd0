"""Requests that belong together: what follows uses what was answered, and now and then something in between is wrong.

A sequence is a generator of requests and gets each answer, or None if there was none. Who drives it may break off.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from gateway.tests.fuzz.requests import names
from gateway.tests.fuzz.requests.grammar import Asked, Grammar, Pairs, Server, json_text
from wire.bodies.lite import SubscriptionAction
from wire.codes import RequestCode as Code
from wire.command import RemotingCommand
from wire.errors import WireError
from wire.message.record import parse_records

Requests = Generator[Asked, RemotingCommand | None, None]
_ABOUT_MEMBERS: Final = (
    *(Code.GET_CONSUME_STATS, Code.GET_CONSUMER_LIST_BY_GROUP, Code.GET_CONSUMER_CONNECTION_LIST),
    *(Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_CONSUMER_RUNNING_INFO, Code.CONSUME_MESSAGE_DIRECTLY),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
)
"""What tools ask of a group whose member is connected."""
SPOILED_SHARE: Final = 0.12
"""Of the requests within a sequence, how many have something wrong."""


def a_sequence(grammar: Grammar) -> Requests:
    """One of them, with now and then a request that is spoiled, left out or sent twice."""
    random = grammar.random
    inner = random.choice(SEQUENCES)(grammar)
    answer: RemotingCommand | None = None
    with suppress(StopIteration):
        asked = next(inner)
        while True:
            chance = random.random()
            if chance < SPOILED_SHARE:
                grammar.spoil(asked)
            if chance > 1 - SPOILED_SHARE / 2:
                yield asked
            answer = yield asked
            asked = inner.send(answer)


def _broker(grammar: Grammar, code: int, body: bytes | None = None, **given: Any) -> Asked:
    asked = grammar.request(Server.BROKER, code, **given)
    if body is not None:
        asked.body = body
    return asked


def _server(grammar: Grammar, code: int, body: bytes | None = None, **given: Any) -> Asked:
    asked = grammar.request(Server.NAME_SERVER, code, **given)
    if body is not None:
        asked.body = body
    return asked


def _fields(answer: RemotingCommand | None) -> Mapping[str, str]:
    return {} if answer is None else answer.ext_fields


def _topic(grammar: Grammar, topic: str, attributes: str | None = None) -> Asked:
    return _broker(
        grammar,
        Code.UPDATE_AND_CREATE_TOPIC,
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
        attributes=attributes,
        force=None,
    )


def _send(grammar: Grammar, topic: str, properties: str = "", sys_flag: int = 0, body: bytes = b"fuzz") -> Asked:
    return _broker(
        grammar,
        Code.SEND_MESSAGE_V2,
        body,
        producer_group="fuzz_group_a",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=grammar.random.randrange(4),
        sys_flag=sys_flag,
        flag=0,
        properties=properties,
        reconsume_times=0,
        max_reconsume_times=None,
        batch=False,
    )


def _heartbeat(grammar: Grammar, topic: str, group: str, client: str) -> Asked:
    subscription = Pairs([("topic", topic), ("subString", "*"), ("tagsSet", []), ("codeSet", []), ("subVersion", 1)])
    consumer = Pairs(
        [
            ("groupName", group),
            ("consumeType", "CONSUME_PASSIVELY"),
            ("messageModel", "CLUSTERING"),
            ("consumeFromWhere", "CONSUME_FROM_FIRST_OFFSET"),
            ("subscriptionDataSet", [subscription]),
        ]
    )
    producers = [Pairs([("groupName", group)])]
    value = Pairs([("clientID", client), ("producerDataSet", producers), ("consumerDataSet", [consumer])])
    return _broker(grammar, Code.HEART_BEAT, json_text(value).encode())


def _pull(grammar: Grammar, topic: str, group: str, queue_id: int, offset: int, wait_ms: int = 0) -> Asked:
    return _broker(
        grammar,
        Code.PULL_MESSAGE,
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=6 if wait_ms else 4,
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        subscription="*",
        sub_version=1,
        expression_type="TAG",
    )


def consumption(grammar: Grammar) -> Requests:
    """Topic, heartbeat, sends, pulls, offsets, goodbye."""
    random = grammar.random
    topic, group, client = (
        random.choice(names.TOPICS[:3]),
        random.choice(names.GROUPS[:3]),
        random.choice(names.CLIENTS),
    )
    yield _topic(grammar, topic)
    yield _heartbeat(grammar, topic, group, client)
    for _ in range(random.randint(1, 4)):
        yield _send(grammar, topic, random.choice(names.PROPERTIES[:3]))
    answer = yield _pull(grammar, topic, group, 0, 0)
    following = int(_fields(answer).get("nextBeginOffset", "0"))
    yield _broker(
        grammar, Code.UPDATE_CONSUMER_OFFSET, consumer_group=group, topic=topic, queue_id=0, commit_offset=following
    )
    yield _broker(grammar, Code.QUERY_CONSUMER_OFFSET, consumer_group=group, topic=topic, queue_id=0)
    yield _broker(grammar, Code.CONSUMER_SEND_MSG_BACK, offset=0, group=group, delay_level=1, origin_topic=topic)
    yield _pull(grammar, topic, group, 0, following, 500)
    for code in _ABOUT_MEMBERS:
        yield _broker(
            grammar, code, consumer_group=group, producer_group=group, group=group, topic=topic, client_id=client
        )
    yield _broker(grammar, Code.QUERY_MESSAGE, topic=topic, key="k1", max_num=8, begin_timestamp=0)
    yield _broker(grammar, Code.UNREGISTER_CLIENT, client_id=client, producer_group=group, consumer_group=group)


def popping(grammar: Grammar) -> Requests:
    """Pops, acknowledgements by one and by many, longer invisible times, in order or not; also of system topics."""
    random = grammar.random
    topic = random.choice((*names.TOPICS[:4], *names.SYSTEM_TOPICS[:6]))
    group, is_order = random.choice(names.GROUPS[:3]), random.random() < 0.3
    if topic in names.TOPICS:
        yield _topic(grammar, topic)
        for _ in range(random.randint(1, 4)):
            yield _send(grammar, topic)
    for _ in range(random.randint(1, 3)):
        answer = yield _broker(
            grammar,
            Code.POP_MESSAGE,
            consumer_group=group,
            topic=topic,
            queue_id=-1,
            max_msg_nums=random.choice((1, 32)),
            invisible_time=random.choice((1_000, 10_000)),
            poll_time=0,
            born_time=None,
            init_mode=0,
            exp_type="TAG",
            exp="*",
            order=is_order,
            attempt_id=None,
        )
        if answer is None or not answer.body:
            continue
        yield from _acknowledging(grammar, answer, topic, group)


def _acknowledging(grammar: Grammar, answer: RemotingCommand, topic: str, group: str) -> Requests:
    fields = _fields(answer)
    try:
        records = parse_records(answer.body)
        starts = {
            int(entry.split(" ")[1]): entry.split(" ")[2] for entry in fields["startOffsetInfo"].split(";") if entry
        }
    except (WireError, KeyError, IndexError, ValueError):
        return
    for record in records:
        start = starts.get(record.queue_id, "0")
        receipt = (
            f"{start} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 {names.BROKER} "
            f"{record.queue_id} {record.queue_offset}"
        )
        place: dict[str, Any] = {
            "consumer_group": group,
            "topic": topic,
            "queue_id": record.queue_id,
            "extra_info": receipt,
        }
        code = grammar.random.choice((Code.ACK_MESSAGE, Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME, 0))
        if code == Code.ACK_MESSAGE:
            yield _broker(grammar, code, offset=record.queue_offset, lite_topic=None, **place)
        elif code:
            yield _broker(grammar, code, offset=record.queue_offset, invisible_time=2_000, lite_topic=None, **place)
        else:
            yield _batch_ack(grammar, topic, group, record.queue_id, start, fields)


def _batch_ack(grammar: Grammar, topic: str, group: str, queue_id: int, start: str, fields: Mapping[str, str]) -> Asked:
    ack = Pairs(
        [
            ("c", group),
            ("t", topic),
            ("r", "0"),
            ("so", int(start)),
            ("q", queue_id),
            ("rq", int(fields["reviveQid"])),
            ("pt", int(fields["popTime"])),
            ("it", int(fields["invisibleTime"])),
            ("b", grammar.random.choice((["AQ=="], "AQ==", [1], [255] * 8))),
        ]
    )
    value = Pairs([("brokerName", names.BROKER), ("acks", [ack])])
    return _broker(grammar, Code.BATCH_ACK_MESSAGE, json_text(value).encode())


def transaction(grammar: Grammar) -> Requests:
    """A half message, its outcome, perhaps a second one that contradicts, and what tools ask of it."""
    random = grammar.random
    topic = random.choice(("fuzz_half", "fuzz_a"))
    key = f"fuzzkey{random.randrange(10**9)}"
    yield _topic(grammar, topic)
    yield _heartbeat(grammar, topic, "fuzz_group_a", random.choice(names.CLIENTS))
    properties = f"TRAN_MSG\x01true\x02PGROUP\x01fuzz_group_a\x02UNIQ_KEY\x01{key}\x02"
    answer = yield _send(grammar, topic, properties, 4)
    fields = _fields(answer)
    if "queueOffset" not in fields:
        return
    message_id = fields["msgId"]
    for _ in range(random.choice((0, 1, 1, 2))):
        yield _broker(
            grammar,
            Code.END_TRANSACTION,
            producer_group="fuzz_group_a",
            tran_state_table_offset=int(fields["queueOffset"]),
            commit_log_offset=int(message_id[16:32], 16),
            commit_or_rollback=random.choice((8, 12, 0)),
            msg_id=key,
            transaction_id=key,
            topic=topic,
            from_transaction_check=random.random() < 0.3,
        )
    yield _broker(grammar, Code.GATEWAY_SHOW_TRANSACTION, id=key)
    yield _broker(grammar, Code.GATEWAY_CHECK_TRANSACTION, id=key, operator="fuzz\x1b[2J")
    yield _broker(grammar, Code.GATEWAY_LIST_TRANSACTIONS)


def registration(grammar: Grammar) -> Requests:
    """A broker that registers, is asked for, beats, and leaves or does not."""
    random = grammar.random
    name = random.choice(names.BROKERS)
    place: dict[str, Any] = {
        "cluster_name": random.choice(names.CLUSTERS),
        "broker_name": name,
        "broker_addr": "192.0.2.9:10911",
    }
    yield _server(grammar, Code.REGISTER_BROKER, broker_id=random.choice((0, 1)), compressed=False, **place)
    yield _server(grammar, Code.GET_BROKER_CLUSTER_INFO)
    yield _server(grammar, Code.GET_ROUTEINFO_BY_TOPIC, topic=random.choice(names.TOPICS))
    yield _server(grammar, Code.BROKER_HEARTBEAT, **place)
    yield _server(grammar, Code.WIPE_WRITE_PERM_OF_BROKER, broker_name=name)
    if random.random() < 0.7:
        yield _server(grammar, Code.UNREGISTER_BROKER, broker_id=0, **place)


def locking(grammar: Grammar) -> Requests:
    """Queues locked and given back by clients that are members, and by ones that are not."""
    random = grammar.random
    group, client = random.choice(names.GROUPS), random.choice(names.CLIENTS)
    yield _topic(grammar, "fuzz_order")
    yield _heartbeat(grammar, "fuzz_order", group, client)
    queues = [
        Pairs([("topic", "fuzz_order"), ("brokerName", names.BROKER), ("queueId", number)]) for number in range(4)
    ]
    body = json_text(Pairs([("consumerGroup", group), ("clientId", client), ("mqSet", queues)])).encode()
    yield _broker(grammar, Code.LOCK_BATCH_MQ, body)
    yield _broker(grammar, Code.QUERY_ASSIGNMENT)
    yield _broker(grammar, Code.UNLOCK_BATCH_MQ, body)


def deletion(grammar: Grammar) -> Requests:
    """Topics and groups that go while others use them."""
    random = grammar.random
    topic, group = random.choice(names.TOPICS[:4]), random.choice(names.GROUPS[:3])
    yield _topic(grammar, topic)
    yield _heartbeat(grammar, topic, group, random.choice(names.CLIENTS))
    yield _send(grammar, topic)
    yield _broker(grammar, Code.DELETE_TOPIC_IN_BROKER, topic=topic)
    yield _pull(grammar, topic, group, 0, 0)
    yield _send(grammar, topic)
    yield _broker(grammar, Code.DELETE_SUBSCRIPTIONGROUP, group_name=group, clean_offset=random.random() < 0.5)
    yield _broker(grammar, Code.GET_TOPIC_STATS_INFO, topic=topic)
    yield _broker(grammar, Code.INVOKE_BROKER_TO_RESET_OFFSET, topic=topic, group=group, timestamp=-1, is_force=True)


def waiting(grammar: Grammar) -> Requests:
    """Delayed and timer messages, and their recall."""
    random = grammar.random
    yield _topic(grammar, "fuzz_delay")
    for _ in range(random.randint(1, 3)):
        wanted = (*names.PROPERTIES[4:11], *[f"UNIQ_KEY\x01fuzz{random.random()}\x02TIMER_DELAY_SEC\x015\x02"] * 3)
        answer = yield _send(grammar, "fuzz_delay", random.choice(wanted))
        handle = _fields(answer).get("recallHandle")
        if handle:
            yield _broker(grammar, Code.RECALL_MESSAGE, topic="fuzz_delay", recall_handle=handle)


def lite(grammar: Grammar) -> Requests:
    """Lite topics: a parent, a group of it, subscriptions, messages, pops."""
    random = grammar.random
    group, client = "fuzz_group_c", random.choice(names.CLIENTS)
    yield _topic(grammar, "fuzz_lite", "+message.type=LITE,+lite.topic.expiration=30")
    config = Pairs(
        [("groupName", group), ("consumeEnable", True), ("attributes", Pairs([("lite.bind.topic", "fuzz_lite")]))]
    )
    yield _broker(grammar, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json_text(config).encode())
    change = Pairs(
        [
            ("action", random.choice(list(SubscriptionAction)).value),
            ("clientId", client),
            ("group", group),
            ("topic", "fuzz_lite"),
            ("liteTopicSet", list(names.LITE_TOPICS)),
            ("version", 1),
        ]
    )
    yield _broker(grammar, Code.LITE_SUBSCRIPTION_CTL, json_text(Pairs([("subscriptionSet", [change])])).encode())
    yield _send(grammar, "fuzz_lite", f"__LITE_TOPIC\x01{random.choice(names.LITE_TOPICS)}\x02")
    yield _broker(
        grammar,
        Code.POP_LITE_MESSAGE,
        client_id=client,
        consumer_group=group,
        topic="fuzz_lite",
        max_msg_num=8,
        invisible_time=2_000,
        poll_time=0,
        born_time=None,
    )
    yield _broker(grammar, Code.GET_LITE_GROUP_INFO, group=group)


def values_by_key(grammar: Grammar) -> Requests:
    """Key and value of the name server, put, read and deleted."""
    for code in (Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE, Code.DELETE_KV_CONFIG):
        yield _server(grammar, code, namespace="fuzz", key="fuzz", value="fuzz")


SEQUENCES: Final[Sequence[Callable[[Grammar], Requests]]] = (
    *(consumption, popping, popping, transaction, registration, locking, deletion, waiting, lite, values_by_key),
)
