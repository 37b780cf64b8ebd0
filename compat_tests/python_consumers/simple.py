"""Popped messages: the Python simple consumer, and push consumers where the broker says so, against both servers."""

from __future__ import annotations

import threading
import time

from compat_tests.peers import Peer
from compat_tests.python_consumers.consuming import APACHE, Seen, let_pop, push_settings, send
from gateway.client import (
    ConsumeFrom,
    PoppedMessage,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    SimpleConsumer,
    SimpleSettings,
)


def test_a_simple_consumer_receives_acknowledges_and_hides(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 20)
    settings = SimpleSettings(namesrv=server.nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
    with SimpleConsumer("s_" + topic, settings, subscriptions={topic: "*"}) as consumer:
        got: list[PoppedMessage] = []
        while len(got) < 20:
            messages = consumer.receive(8, invisible_time=6, timeout=10)
            assert messages, "messages are missing"
            got += messages
        assert sorted(int(message.body) for message in got) == list(range(20))
        assert consumer.receive(8, timeout=0.5) == []
        late, *acknowledged = got
        consumer.ack(acknowledged)  # in one request
        consumer.change_invisible_time(late, 1.0)
        deadline = time.monotonic() + 20
        again: list[PoppedMessage] = []
        while not again and time.monotonic() < deadline:
            again = consumer.receive(8, timeout=5)
        assert [message.body for message in again] == [late.body]
        assert again[0].topic == topic
        assert again[0].reconsume_times == 1
        consumer.ack(again)
        assert consumer.receive(8, timeout=7) == [], "what is not acknowledged comes again by then"


def test_a_push_consumer_pops_where_the_broker_says_so(server: Peer, producer: Producer, topic: str) -> None:
    group = "g_" + topic
    let_pop(server, topic, group)
    send(producer, topic, 20)
    seen, failed = Seen(), threading.Event()

    def listen(message: ReceivedMessage) -> None:
        if message.body == b"7" and message.reconsume_times == 0 and server.name == APACHE:  # it takes 10 s
            failed.set()
            raise RetryLater
        seen(message)

    settings = push_settings(server, client_rebalance=False)
    with PushConsumer(group, listen, settings, subscriptions={topic: "*"}) as consumer:
        (popped,) = [queue for queue in consumer.assignment if queue.topic == topic]
        assert popped.queue_id == -1
        seen.wait(20)
        seen.check_once(20)
        assert failed.is_set() == (server.name == APACHE)
    with PushConsumer(group, seen, settings, subscriptions={topic: "*"}):
        send(producer, topic, 1, first=20)
        seen.wait(21)
    assert set(seen.bodies.values()) == {1}, "what was consumed is acknowledged"
