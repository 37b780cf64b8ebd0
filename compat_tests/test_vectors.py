"""Bytes made by the real Java classes are read by `wire`, and bytes made by `wire` are read by them.

`vectors/java-<version>.json` holds what those classes wrote, recorded with `--record-vectors`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from wire import Connection, LanguageCode, RemotingCommand, RequestCode, SerializeType, build_frame
from wire.bodies.consumers import ConsumerListByGroup
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, MessageQueue
from wire.bodies.route import BrokerData, QueueData, TopicRouteData
from wire.bodies.subscriptions import SubscriptionData
from wire.headers.declare import build_header, parse_header
from wire.headers.offsets import QueryConsumerOffsetRequest
from wire.headers.pull import PullMessageRequest
from wire.headers.send import SendMessageRequest, SendMessageResponse, ShortSendMessageRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.batch import BatchPart, build_batch, parse_batch
from wire.message.java_hash import java_string_hash
from wire.message.message_id import build_offset_message_id, pack_host, parse_offset_message_id, unpack_host
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage, StoredMessage, build_record, parse_record

VECTORS = Path(__file__).parent / "vectors"
PROPERTIES = "KEYS\x01k1 k2\x02TAGS\x01TagA\x02WAIT\x01true\x02"
UNIQUE_KEY = "0A0102030000000000000000000000AA"


class Recorded:
    """The vectors of one client version."""

    def __init__(self, version: str) -> None:
        document = json.loads((VECTORS / f"java-{version}.json").read_text())
        self.hashes: dict[str, int] = document["hashes"]
        self.vectors: dict[str, str] = document["vectors"]

    def __getitem__(self, name: str) -> bytes:
        return bytes.fromhex(self.vectors[name])


@pytest.fixture(params=CLIENT_VERSIONS)
def java_bytes(request: pytest.FixtureRequest) -> Recorded:
    return Recorded(request.param)


def command(frame: bytes) -> RemotingCommand:
    """The one command in a whole frame."""
    (found,) = Connection().receive_data(frame)
    return found


SENDING = SendMessageRequest(
    producer_group="group_p",
    topic="Orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=4,
    born_timestamp=1700000000123,
    flag=5,
    properties=PROPERTIES,
    reconsume_times=0,
    unit_mode=False,
    batch=False,
)
PULLING = PullMessageRequest(
    consumer_group="group_a",
    topic="Orders",
    queue_id=2,
    queue_offset=12345678901,
    max_msg_nums=32,
    sys_flag=3,
    commit_offset=12345678900,
    suspend_timeout_millis=15000,
    subscription="TagA || TagB",
    sub_version=1700000000000,
    expression_type="TAG",
)
ENDING = EndTransactionRequest(
    producer_group="group_t",
    tran_state_table_offset=9,
    commit_log_offset=4096,
    commit_or_rollback=8,
    from_transaction_check=True,
    msg_id=UNIQUE_KEY,
    transaction_id=UNIQUE_KEY,
)
ASKING = QueryConsumerOffsetRequest(consumer_group="group_a", topic="Orders", queue_id=0)
SENT = SendMessageResponse(
    msg_id="0A010203000029CC0000000000001000", queue_id=3, queue_offset=42, transaction_id=UNIQUE_KEY
)
FORMS = pytest.mark.parametrize("form", ["json", "rocketmq"])


@FORMS
@pytest.mark.parametrize(
    ("name", "code", "flag", "body"),
    [
        ("send_v2", RequestCode.SEND_MESSAGE_V2, 0, b"hello, body"),
        ("send_oneway", RequestCode.SEND_MESSAGE, 2, b"\x00\x01\x02\xff"),
        ("pull", RequestCode.PULL_MESSAGE, 0, b""),
        ("end_transaction", RequestCode.END_TRANSACTION, 0, b""),
        ("query_offset", RequestCode.QUERY_CONSUMER_OFFSET, 0, b""),
        ("bare", RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 0, b""),
    ],
)
def test_requests_of_java_are_read(
    java_bytes: Recorded, form: str, name: str, code: RequestCode, flag: int, body: bytes
) -> None:
    found = command(java_bytes[f"command_{name}_{form}"])
    assert (found.code, found.flag, found.body) == (code, flag, body)
    assert (found.opaque, found.version, found.language) == (1234567, 479, LanguageCode.JAVA)
    assert found.serialize_type == (SerializeType.JSON if form == "json" else SerializeType.ROCKETMQ)


@FORMS
def test_request_headers_of_java_are_read_field_by_field(java_bytes: Recorded, form: str) -> None:
    def header(name: str, cls: type[Any]) -> Any:
        return parse_header(cls, command(java_bytes[f"command_{name}_{form}"]).ext_fields)

    assert build_header(header("send_v2", ShortSendMessageRequest)) == build_header(
        parse_header(ShortSendMessageRequest, command(java_bytes["command_send_v2_json"]).ext_fields)
    )
    short = header("send_v2", ShortSendMessageRequest)
    for field in ("producer_group", "topic", "queue_id", "born_timestamp", "properties", "sys_flag", "flag"):
        assert getattr(short, field) == getattr(SENDING, field)
    assert header("send_oneway", SendMessageRequest) == SENDING
    assert header("pull", PullMessageRequest) == PULLING
    assert header("end_transaction", EndTransactionRequest) == ENDING
    asked = header("query_offset", QueryConsumerOffsetRequest)
    assert (asked.consumer_group, asked.topic, asked.queue_id) == ("group_a", "Orders", 0)
    assert header("send_answer", SendMessageResponse) == SENT


@FORMS
def test_a_refusal_of_java_is_read_with_its_remark(java_bytes: Recorded, form: str) -> None:
    found = command(java_bytes[f"command_refused_{form}"])
    assert (found.code, found.opaque, found.is_response) == (17, -1, True)
    assert found.remark == 'no "topic" für 主题 \x01'


def test_a_heartbeat_of_java_is_read(java_bytes: Recorded) -> None:
    found = HeartbeatData.parse(java_bytes["body_heartbeat"])
    assert (found.client_id, tuple(found.producers)) == ("10.0.0.1@client-1", ("group_p",))
    (consumer,) = found.consumers
    assert consumer.group == "group_a"
    assert consumer.consume_type == "CONSUME_PASSIVELY"
    assert consumer.message_model == "CLUSTERING"
    assert consumer.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    (subscription,) = consumer.subscriptions
    assert (subscription.topic, subscription.sub_string) == ("Orders", "TagA || TagB")
    assert subscription.tags_set == {"TagA", "TagB"}
    assert subscription.code_set == {java_string_hash("TagA"), java_string_hash("TagB")}


def test_a_route_of_java_is_read(java_bytes: Recorded) -> None:
    found = TopicRouteData.parse(java_bytes["body_route"])
    assert list(found.queue_datas) == [QueueData("broker-a", 4, 8, 6)]
    (broker,) = found.broker_datas
    assert (broker.cluster, broker.broker_name) == ("DefaultCluster", "broker-a")
    assert dict(broker.broker_addrs) == {0: "10.1.2.3:10911", 1: "10.1.2.4:10911"}


def test_other_bodies_of_java_are_read(java_bytes: Recorded) -> None:
    assert list(ConsumerListByGroup.parse(java_bytes["body_consumer_list"]).client_ids) == [
        "10.0.0.1@a",
        "10.0.0.2@b",
    ]
    claimed = LockBatchRequest.parse(java_bytes["body_lock_request"])
    assert (claimed.consumer_group, claimed.client_id) == ("group_o", "10.0.0.1@client-1")
    assert list(claimed.queues) == [MessageQueue("Orders", "broker-a", 3)]
    assert list(LockBatchResponse.parse(java_bytes["body_lock_response"]).queues) == list(claimed.queues)


HOSTS = {
    "ipv4": ("10.1.2.3", "10.4.5.6"),
    "ipv6": ("2001:db8::1", "2001:db8::2"),
    "mixed_hosts": ("10.1.2.3", "2001:db8::2"),
}


@pytest.mark.parametrize("hosts", HOSTS)
def test_a_stored_message_of_java_is_read(java_bytes: Recorded, hosts: str) -> None:
    raw = java_bytes[f"message_{hosts}"]
    found = parse_record(raw, 0)
    assert isinstance(found, StoredMessage)
    assert found.total_size == len(raw)
    assert (found.topic, found.body, found.flag) == ("Orders", b"stored body", 7)
    assert (found.queue_id, found.queue_offset, found.commit_log_offset) == (3, 41, 1 << 32)
    assert (found.born_at_ms, found.stored_at_ms) == (1700000000123, 1700000000456)
    assert (found.reconsume_times, found.prepared_transaction_offset) == (2, 99)
    assert unpack_host(found.born_host) == (HOSTS[hosts][0], 50001)
    assert unpack_host(found.store_host) == (HOSTS[hosts][1], 10911)
    assert found.property_map == {"KEYS": "k1 k2", "TAGS": "TagA"}


@pytest.mark.parametrize("hosts", HOSTS)
def test_our_record_of_the_same_message_has_the_same_bytes(java_bytes: Recorded, hosts: str) -> None:
    raw = java_bytes[f"message_{hosts}"]
    found = parse_record(raw, 0)
    assert isinstance(found, StoredMessage)
    assert build_record(outgoing(hosts, found.properties), 41, 1 << 32, 1700000000456) == raw


def outgoing(hosts: str, properties: bytes) -> OutgoingMessage:
    born, store = HOSTS[hosts]
    return OutgoingMessage(
        topic="Orders",
        queue_id=3,
        flag=7,
        sys_flag=0,
        born_at_ms=1700000000123,
        born_host=pack_host(born, 50001),
        store_host=pack_host(store, 10911),
        reconsume_times=2,
        prepared_transaction_offset=99,
        body=b"stored body",
        properties=properties,
    )


def test_a_batch_of_java_is_read(java_bytes: Recorded) -> None:
    parts = parse_batch(java_bytes["batch_body"])
    assert [part.body for part in parts] == [b"first", b"second", b""]
    assert {part.flag for part in parts} == {7}
    assert parse_properties(parts[0].properties)["KEYS"] == "key-first"
    assert build_batch(parts) == java_bytes["batch_body"]


def test_properties_of_java_are_read(java_bytes: Recorded) -> None:
    found = parse_properties(java_bytes["properties"])
    assert found == {"KEYS": "k1 k2", "TAGS": "TagA", "größe": "主题"}


def test_message_ids_of_java_are_read_and_made(java_bytes: Recorded) -> None:
    for name, ip, port, offset in (
        ("ipv4", "10.1.2.3", 10911, 2**32 + 1),
        ("ipv6", "2001:db8::1", 65535, 77),
    ):
        text = java_bytes[f"message_id_{name}"].decode()
        host, found = parse_offset_message_id(text)
        assert (unpack_host(host), found) == ((ip, port), offset)
        assert build_offset_message_id(pack_host(ip, port), offset) == text


def test_string_hashes_are_those_of_java(java_bytes: Recorded) -> None:
    assert {text: java_string_hash(text) for text in java_bytes.hashes} == java_bytes.hashes


@pytest.fixture(params=CLIENT_VERSIONS)
def java(request: pytest.FixtureRequest, clients: Callable[[str], JavaClient]) -> JavaClient:
    return clients(request.param)


def test_the_recorded_vectors_are_what_java_makes(java: JavaClient, request: pytest.FixtureRequest) -> None:
    made = java.run("vectors")
    path = VECTORS / f"java-{java.version}.json"
    document = {
        "origin": f"org.apache.rocketmq:rocketmq-client:{java.version}, "
        "made by compat_tests/java_client/src/compat/WireVectors.java",
        "hashes": made.json("hashes"),
        "vectors": made.json("vectors"),
    }
    if request.config.getoption("--record-vectors"):
        path.write_text(json.dumps(document, indent=1) + "\n")
    assert json.loads(path.read_text()) == document


def decoded(java: JavaClient, kind: str, raw: bytes) -> dict[str, Any]:
    """Return our bytes as the Java classes decode them."""
    return java.run("decode", kind=kind, hex=raw.hex()).fields


@pytest.mark.parametrize("form", [SerializeType.JSON, SerializeType.ROCKETMQ], ids=["json", "rocketmq"])
def test_java_reads_our_commands(java: JavaClient, form: SerializeType) -> None:
    ours = RemotingCommand(
        RequestCode.PULL_MESSAGE,
        opaque=-7,
        flag=2,
        version=479,
        remark='a "remark" für 主题',
        ext_fields=build_header(PULLING),
        body=b"\x00\xffbody",
        serialize_type=form,
    )
    found = decoded(java, "command", build_frame(ours))
    assert (found["code"], found["opaque"], found["flag"], found["version"]) == (11, -7, 2, 479)
    assert (found["language"], found["remark"]) == ("JAVA", 'a "remark" für 主题')
    assert found["fields"] == build_header(PULLING)
    assert bytes.fromhex(found["body"]) == b"\x00\xffbody"
    answer = ours.response(0, None, build_header(SENT))
    found = decoded(java, "command", build_frame(answer))
    assert (found["code"], found["opaque"], found["flag"], found["remark"]) == (0, -7, 1, None)
    assert found["fields"] == build_header(SENT)


@pytest.mark.parametrize("hosts", HOSTS)
def test_java_reads_our_stored_messages(java: JavaClient, hosts: str) -> None:
    raw = build_record(outgoing(hosts, PROPERTIES.encode()), 41, 1 << 32, 1700000000456)
    found = decoded(java, "message", raw)
    assert (found["topic"], bytes.fromhex(found["body"]), found["flag"]) == ("Orders", b"stored body", 7)
    assert (found["queue_id"], found["queue_offset"], found["commit_log_offset"]) == (3, 41, 1 << 32)
    assert (found["born_timestamp"], found["store_timestamp"]) == (1700000000123, 1700000000456)
    assert (found["store_size"], found["reconsume_times"]) == (len(raw), 2)
    assert found["prepared_transaction_offset"] == 99
    assert {k: found["properties"][k] for k in ("KEYS", "TAGS")} == {"KEYS": "k1 k2", "TAGS": "TagA"}
    host, offset = parse_offset_message_id(found["message_id"])
    assert (unpack_host(host), offset) == ((HOSTS[hosts][1], 10911), 1 << 32)


def test_java_reads_our_batches_properties_and_ids(java: JavaClient) -> None:
    properties = build_properties({"KEYS": "a b", "TAGS": "t"})
    found = decoded(java, "batch", build_batch([BatchPart(3, b"one", properties), BatchPart(0, b"", b"")]))
    assert found["messages"] == [
        {"body": b"one".hex(), "flag": 3, "keys": "a b", "tags": "t"},
        {"body": "", "flag": 0, "keys": None, "tags": None},
    ]
    found = decoded(java, "properties", build_properties({"größe": "主题", "K": "v\x01w"}))
    assert found["properties"]["größe"] == "主题"
    text = build_offset_message_id(pack_host("10.1.2.3", 10911), 99)
    found = decoded(java, "message_id", text.encode())
    assert (found["address"], found["offset"]) == ("10.1.2.3|10911", 99)


@pytest.mark.parametrize("standard", [True, False], ids=["standard", "bare-keys"])
def test_java_reads_our_routes(java: JavaClient, standard: bool) -> None:
    route = TopicRouteData(
        queue_datas=(QueueData("broker-a", 4, 8, 6),),
        broker_datas=(BrokerData("DefaultCluster", "broker-a", {0: "10.1.2.3:10911", 2: "10.1.2.4:1"}),),
    )
    found = decoded(java, "route", route.build(standard=standard))
    read = TopicRouteData.parse(found["json"])
    assert list(read.queue_datas) == list(route.queue_datas)
    assert dict(read.broker_datas[0].broker_addrs) == {0: "10.1.2.3:10911", 2: "10.1.2.4:1"}


def test_java_reads_our_other_bodies(java: JavaClient) -> None:
    subscription = SubscriptionData("Orders", "TagA", frozenset({"TagA"}), frozenset({java_string_hash("TagA")}), 5)
    heartbeat = HeartbeatData("client-1", ("group_p",), (ConsumerData("group_a", subscriptions=(subscription,)),))
    read = HeartbeatData.parse(decoded(java, "heartbeat", heartbeat.build())["json"])
    assert (read.client_id, tuple(read.producers)) == ("client-1", ("group_p",))
    assert read.consumers[0].subscriptions[0] == subscription
    members = ConsumerListByGroup(("a", "b"))
    found = decoded(java, "consumer_list", members.build())
    assert json.loads(found["json"]) == {"consumerIdList": ["a", "b"]}
    locked = LockBatchResponse((MessageQueue("Orders", "broker-a", 3),))
    found = decoded(java, "lock_response", locked.build())
    assert list(LockBatchResponse.parse(found["json"]).queues) == list(locked.queues)
