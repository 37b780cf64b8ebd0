"""Groups that are new to a queue, while messages are sent: a client takes several looks, and misses no message.

A stock client asks where its group stands (14). Without an answer it asks for the end of the queue (30) or for the
offset of a time (29), as its ``consumeFromWhere`` says. Then it pulls. Messages are sent at any of these moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.pop.pop_taking import INIT_FROM_LAST
from gateway.in_thread import Failed
from gateway.settings.store import FlushDiskType
from gateway.store.disk.files import FileLayer
from gateway.tests.broker.popping import bodies, pop
from gateway.tests.broker.upkeep.test_expiry import ask_for_deletion, broker_in, fill, make_old
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.message.flags import PullFlag
from wire.message.record import parse_records

BEFORE, BETWEEN_QUESTIONS, BEFORE_THE_PULL, WHILE_HELD = MOMENTS = range(4)
SENDS = [*((moment,) for moment in MOMENTS), *combinations_with_replacement(MOMENTS, 2)]
WHERE = ("LAST_OFFSET", "TIMESTAMP", "FIRST_OFFSET")
GENERATIONS: tuple[Mapping[str, str], ...] = ({}, {"committed": "true"})
"""What clients of 4.9 and of 5.x add to the question for the end."""
ROUNDS = 1
"""Each start once; 12 rounds are 1,008 starts."""
HALF_AN_HOUR_MS = 1_800_000
GROUP = "new-to-each-queue"


class Start:
    """A new group begins with one queue, of which it has not heard before."""

    def __init__(self, broker: WholeBroker, peers: tuple[Peer, Peer], queue_id: int, moments: tuple[int, ...]) -> None:
        self.sent: list[bytes] = []
        self._broker = broker
        self._client, self._producer = peers
        self._queue = {"topic": "orders", "queueId": str(queue_id)}
        self._moments = moments

    def run(self, where: str, extra: Mapping[str, str]) -> list[bytes]:
        """Begin as a stock client does; the messages that it gets."""
        self._send(BEFORE)
        offset = self._first_offset(where, extra)
        self._send(BEFORE_THE_PULL)
        return self._pulled(offset)

    def _send(self, now: int) -> None:
        for moment in self._moments:
            if moment == now:
                self.sent.append(b"%d" % len(self.sent))
                self._broker.send(self._producer, body=self.sent[-1], queue_id=int(self._queue["queueId"]))

    def _first_offset(self, where: str, extra: Mapping[str, str]) -> int:
        fields = {**self._queue, "consumerGroup": GROUP}
        found = self._broker.ask(self._client, RequestCode.QUERY_CONSUMER_OFFSET, fields=fields)
        self._send(BETWEEN_QUESTIONS)
        if found.code == ResponseCode.QUERY_NOT_FOUND:
            if where == "FIRST_OFFSET":
                return 0
            code, more = RequestCode.GET_MAX_OFFSET, extra
            if where == "TIMESTAMP":
                code, more = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(START_MS - HALF_AN_HOUR_MS)}
            found = self._broker.ask(self._client, code, fields={**self._queue, **more})
        return int(found.ext_fields["offset"])

    def _pulled(self, offset: int) -> list[bytes]:
        """Return the answers to pulls; the first pull is held if there is no message."""
        got: list[bytes] = []
        is_first = True
        while True:
            header = pulling(
                offset,
                consumer_group=GROUP,
                queue_id=int(self._queue["queueId"]),
                sys_flag=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if is_first else 0),
            )
            answers = self._broker.ask_all(self._client, RequestCode.PULL_MESSAGE, header)
            if is_first:
                self._send(WHILE_HELD)
                is_first = False
            answers += self._client.received()
            if not answers or answers[0].code == ResponseCode.PULL_NOT_FOUND:
                return got
            offset = int(answers[0].ext_fields["nextBeginOffset"])
            got += [message.body for message in parse_records(answers[0].body)]


def with_expired_message(directory: Path) -> WholeBroker:
    """A broker whose queue 0 has held one message, which is gone."""
    broker = broker_in(directory)
    broker.send(broker.connect(), body=b"expired")
    fill(broker, 2, topic="others")
    make_old(directory)
    ask_for_deletion(broker)
    broker.wait(30)
    store = broker.parts.store
    assert (store.min_offset("orders", 0), store.max_offset("orders", 0)) == (1, 1)
    return broker


def test_a_new_group_misses_no_message_of_a_queue_that_was_empty(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
    starts = list(product(WHERE, GENERATIONS, SENDS)) * ROUNDS
    broker.parts.topics.put(TopicConfig("orders", len(starts), len(starts)))
    peers = broker.connect(), broker.connect()
    missed = []
    for queue_id, (where, extra, moments) in enumerate(starts):
        start = Start(broker, peers, queue_id, moments)
        got = start.run(where, extra)
        if got != start.sent:
            missed.append((where, extra, moments, got))
    assert missed == []


@pytest.mark.parametrize("where", WHERE)
def test_a_new_group_misses_no_message_of_a_queue_whose_messages_have_all_expired(tmp_path: Path, where: str) -> None:
    broker = with_expired_message(tmp_path)
    start = Start(broker, (broker.connect(), broker.connect()), 0, (BETWEEN_QUESTIONS, BEFORE_THE_PULL, WHILE_HELD))
    assert start.run(where, {}) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("make", [WholeBroker, with_expired_message])
def test_a_new_group_that_pops_has_its_place_from_its_first_look_on(
    tmp_path: Path, make: Callable[[Path], WholeBroker]
) -> None:
    broker = make(tmp_path)
    client = broker.connect()
    broker.send(client, body=b"of another queue", queue_id=1)
    terms: dict[str, Any] = {"queue_id": 0, "init_mode": INIT_FROM_LAST}
    assert pop(broker, client, **terms) == []
    for body in (b"1", b"2"):
        broker.send(client, body=body)
    assert bodies(pop(broker, client, **terms)) == [b"1", b"2"]


@pytest.mark.parametrize("is_held", [True, False])
def test_the_next_member_of_a_new_group_begins_where_the_first_one_began(tmp_path: Path, is_held: bool) -> None:
    """Its own question for the end would be too late: the end has moved while nobody read the queue."""
    broker = with_expired_message(tmp_path)
    first, sender = broker.connect(), broker.connect()
    broker.send(sender, body=b"older than the group")
    place = {"topic": "orders", "queueId": "0", "consumerGroup": "group"}
    assert broker.ask(first, RequestCode.QUERY_CONSUMER_OFFSET, fields=place).code == ResponseCode.QUERY_NOT_FOUND
    end = int(broker.ask(first, RequestCode.GET_MAX_OFFSET, fields=place).ext_fields["offset"])
    broker.subscribe(first)
    if not is_held:
        broker.send(sender, body=b"read by the first member, which does not live to commit it")
    broker.ask_all(first, RequestCode.PULL_MESSAGE, pulling(end, sys_flag=PullFlag.SUSPEND))
    first.leave()
    broker.send(sender, body=b"missed")
    assert broker.ask(broker.connect(), RequestCode.QUERY_CONSUMER_OFFSET, fields=place).ext_fields == {"offset": "2"}
    assert end == 2


def test_point_3_a_kill_after_the_first_pull_does_not_forget_where_the_group_begins(tmp_path: Path) -> None:
    broker = with_expired_message(tmp_path / "store")
    client = broker.connect()
    broker.subscribe(client)
    broker.ask_all(client, RequestCode.PULL_MESSAGE, pulling(1))
    for body in (b"1", b"2"):
        broker.send(client, body=body)
    broker.ask_all(client, RequestCode.PULL_MESSAGE, pulling(1))
    after = broker.crash_image(tmp_path / "killed")
    client = after.connect()
    place = {"topic": "orders", "queueId": "0", "consumerGroup": "group"}
    after.subscribe(client)
    after.ask_all(client, RequestCode.PULL_MESSAGE, pulling(3))  # what lies before is not consumed yet
    assert after.ask(client, RequestCode.QUERY_CONSUMER_OFFSET, fields=place).ext_fields == {"offset": "1"}


def test_the_first_pull_is_answered_when_its_place_is_on_disk_and_also_when_that_fails(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client)
    broker.send(client, queue_id=1)
    broker.subscribe(client)
    waiting: list[Callable[[], None]] = []
    broker.in_thread = lambda work, done: waiting.append(lambda: done(work()))
    assert broker.ask_all(client, RequestCode.PULL_MESSAGE, pulling(0)) == []
    assert broker.ask(client, RequestCode.PULL_MESSAGE, pulling(1)).code == ResponseCode.PULL_NOT_FOUND
    waiting.pop()()
    broker.turn()
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]
    broker.in_thread = lambda _, done: done(Failed(OSError("the disk is full")))
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, pulling(0, queue_id=1))
    assert answer.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("takes_of_another", [False, True])
def test_point_3_a_kill_after_the_first_pop_does_not_forget_it_either(
    tmp_path: Path, *, takes_of_another: bool
) -> None:
    broker = with_expired_message(tmp_path / "store")
    client = broker.connect()
    if takes_of_another:
        broker.send(client, body=b"0", queue_id=1)
    terms: dict[str, Any] = {"init_mode": INIT_FROM_LAST}
    assert bodies(pop(broker, client, **terms)) == [b"0"][: int(takes_of_another)]
    for body in (b"1", b"2"):
        broker.send(client, body=body)
    after = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(after, after.connect(), **terms)) == [b"1", b"2"]


def test_what_a_new_group_pulled_and_did_not_consume_is_no_beginning(tmp_path: Path) -> None:
    """A client that begins at 0 pulls on before it commits: who has the queue next gets all of it."""
    broker = WholeBroker(tmp_path)
    broker.parts.topics.ensure("orders", 1, 6)
    client = broker.connect()
    broker.subscribe(client)
    for number in range(6):
        broker.send(client, body=b"%d" % number)
    for offset in (0, 3):
        (answer,) = broker.ask_all(client, RequestCode.PULL_MESSAGE, pulling(offset, max_msg_nums=3))
        assert answer.code == ResponseCode.SUCCESS
    assert broker.parts.offsets.query("group", "orders", 0) == 0


@pytest.mark.parametrize("terms", [{"message_model": "BROADCASTING"}, {"consume_type": "CONSUME_ACTIVELY"}])
def test_pulls_of_members_that_keep_their_offsets_themselves_store_none(tmp_path: Path, terms: dict[str, Any]) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client)
    member = ConsumerData("group", subscriptions=(subscription("orders"),), **terms)
    broker.ask_all(client, RequestCode.HEART_BEAT, body=HeartbeatData("client-1", consumers=(member,)).build())
    broker.ask_all(client, RequestCode.PULL_MESSAGE, pulling(1))
    assert broker.parts.offsets.query("group", "orders", 0) < 0


@pytest.mark.parametrize("queues", [2, 40])
def test_the_first_pull_of_a_group_waits_for_the_log_and_the_offsets_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queues: int
) -> None:
    synced: list[str] = []
    sync = FileLayer.fdatasync

    def noted(files: FileLayer, fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        sync(files, fd)

    monkeypatch.setattr(FileLayer, "fdatasync", noted)
    broker = WholeBroker(tmp_path / "store", flush_disk_type=FlushDiskType.ASYNC_FLUSH)
    client = broker.connect()
    broker.parts.topics.put(TopicConfig("orders", queues, queues))
    for queue_id in range(queues):
        broker.send(client, queue_id=queue_id)
    broker.subscribe(client, "new")
    synced.clear()
    (answer,) = broker.ask_all(client, RequestCode.PULL_MESSAGE, pulling(0, consumer_group="new"))
    assert answer.code == ResponseCode.SUCCESS
    assert not [path for path in synced if "consumequeue" in path or "index" in path]
