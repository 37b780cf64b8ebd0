"""Messages that a peer names by their place in the log: bodies are read only if needed, and hold up nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.cold_reads import ColdReads
from gateway.broker.named_messages import NamedMessages
from gateway.remoting.dispatch import Dispatch, Request
from gateway.store.queues.extended_units import NotInMemory
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Conversation
from gateway.tests.store.small_store import Executor
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.pull import QueryMessageRequest
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.message.message_id import parse_offset_message_id
from wire.message.record import StoredMessage

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
    assert threads == 2, "the identity of the store, and the message"


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


def test_requests_for_one_place_go_on_in_the_order_of_their_arrival() -> None:
    """The first of two outcomes counts, also when its message has to be read from the disk."""

    class Store:
        is_cold = True

        def head_now(self, _offset: int) -> StoredMessage | None:
            if self.is_cold:
                raise NotInMemory
            return None

        def head_at(self, _offset: int) -> StoredMessage | None:
            return None

    executor, store, told = Executor(), Store(), list[str]()
    conversation = Conversation(Dispatch())
    channel = conversation.connect().channel
    cold = ColdReads(executor.in_thread, threads=2, limit=8)
    named = NamedMessages(store, cold)  # type: ignore[arg-type]
    first, second = (Request(channel, RemotingCommand(37, opaque=number)) for number in (1, 2))
    named.head(first, 100, lambda _: told.append("commit"))
    assert named.is_read(100)
    store.is_cold = False
    named.head(second, 100, lambda _: told.append("rollback"))
    executor.run()
    assert told == ["commit", "rollback"]
    assert not named.is_read(100)
