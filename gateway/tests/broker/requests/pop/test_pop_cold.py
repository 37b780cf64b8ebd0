"""Pops of what is not in memory: read in a thread, while others pass the queue by and nothing is given out twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.store.message_store import MessageStore
from gateway.tests.broker.popping import POP, RETRY_TOPIC, ack, bodies, filled, messages, pop, popping
from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.topics import DeleteTopicRequest


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", pop_from_retry_probability=0)


def test_messages_that_are_not_in_memory_are_read_in_a_thread_while_others_pass_by(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = filled(broker, "a", "b"), broker.connect()
    monkeypatch.setattr(MessageStore, "get_messages_now", lambda *_: None)
    reads: list[Callable[[], None]] = []
    broker.in_thread = lambda job, done: reads.append(lambda: done(job()))
    assert broker.ask_all(client, POP, popping()) == []
    assert broker.ask(other, POP, popping()).code == ResponseCode.POLLING_TIMEOUT
    while reads:
        reads.pop(0)()
        broker.turn()
    (answer,) = client.received()
    assert bodies(messages(answer)) == [b"a", b"b"]


@pytest.mark.parametrize("order", [False, True])
def test_a_pop_with_messages_does_not_wait_for_the_disk_while_others_take_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: bool
) -> None:
    from_queue_2 = 50
    monkeypatch.setattr("gateway.broker.parts.randbelow", lambda _: from_queue_2)
    broker = WholeBroker(tmp_path / "store")
    client, other = broker.connect(), broker.connect()
    broker.send(client, body=b"a", queue_id=2)
    broker.send(client, body=b"b", queue_id=3)
    read_now = MessageStore.get_messages_now
    monkeypatch.setattr(
        MessageStore, "get_messages_now", lambda store, *rest: None if rest[1] == 3 else read_now(store, *rest)
    )
    reads: list[Callable[[], None]] = []
    broker.in_thread = lambda job, done: reads.append(lambda: done(job()))
    found = [broker.ask_all(asking, POP, popping(order=order, poll_time=60_000)) for asking in (client, other)]
    while reads:
        reads.pop(0)()
        broker.turn()
    found = [answers + asking.received() for answers, asking in zip(found, (client, other), strict=True)]
    assert [[bodies(messages(answer)) for answer in answers] for answers in found] == [[[b"a"]], [[b"b"]]]


def test_who_passed_by_a_queue_that_a_client_left_is_woken(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, leaving = filled(broker, "a"), broker.connect()
    reads: list[Callable[[], None]] = []
    with monkeypatch.context() as cold:
        cold.setattr(MessageStore, "get_messages_now", lambda *_: None)
        broker.in_thread = lambda job, done: reads.append(lambda: done(job()))
        assert broker.ask_all(leaving, POP, popping()) == []
        assert broker.ask_all(waiting, POP, popping(poll_time=60_000)) == []
    leaving.transport.loseConnection()
    while reads:
        reads.pop(0)()
        broker.turn()
    (answer,) = waiting.received()
    assert bodies(messages(answer)) == [b"a"]


def test_a_pop_whose_client_is_gone_takes_nothing(broker: WholeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    client, other = filled(broker, "a"), broker.connect()
    reads: list[Callable[[], None]] = []
    with monkeypatch.context() as cold:
        cold.setattr(MessageStore, "get_messages_now", lambda *_: None)
        broker.in_thread = lambda job, done: reads.append(lambda: done(job()))
        assert broker.ask_all(other, POP, popping()) == []
    other.transport.loseConnection()
    while reads:
        reads.pop(0)()
        broker.turn()
    assert bodies(pop(broker, client)) == [b"a"]


def test_a_pop_goes_on_where_the_group_was_set_while_it_read(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a", "b", "c")
    for message in pop(broker, client):
        ack(broker, client, message)
    broker.send(client, body=b"d")
    reads: list[Callable[[], None]] = []
    with monkeypatch.context() as cold:
        cold.setattr(MessageStore, "get_messages_now", lambda *_: None)
        broker.in_thread = lambda job, done: reads.append(lambda: done(job()))
        assert broker.ask_all(client, POP, popping(poll_time=60_000)) == []
        broker.parts.offsets.reset("group", "orders", 0, 1)
        broker.parts.pops.reset("group", "orders", [(0, 1)])
        while reads:
            reads.pop(0)()
            broker.turn()
    (answer,) = client.received()
    assert bodies(messages(answer)) == [b"b", b"c", b"d"]


def test_messages_that_are_read_to_come_again_do_not_when_their_topic_was_made_anew(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client, invisible_time=1_000)
    reads: list[Callable[[], None]] = []
    with monkeypatch.context() as cold:
        cold.setattr(MessageStore, "get_messages_now", lambda *_: None)
        cold.setattr(broker, "in_thread", lambda job, done: reads.append(lambda: done(job())))
        broker.wait(2)
    broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders"))
    broker.send(client, body=b"x")
    assert [read() for read in reads] != []
    broker.wait(2)
    assert broker.messages(RETRY_TOPIC) == []
    assert bodies(pop(broker, client)) == [b"x"]


def test_a_pop_that_is_refused_after_it_waited_for_the_disk_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.broker.parts.randbelow", lambda _: 0)  # queue 0 comes first
    broker = WholeBroker(tmp_path / "store", pop_from_retry_probability=0)
    client = filled(broker, "a")
    reads: list[Callable[[], None]] = []
    monkeypatch.setattr(MessageStore, "get_messages_now", lambda *_: None)
    broker.in_thread = lambda job, done: reads.append(lambda: done(job()))
    assert broker.ask_all(client, POP, popping()) == []

    def refuse(*_: object) -> None:
        raise RequestRefused(ResponseCode.SYSTEM_BUSY, "the broker keeps no more offsets")

    monkeypatch.setattr(type(broker.parts.offsets), "commit", refuse)
    while reads:
        reads.pop(0)()
        broker.turn()
    (answer,) = client.received()
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, "the broker keeps no more offsets")


@pytest.mark.parametrize("queues", [4, 100])
def test_what_came_to_a_queue_that_was_looked_at_while_another_was_read_is_given_at_once(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch, queues: int
) -> None:
    monkeypatch.setattr("gateway.broker.parts.randbelow", lambda _: 0)
    broker.parts.topics.put(TopicConfig("orders", queues, queues))
    client, sender = broker.connect(), broker.connect()
    broker.send(sender, body=b"other", queue_id=1, properties={"TAGS": "y"})
    reads: list[Callable[[], None]] = []
    with monkeypatch.context() as cold:
        cold.setattr(MessageStore, "get_messages_now", lambda *_: None)
        in_thread, broker.in_thread = broker.in_thread, lambda job, done: reads.append(lambda: done(job()))
        assert broker.ask_all(client, POP, popping(exp="x", poll_time=60_000)) == []
    assert reads
    broker.in_thread = in_thread
    broker.send(sender, body=b"mine", queue_id=0, properties={"TAGS": "x"})
    while reads:
        reads.pop(0)()
        broker.turn()
    for _ in range(3):
        broker.turn()
    assert [bodies(messages(answer)) for answer in client.received()] == [[b"mine"]]


def test_a_read_that_fails_is_told_by_its_reason_and_its_messages_come_again_later(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = filled(broker, "a")
    pop(broker, client, invisible_time=1_000)
    with monkeypatch.context() as cold:
        cold.setattr(MessageStore, "get_messages_now", lambda *_: None)
        cold.setattr(broker, "in_thread", lambda _, done: done(Failed(OSError(5, "Input/output error"))))
        broker.wait(2)
    told = [
        vars(record)["facts"]["reason"] for record in caplog.records if "not given out again" in record.getMessage()
    ]

    assert set(told) == {"[Errno 5] Input/output error"}
    broker.wait(3)
    assert bodies(pop(broker, client)) == [b"a"]
