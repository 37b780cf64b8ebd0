"""Small requests that once cost a server much, one kind after the other, beside honest clients.

    python -m compat_tests.small_and_costly              every kind once
    python -m compat_tests.small_and_costly --kinds poison,filters --rounds 10

Each kind is sent to a real server process while an honest producer, consumer and route asker go on. For each the
program prints how long they waited at most (in brackets: less the time in which the machine gave no processor to the
server or to them, which alone is judged), the server's memory above that before the first, its descriptors, and what it
answered. A table at the end tells this for each kind over all rounds, and which limits do not hold (``costly_rounds``):
waits, memory at most, memory that is left above idle, growth of the memory in use, descriptors. The exit code is 1 when
one does not hold, or when an honest client was refused. A kind uses the same names in each round, or deletes what it
made, so that whatever grows from round to round is a loss. ``unread_answers`` and
``many_queues`` do the same for answers that nobody reads and for files that are closed under their readers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeAlias

from compat_tests.costly_rounds import Descriptors, InUse, Seen, Trial
from compat_tests.unread_answers import (
    MIB,
    SETTLE_S,
    Honest,
    Watch,
    pause,
    pull_fields,
    resident_bytes,
    send_fields,
)
from gateway.client.testing.server import GatewayServer, free_port
from gateway.telemetry.memory_in_use import BLOCKS, HEAP
from wire.bodies.fastjson import parse_json
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.message.message_id import parse_offset_message_id

Address: TypeAlias = tuple[str, int]
Fields: TypeAlias = Mapping[str, object]
LARGEST: Final = 16 * MIB - 4_096
"""Bytes of a body that fits the largest frame."""
MAX_CRC: Final = 0x7FFFFFFF
"""Java drops the sign of a checksum; a server refuses one with it, before it reads the body."""
ANSWER_S: Final = 600.0
"""Three hundred lists of 23,000 topics take a slow server two minutes; the last peer waits that long."""
LARGE_MESSAGE: Final = 4 * MIB - 4_096
LARGE_COMMITS: Final = 50


class Peer:
    """A client that sends many requests at once and then reads as many answers."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_S)
        self._frames = Connection()

    def send(self, requests: Iterable[tuple[int, Fields, bytes]]) -> int:
        """Send these, and return how many they are."""
        sent = 0
        for sent, (code, fields, body) in enumerate(requests, 1):
            texts = {key: str(value) for key, value in fields.items()}
            self._socket.sendall(build_frame(RemotingCommand(code, opaque=sent, ext_fields=texts, body=body)))
        return sent

    def read(self, count: int) -> list[RemotingCommand]:
        """Return so many answers, or fewer when the server closed the connection."""
        answers: list[RemotingCommand] = []
        while len(answers) < count:
            try:
                data = self._socket.recv(MIB)
            except ConnectionResetError:
                break
            if not data:
                break
            answers += [command for command in self._frames.receive_data(data) if command.is_response]
        return answers

    def ask(self, *requests: tuple[int, Fields, bytes]) -> list[RemotingCommand]:
        """Send these and return their answers."""
        try:
            return self.read(self.send(requests))
        except (BrokenPipeError, ConnectionResetError):
            return self.read(1)

    def leave(self) -> None:
        """End at once what the system still has to send."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


@dataclass(frozen=True)
class Place:
    """The address of the server."""

    broker: Address
    name_server: Address
    pages: Address
    """Metrics and health, over HTTP."""


Kind: TypeAlias = Callable[[Place], Counter[str]]


@contextmanager
def peers(address: Address, count: int = 1) -> Iterator[list[Peer]]:
    """Connect so many, and leave at the end."""
    with ExitStack() as opened:
        connected = []
        for _ in range(count):
            connected.append(Peer(address))
            opened.callback(connected[-1].leave)
        yield connected


def counted(answers: Iterable[RemotingCommand], expected: int = 0) -> Counter[str]:
    """Return how often each answer came; ``closed`` for those that did not."""
    found = Counter(_name(answer.code) for answer in answers)
    if found.total() < expected:
        found["closed"] += expected - found.total()
    return found


def _name(code: int) -> str:
    return ResponseCode(code).name if code in set(ResponseCode) else str(code)


def _ask(address: Address, *requests: tuple[int, Fields, bytes]) -> Counter[str]:
    with peers(address) as (peer,):
        return counted(peer.ask(*requests), len(requests))


def _topic(name: str, queues: int = 1) -> tuple[int, Fields, bytes]:
    fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    return RequestCode.UPDATE_AND_CREATE_TOPIC, fields, b""


def _group(name: str) -> tuple[int, Fields, bytes]:
    body = {"groupName": name, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
    return RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode()


def _send(topic: str, properties: Mapping[str, str], body: bytes = b"x" * 100) -> tuple[int, Fields, bytes]:
    text = "".join(f"{key}\x01{value}\x02" for key, value in properties.items())
    return RequestCode.SEND_MESSAGE, {**send_fields(topic), "properties": text}, body


def _pull(
    topic: str, expression: str, wait_ms: int = 0, offset: int = 0, version: int = 0
) -> tuple[int, Fields, bytes]:
    fields: dict[str, object] = {**pull_fields(topic, offset), "subscription": expression, "expressionType": "SQL92"}
    fields |= {"suspendTimeoutMillis": wait_ms, "sysFlag": 6 if wait_ms else 4}
    return RequestCode.PULL_MESSAGE, fields, b""


def _register(
    broker: str, topics: Mapping[str, TopicConfig], *, compressed: bool = False, body: bytes | None = None
) -> tuple[int, Fields, bytes]:
    raw = body
    if raw is None:
        raw = RegisterBrokerBody(DataVersion(counter=1), dict(topics)).build(compressed)
    fields = {"brokerName": broker, "brokerAddr": "192.0.2.1:10911", "clusterName": "made-up", "brokerId": 0}
    fields |= {
        "haServerAddr": "192.0.2.1:10912",
        "compressed": str(compressed).lower(),
        "bodyCrc32": zlib.crc32(raw) & MAX_CRC,
    }
    return RequestCode.REGISTER_BROKER, fields, raw


def _assignment(topic: str) -> tuple[int, Fields, bytes]:
    body = {"topic": topic, "consumerGroup": "attack", "clientId": "c", "messageModel": "CLUSTERING"}
    return RequestCode.QUERY_ASSIGNMENT, {}, json.dumps({**body, "strategyName": "AVG"}).encode()


def _heartbeat(client: str, group: str, subscriptions: Sequence[Mapping[str, Any]] = ()) -> tuple[int, Fields, bytes]:
    consumer = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    consumer |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
    value = {"clientID": client, "consumerDataSet": [{**consumer, "subscriptionDataSet": list(subscriptions)}]}
    return RequestCode.HEART_BEAT, {}, json.dumps(value).encode()


def _subscription(topic: str, expression: str) -> dict[str, Any]:
    return {"topic": topic, "subString": expression, "expressionType": "SQL92", "subVersion": 1, "tagsSet": []}


def endless_queues(place: Place) -> Counter[str]:
    """A broker that says it has 2^31 queues, and a client that asks how to share them."""
    found = _ask(place.name_server, _register("endless", {"endless": TopicConfig("endless", 2**31 - 1, 2**31 - 1)}))
    return found + _ask(place.broker, _assignment("endless"))


def many_queues(place: Place) -> Counter[str]:
    """Ask about the topic with the most queues; count the answers."""
    about = (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "wide"}, b"")
    route = (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "wide"}, b"")
    found = _ask(place.broker, *[_topic("wide", 65_536), *[about, _assignment("wide")] * 10])
    return found + _ask(place.name_server, *[route] * 10)


def numbers(place: Place) -> Counter[str]:
    """Numbers of many digits, in bodies of all sizes."""
    found: Counter[str] = Counter()
    for size in (12_000, 250_000, 2_000_000, LARGEST):
        text = b"{a:" + b"1" * size + b"x}"
        for code in (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.QUERY_ASSIGNMENT):
            found += _ask(place.broker, (code, {}, text))
        found += _ask(place.name_server, _register("numbers", {}, body=text))
    return found


def poison(place: Place) -> Counter[str]:
    """Messages with long numbers in a property, and pulls that compare it with a decimal."""
    _ask(place.broker, *[_send("poison", {"a": "1" * 32_000 + "x"})] * 64)
    pulls = [_pull("poison", f"a > {number}.5 AND a BETWEEN 0.{number} AND 1e9") for number in range(160)]
    return _ask(place.broker, *pulls)


def filters(place: Place) -> Counter[str]:
    """The longest expressions over many messages, and held pulls with them beside new messages."""
    _ask(place.broker, *[_send("filtered", {"a": "x" * 1_000, "b": "y" * 1_000})] * 1_600)
    longest = " OR ".join(f"a LIKE '%{number:03d}%'" for number in range(250))
    own = [f"{longest} OR b = '{number}'" for number in range(500)]
    found = _ask(place.broker, *[_pull("filtered", expression) for expression in own[:100]])
    with peers(place.broker, 50) as holders:
        for number, holder in enumerate(holders):
            holder.send(
                _pull("filtered", expression, 15_000, 1_600) for expression in own[number * 10 : number * 10 + 10]
            )
        found += _ask(place.broker, *[_send("filtered", {"a": "x" * 1_000})] * 10)
        pause(2)
    return found


def heartbeats(place: Place) -> Counter[str]:
    """Heartbeats with as many expressions as fit."""
    found: Counter[str] = Counter()
    for count, characters in ((100, 15_000), (100, 50_000), (330, 12_000)):
        text = " OR ".join(f"a = '{number}'" for number in range(characters // 12))
        subscriptions = [_subscription(f"t{number}", f"{text} OR b = {number}") for number in range(count)]
        found += _ask(place.broker, _heartbeat("c", f"filters{count}", subscriptions))
    return found


def members(place: Place) -> Counter[str]:
    """A thousand members of one group that come and go."""
    with peers(place.broker, 1_000) as joining:
        for number, peer in enumerate(joining):
            peer.send([_heartbeat(f"member{number}", "crowd", [_subscription("crowd", "a = 1")])])
        return counted(answer for peer in joining for answer in peer.read(1))


def registrations(place: Place) -> Counter[str]:
    """A broker with as many topics as it may have, two thousand brokers, and their common end."""
    many = {name: TopicConfig(name) for name in map("topic-{}".format, range(200_000))}
    with peers(place.name_server) as (peer,):
        found = counted(peer.ask(_register("large", many, compressed=True)), 1)
        few = {name: many[name] for name in itertools.islice(many, 100)}
        found += counted(peer.ask(*(_register(f"broker{number}", few) for number in range(2_000))), 2_000)
    pause(2)
    return found


def lenient(place: Place) -> Counter[str]:
    """Bodies that are no JSON but for a lenient reader."""
    found: Counter[str] = Counter()
    for size in (1_000_000, 2_000_000, LARGEST):
        text = (b"{" + b"1:[]," * (size // 5))[:size] + b"1:1}"
        found += _ask(place.broker, (RequestCode.HEART_BEAT, {}, text), (RequestCode.LOCK_BATCH_MQ, {}, text))
        found += _ask(place.name_server, _register("lenient", {}, body=text))
    return found


def values(place: Place) -> Counter[str]:
    """Values of a megabyte, kept by the name server, and taken away."""
    keys = [{"namespace": f"attack{number % 5}", "key": str(number)} for number in range(51)]
    puts = [(RequestCode.PUT_KV_CONFIG, {**key, "value": "v" * 1_000_000}, b"") for key in keys]
    small = [(RequestCode.PUT_KV_CONFIG, {**key, "value": "v" * 30_000}, b"") for key in keys]
    found = _ask(place.name_server, *puts) + _ask(place.name_server, *small)
    return found + _ask(place.name_server, *[(RequestCode.DELETE_KV_CONFIG, key, b"") for key in keys])


def offsets(place: Place) -> Counter[str]:
    """Offsets of queues that do not exist."""
    return _ask(
        place.broker,
        *[
            (
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": f"g{number}", "topic": "nowhere", "queueId": number, "commitOffset": 1},
                b"",
            )
            for number in range(20_000)
        ],
    )


def locks(place: Place) -> Counter[str]:
    """Locks of topics that do not exist, with long names."""
    queues = [{"topic": f"{number}" + "t" * 15_000, "brokerName": "b", "queueId": 0} for number in range(100)]
    body = json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()
    return _ask(place.broker, *[(RequestCode.LOCK_BATCH_MQ, {}, body)] * 10)


def queries(place: Place) -> Counter[str]:
    """Queries of a key that shares its hash with thousands of others."""
    alike = ["".join(parts) for parts in itertools.product(("Aa", "BB"), repeat=12)]
    _ask(place.broker, *[_send("alike", {"KEYS": " ".join(alike[at : at + 64])}) for at in range(0, len(alike), 64)])
    fields = {"topic": "alike", "key": "AaBB" * 6, "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 2**62}
    return _ask(place.broker, *[(RequestCode.QUERY_MESSAGE, fields, b"")] * 1_200)


def statistics(place: Place) -> Counter[str]:
    """A hundred lists of 65,536 queues each at once, of which nobody reads one."""
    topic, group = {"topic": "wide"}, {"consumerGroup": "attack"}
    _ask(place.broker, _topic("wide", 65_536))
    commits = [{**group, **topic, "queueId": number, "commitOffset": 0} for number in range(0, 65_536, 8)]
    _ask(place.broker, *[(RequestCode.UPDATE_CONSUMER_OFFSET, commit, b"") for commit in commits])
    for code, fields in (
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        (RequestCode.GET_CONSUME_STATS, {**group, **topic}),
        (RequestCode.GET_TOPIC_STATS_INFO, topic),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {**topic, "group": "attack"}),
    ):
        with peers(place.broker) as (peer,):
            peer.send([(code, fields, b"")] * 100)
            pause(4)
    return Counter()


def added_topics(place: Place) -> Counter[str]:
    """Topics that are added for 9,000 brokers that do not exist."""
    queues = [{"brokerName": f"made-up-{number}", "perm": 6} for number in range(9_000)]
    counts = {"readQueueNums": 4, "writeQueueNums": 4, "topicSysFlag": 0}
    body = json.dumps({"queueDatas": [{**queue, **counts} for queue in queues]}).encode()
    return _ask(place.name_server, *[(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "added"}, body)] * 10)


def idle(place: Place) -> Counter[str]:
    """Connections that say nothing, and such that begin the largest frame and do not end it."""
    with peers(place.broker, 800) as broker_side, peers(place.name_server, 200):
        for peer in broker_side[:40]:
            peer._socket.sendall(struct.pack(">II", LARGEST, 100) + b" " * MIB)
        pause(2)
    return Counter()


def page_bodies(place: Place) -> Counter[str]:
    """Requests for a page with a body that would fill the disk."""
    heads = (
        b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999",
        b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked",
    )
    found: Counter[str] = Counter()
    for head in [*heads * 5]:
        with socket.create_connection(place.pages, timeout=ANSWER_S) as asker:
            asker.sendall(head + b"\r\n\r\n")
            try:
                for _ in range(64):
                    asker.sendall(b"FFFF\r\n".ljust(MIB, b"x"))
                found["taken"] += 1
            except OSError:
                found["refused"] += 1
    return found


def page_requests(place: Place) -> Counter[str]:
    """Requests for pages that come together, whose answers nobody reads."""
    with ExitStack() as opened:
        for _ in range(20):
            asker = opened.enter_context(socket.create_connection(place.pages, timeout=ANSWER_S))
            asker.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 600)
        pause(2)
        return _page(place)


def page_silence(place: Place) -> Counter[str]:
    """Connections to the pages that say nothing, and such that never end the head of a request."""
    with ExitStack() as opened:
        for number in range(300):
            asker = opened.enter_context(socket.create_connection(place.pages, timeout=ANSWER_S))
            asker.sendall(b"GET /metrics HTTP/1.1\r\nX: " if number % 2 else b"")
        return _page(place)


def _page(place: Place) -> Counter[str]:
    """Ask for a page there at the same time; count the answers."""
    with socket.create_connection(place.pages, timeout=ANSWER_S) as asker:
        asker.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        return Counter([asker.recv(MIB).split(b" ")[1].decode()])


def lite_changes(place: Place) -> Counter[str]:
    """A client with 88,000 lite topics that changes nothing, again and again, and a thousand that have all of them."""
    parent, groups = "lite", {"lite": {}, "all": {"+lite.sub.wildcard": "true"}}
    code, fields, body = _topic(parent)
    _ask(place.broker, (code, {**fields, "attributes": "+message.type=LITE"}, body))
    for name, attributes in groups.items():
        bound = {"groupName": name, "attributes": {"+lite.bind.topic": parent, **attributes}}
        _ask(place.broker, (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(bound).encode()))

    def changed(
        action: str, group: str, clients: Iterable[str], names: Sequence[str] = ()
    ) -> tuple[int, Fields, bytes]:
        wish = {"action": action, "group": group, "topic": parent, "liteTopicSet": names, "version": 0}
        wishes = [{**wish, "clientId": client} for client in clients]
        return RequestCode.LITE_SUBSCRIPTION_CTL, {}, json.dumps({"subscriptionSet": wishes}).encode()

    names = [f"n{number}" for number in range(88_000)]
    clients = [f"c{number}" for number in range(1_000)]
    with peers(place.broker, 2) as (peer, sender):
        found = counted(peer.ask(changed("COMPLETE_ADD", "lite", ["c"], names)), 1)
        found += counted(peer.ask(*[changed("PARTIAL_ADD", "lite", ["c"] * 1_000)] * 20), 20)
        found += counted(peer.ask(*[changed("COMPLETE_ADD", "lite", ["c"], names)] * 3), 3)
        found += counted(peer.ask(changed("COMPLETE_ADD", "all", clients)), 1)
        sends = [_send(parent, {"__LITE_TOPIC": f"n{number}"}) for number in range(300)]
        found += counted(sender.ask(*sends), len(sends))
        found += counted(peer.ask(changed("COMPLETE_REMOVE", "all", clients)), 1)
        found += counted(peer.ask(changed("COMPLETE_REMOVE", "lite", ["c"])), 1)
    return found


def _half(body: bytes) -> tuple[int, Fields, bytes]:
    code, fields, _ = _send("halves", {"TRAN_MSG": "true", "PGROUP": "attack"})
    return code, {**fields, "sysFlag": 4}, body


def _outcome(half: RemotingCommand, outcome: int, group: str = "attack") -> tuple[int, Fields, bytes]:
    _, at = parse_offset_message_id(half.ext_fields["msgId"])
    fields: dict[str, object] = {"producerGroup": group, "tranStateTableOffset": half.ext_fields["queueOffset"]}
    fields |= {"commitLogOffset": at, "commitOrRollback": outcome, "msgId": "m", "fromTransactionCheck": "false"}
    return RequestCode.END_TRANSACTION, fields, b""


def large_outcomes(place: Place) -> Counter[str]:
    """Outcomes and resumed checks that name a message of four megabytes, and are refused."""
    with peers(place.broker) as (peer,):
        (half,) = peer.ask(_half(b"x" * LARGE_MESSAGE))
        requests = [_outcome(half, outcome, "foreign") for outcome in (8, 12)] * 125
        requests += [_outcome(half, 12)] * 125
        requests += [(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": half.ext_fields["msgId"]}, b"")] * 125
        return counted(peer.ask(*requests), len(requests))


def large_commits(place: Place) -> Counter[str]:
    """Commits of half messages of four megabytes, all at once and again, and some of them sent back."""
    with peers(place.broker) as (peer,):
        halves = [half for _ in range(LARGE_COMMITS) for half in peer.ask(_half(b"x" * LARGE_MESSAGE))]
        pause(2)
        commits = [_outcome(half, 8) for half in halves]
        found = counted(peer.ask(*commits), len(commits))
        found += counted(peer.ask(*commits * (500 // LARGE_COMMITS)), 0)
        backs = {"group": "attack", "delayLevel": 3, "maxReconsumeTimes": 16}
        places = [parse_offset_message_id(half.ext_fields["msgId"])[1] for half in halves]
        sent_back = [(RequestCode.CONSUMER_SEND_MSG_BACK, {**backs, "offset": at}, b"") for at in places]
        return found + counted(peer.ask(*sent_back), len(sent_back))


def transaction_pages(place: Place) -> Counter[str]:
    """The longest pages of half messages, a hundred at once."""
    pages = [(RequestCode.GATEWAY_LIST_TRANSACTIONS, {"maxNum": 500, "producerGroup": "attack"}, b"")] * 100
    return _roll_back(place, 3_000, pages)


def _roll_back(place: Place, count: int, meanwhile: Sequence[tuple[int, Fields, bytes]] = ()) -> Counter[str]:
    """Store half messages, ask these, and roll all of them back; count the answers but those to the half messages."""
    with peers(place.broker) as (peer,):
        halves = peer.ask(*[_half(b"x")] * count)
        found = counted(peer.ask(*meanwhile), len(meanwhile))
        return found + counted(peer.ask(*(_outcome(half, 12) for half in halves)), len(halves))


def _of_many_queues(code: RequestCode) -> tuple[int, Fields, bytes]:
    about: dict[str, object] = {"consumerGroup": "attack", "topic": "popped", "queueId": -1, "maxMsgNums": 32}
    about |= {"invisibleTime": 60_000, "pollTime": 20_000, "bornTime": 0, "initMode": 0}
    return code, about, b""


def pops(place: Place) -> Counter[str]:
    """A thousand pops and a thousand questions for news of the topic with the most queues, and messages there."""
    _ask(place.broker, _topic("popped", 65_536))
    with peers(place.broker, 2) as (popping, asking):
        popping.send([_of_many_queues(RequestCode.POP_MESSAGE)] * 1_000)
        asking.send([_of_many_queues(RequestCode.NOTIFICATION)] * 1_000)
        found = _ask(place.broker, *[_send("popped", {})] * 10)
        pause(10)
        found += _ask(place.broker, *[_send("popped", {})] * 10)
        return found + counted(popping.read(20), 20) + counted(asking.read(1_000), 1_000)


def looks(place: Place) -> Counter[str]:
    """Looks at the messages of the topic with the most queues."""
    return _ask(place.broker, _topic("popped", 65_536), *[_of_many_queues(RequestCode.PEEK_MESSAGE)] * 100)


def _at_once(address: Address, requests: Sequence[tuple[int, Fields, bytes]], each: int = 1) -> Counter[str]:
    """Send each of these so many times over a connection of its own, all at once, and return the answers."""
    with peers(address, len(requests)) as asking:
        threads = [
            Thread(target=peer.send, args=([request] * each,)) for peer, request in zip(asking, requests, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = (answer for peer in asking for answer in peer.read(each))
        return counted(found, len(requests) * each)


def _large_heartbeat(number: int, size: int) -> tuple[int, Fields, bytes]:
    """A heartbeat of so many bytes, with groups of its own that subscribe to twenty topics each."""
    groups: list[dict[str, Any]] = []
    left = size
    while left > 0:
        about = {"subString": "*", "expressionType": "TAG", "subVersion": 1, "tagsSet": [], "codeSet": []}
        group: dict[str, Any] = {"groupName": f"g{number}-{len(groups)}", "consumeType": "CONSUME_PASSIVELY"}
        group |= {"messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
        group["subscriptionDataSet"] = [{"topic": f"t{len(groups)}-{topic}", **about} for topic in range(20)]
        groups.append(group)
        left -= len(json.dumps(group))
    return RequestCode.HEART_BEAT, {}, json.dumps({"clientID": f"c{number}", "consumerDataSet": groups}).encode()


def heartbeats_together(place: Place) -> Counter[str]:
    """Large heartbeats over connections of their own, all at once."""
    found = _at_once(place.broker, [_large_heartbeat(number, 456_000) for number in range(40)])
    return found + _at_once(place.broker, [_large_heartbeat(number, 285_000) for number in range(150)])


def locks_together(place: Place) -> Counter[str]:
    """Claims of as many queues as one may claim, over connections of their own, all at once."""
    found: Counter[str] = Counter()
    for count in (16_000, 2_000):
        queues = [{"topic": "honest", "brokerName": "b", "queueId": number} for number in range(count)]
        claims = [{"consumerGroup": "attack", "clientId": f"c{number}", "mqSet": queues} for number in range(60)]
        found += _at_once(place.broker, [(RequestCode.LOCK_BATCH_MQ, {}, json.dumps(one).encode()) for one in claims])
    return found


def lists_together(place: Place) -> Counter[str]:
    """Lists over hundreds of connections, all at once, beside thousands of topics."""
    _ask(place.broker, *[_topic(f"listed{number}") for number in range(1_900)])
    found = _at_once(place.broker, [(RequestCode.GET_ALL_TOPIC_CONFIG, {}, b"")] * 300)
    found += _at_once(place.broker, [(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {}, b"")] * 300)
    found += _at_once(place.name_server, [(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, b"")] * 300)
    return found + _at_once(place.broker, [(RequestCode.GET_BROKER_CONFIG, {}, b"")] * 1_000)


def held_pulls(place: Place) -> Counter[str]:
    """Hold as many pulls as allowed and wake them by one message; then hold as many whose time ends at once."""
    found: Counter[str] = Counter()
    held = 990
    for topic, wait_ms in (("held", 60_000), ("over", 15_000)):
        _ask(place.broker, _topic(topic))
        fields = {**pull_fields(topic, 0), "sysFlag": 6, "suspendTimeoutMillis": wait_ms}
        with peers(place.broker, 99_000 // held) as holders:
            for holder in holders:
                holder.send([(RequestCode.PULL_MESSAGE, fields, b"")] * held)
            if topic == "held":
                _ask(place.broker, _send(topic, {}))
            found += counted((answer for holder in holders for answer in holder.read(held)), 99_000)
    return found


def other_names(place: Place) -> Counter[str]:
    """Registrations under the name of the honest broker, whose connections end."""
    with peers(place.name_server) as (peer,):
        (route,) = peer.ask((RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "honest"}, b""))
        (broker,) = parse_json(route.body)["brokerDatas"]
    found: Counter[str] = Counter()
    for address in ("192.0.2.1:10911", f"127.0.0.1:{place.broker[1]}"):
        code, fields, body = _register(broker["brokerName"], {"honest": TopicConfig("honest")})
        stolen = {**fields, "clusterName": broker["cluster"], "brokerAddr": address}
        for _ in range(5):
            found += _ask(place.name_server, (code, stolen, body))
            pause(0.1)
    return found


def time_spans(place: Place) -> Counter[str]:
    """Ask how long messages wait for a group: in a topic whose answer fills a frame, and in one that no frame holds."""
    found: Counter[str] = Counter()
    for topic, queues in (("filling", 49_152), ("wide", 65_536)):
        _ask(place.broker, _topic(topic, queues))
        about = (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": "attack"}, b"")
        found += _at_once(place.broker, [about] * 10)
    return found


def new_queues(place: Place) -> Counter[str]:
    """First messages of thousands of queues, each of which takes a file, over several connections; then their end."""
    topic = "firsts"
    _ask(place.broker, _topic(topic, 16_384))
    code, fields, body = _send(topic, {})
    firsts = [(code, {**fields, "queueId": queue}, body) for queue in range(16_384)]
    found: Counter[str] = Counter()
    with peers(place.broker, 8) as senders:
        for number, sender in enumerate(senders):
            sender.send(firsts[number::8])
        for sender in senders:
            found += counted(sender.read(2_048), 2_048)
    return found + _ask(place.broker, (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, b""))


def light_queues(place: Place) -> Counter[str]:
    """Messages that name hundreds of light queues; only in the first round these do not exist yet."""
    made = itertools.count()
    found: Counter[str] = Counter()
    for messages, names in ((40, 64), (10, 256), (2, 1_024), (1, 2_000)):
        named = [",".join(f"%LMQ%{next(made)}" for _ in range(names)) for _ in range(messages)]
        found += _ask(place.broker, *[_send("honest", {"INNER_MULTI_DISPATCH": one}) for one in named])
    return found


KINDS: Final[Mapping[str, Kind]] = {
    kind.__name__: kind
    for kind in (
        *(statistics, added_topics),
        *(endless_queues, many_queues, numbers, poison, filters, heartbeats, members, registrations, lenient),
        *(values, offsets, locks, queries, idle, page_bodies, page_requests, page_silence),
        *(lite_changes, large_outcomes, large_commits, transaction_pages, pops, looks),
        *(heartbeats_together, locks_together, lists_together, held_pulls, other_names, time_spans),
        *(new_queues, light_queues),
    )
}
INDEX: Final = {"maxHashSlotNum": "250000"}
"""A key index with one megabyte of slots in memory.

The slots of an ordinary one take up to 20 MB, 4 KiB more with each message of the honest producer: they would look like
memory that a peer left behind.
"""
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "lite_changes": {"enableLmq": "true", "enableMultiDispatch": "true"},
    "light_queues": {"enableLmq": "true", "enableMultiDispatch": "true"},
}
"""What a kind needs besides the settings of all."""


def _in_use(place: Place) -> InUse:
    with socket.create_connection(place.pages, timeout=ANSWER_S) as asker, asker.makefile("rb") as page:
        asker.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        lines = [line.split() for line in page.read().decode().splitlines()]
    values = {words[0].partition("{")[0]: words[-1] for words in lines if words and words[0] != "#"}
    return InUse(int(values[BLOCKS]), int(values[HEAP]))


def _descriptors(process_id: int) -> Descriptors:
    found: Counter[str] = Counter()
    log_files: Counter[Path] = Counter()
    for descriptor in Path(f"/proc/{process_id}/fd").iterdir():
        with suppress(FileNotFoundError):
            path = descriptor.readlink()
            if {"commitlog", "index"} & set(path.parts):
                log_files[path] += 1
            else:
                found["consumequeue" if "consumequeue" in path.parts else ""] += 1
    return Descriptors(found[""], found["consumequeue"], log_files.total() - len(log_files))


def _prepare(place: Place) -> None:
    found = _ask(place.broker, *[_group("attack"), _topic("honest"), _send("honest", {}), _topic("beside")])
    if set(found) != {"SUCCESS"}:
        raise RuntimeError(f"could not prepare: {dict(found)}")
    names = ("poison", "filtered", "crowd", "alike", "halves")
    _ask(place.broker, *[_topic(name) for name in names])
    # Who asked for the last 10,000 outcomes is remembered: filled later, that would look like a loss.
    for _ in range(4):
        _roll_back(place, 2_500)


def run(kinds: Sequence[str], rounds: int, minutes: float = 1_000) -> Trial:
    """Send each kind so many times, and return what that did; no round begins after so many minutes."""
    ends_s = time.monotonic() + minutes * 60
    seen: list[list[Seen]] = []
    refusals: list[str] = []
    pages = free_port()
    settings = {"enablePropertyFilter": "true", "mappedFileSizeCommitLog": "67108864", "gateway.maxConnections": "2000"}
    settings |= {"metricsExporterType": "PROM", "metricsPromExporterPort": str(pages)}
    settings |= INDEX
    for kind in kinds:
        settings |= SETTINGS.get(kind, {})
    with GatewayServer(settings=settings) as server, ExitStack() as honest:
        place = Place(_address(server.broker), _address(server.nameserver), ("127.0.0.1", pages))
        _prepare(place)
        clients = [
            Honest(server.pid, place.broker, RequestCode.SEND_MESSAGE, send_fields("beside"), b"x" * 100),
            Honest(server.pid, place.broker, RequestCode.PULL_MESSAGE, pull_fields("honest", 0), b""),
            Honest(server.pid, place.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "honest"}, b""),
        ]
        for client in clients:
            client.start()
            honest.callback(_end, client, refusals)
        pause(SETTLE_S)
        before = resident_bytes(server.pid), _descriptors(server.pid)
        for number in range(1, rounds + 1):
            if seen and time.monotonic() > ends_s:
                break
            seen.append([])
            for kind in kinds:
                for client in clients:
                    client.take_longest()
                watch = Watch(server.pid)
                watch.start()
                answers = KINDS[kind](place)
                waits = tuple(client.take_longest() for client in clients)
                pause(SETTLE_S)
                watch.end()
                after_bytes = resident_bytes(server.pid) - before[0]
                descriptors = _descriptors(server.pid) - before[1]
                peak_bytes = watch.peak_bytes - before[0]
                seen[-1].append(Seen(kind, waits, peak_bytes, after_bytes, _in_use(place), descriptors, answers))
                print(number, seen[-1][-1], flush=True)
    return Trial(before[0], seen, refusals)


def _end(client: Honest, refusals: list[str]) -> None:
    try:
        client.end()
    except RuntimeError as error:
        refusals.append(str(error))


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kinds and print what they did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1_000, help="begin no round after so many")
    given = parser.parse_args(arguments)
    began_s = time.monotonic()
    trial = run(given.kinds.split(","), given.rounds, given.minutes)
    faults = trial.faults()
    print(f"\n{trial.table()}\n")
    print("\n".join(faults) or f"all is well after {time.monotonic() - began_s:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
