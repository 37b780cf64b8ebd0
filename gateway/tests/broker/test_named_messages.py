"""What a peer names by its place in the log: bodies are read when they are needed, and not in anybody's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.store.small_store import Executor
from wire.bodies.kv_table import KVTable
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.query import QueryMessageRequest
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.message.message_id import parse_offset_message_id

LARGE = b"x" * 100_000


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    broker = WholeBroker(tmp_path / "store")
    broker.parts.groups.put(SubscriptionGroupConfig("group"))
    return broker


def place_of(broker: WholeBroker, body: bytes) -> int:
    sent = broker.send(broker.connect(), body=body, properties={"KEYS": "k"})
    return parse_offset_message_id(sent.ext_fields["msgId"])[1]


def send_back(offset: int) -> ConsumerSendMsgBackRequest:
    return ConsumerSendMsgBackRequest(offset=offset, group="group", delay_level=-1)


def test_a_large_message_that_is_sent_back_is_read_in_a_thread_while_a_short_one_is_stored(broker: WholeBroker) -> None:
    large, short = place_of(broker, LARGE), place_of(broker, b"short")
    peer, other, executor = broker.connect(), broker.connect(), Executor()
    broker.in_thread = executor.in_thread
    assert broker.ask_all(peer, RequestCode.CONSUMER_SEND_MSG_BACK, send_back(large)) == []
    assert broker.ask(other, RequestCode.CONSUMER_SEND_MSG_BACK, send_back(short)).code == ResponseCode.SUCCESS
    executor.run()
    broker.turn()
    assert [answer.code for answer in peer.received()] == [ResponseCode.SUCCESS]
    assert [message.body for message in broker.messages("%DLQ%group")] == [b"short", LARGE]


def test_a_large_message_that_cannot_be_read_any_more_is_not_found(broker: WholeBroker) -> None:
    large, peer, executor = place_of(broker, LARGE), broker.connect(), Executor()
    broker.in_thread = executor.in_thread
    broker.ask_all(peer, RequestCode.CONSUMER_SEND_MSG_BACK, send_back(large))
    _, done = executor.threads.popleft()
    done(None)
    broker.turn()
    [answer] = peer.received()
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {large}")


def test_the_first_message_of_the_log_is_looked_at_once(broker: WholeBroker) -> None:
    place_of(broker, LARGE)
    stored_at_ms = broker.clock()
    threads = 0

    def counted(work, done):  # type: ignore[no-untyped-def]
        nonlocal threads
        threads += 1
        done(work())

    broker.in_thread = counted
    for _ in range(3):
        answer = broker.ask(broker.connect(), RequestCode.GET_BROKER_RUNTIME_INFO)
        assert KVTable.parse(answer.body).table["earliestMessageTimeStamp"] == str(stored_at_ms)
    assert threads == 1


def test_a_damaged_large_body_is_not_found_by_its_key(broker: WholeBroker) -> None:
    place = place_of(broker, LARGE)
    question = QueryMessageRequest(topic="orders", key="k", max_num=9, begin_timestamp=0, end_timestamp=1 << 60)
    found = broker.ask(broker.connect(), RequestCode.QUERY_MESSAGE, question)
    assert (found.code, len(found.body) > len(LARGE)) == (ResponseCode.SUCCESS, True)
    [log] = (broker.directory / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(place + 50_000)
        file.write(b"y")
    assert broker.ask(broker.connect(), RequestCode.QUERY_MESSAGE, question).code == ResponseCode.QUERY_NOT_FOUND
