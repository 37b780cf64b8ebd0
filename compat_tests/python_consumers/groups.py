"""Groups of Python consumers against both servers: who gets what, from where on, and what tools see of them."""

from __future__ import annotations

import threading
from pathlib import Path

from compat_tests.environment import wait_until
from compat_tests.peers import Peer
from compat_tests.python_consumers.consuming import Seen, lite_settings, poll_until, push_settings, send, shares
from gateway.client import (
    AdminClient,
    LitePullConsumer,
    Message,
    MessageModel,
    Producer,
    PushConsumer,
)


def test_every_member_of_a_broadcasting_group_gets_everything_and_remembers_it_locally(
    server: Peer, producer: Producer, topic: str, tmp_path: Path
) -> None:
    seen = [Seen(), Seen()]
    send(producer, topic, 20)

    def consumer(number: int) -> PushConsumer:
        settings = push_settings(
            server, message_model=MessageModel.BROADCASTING, local_offset_dir=str(tmp_path / str(number))
        )
        return PushConsumer("g_" + topic, seen[number], settings, subscriptions={topic: "*"})

    with consumer(0), consumer(1):
        for each in seen:
            each.wait(20)
    send(producer, topic, 20, first=20)
    with consumer(0):
        seen[0].wait(40)
    seen[0].check_once(40)
    seen[1].check_once(20)
    assert (next(tmp_path.glob("0/*/*/offsets.json"))).read_bytes().startswith(b"{")


def test_a_group_shares_queues_anew_at_once_when_members_come_and_go(server: Peer, topic: str) -> None:
    settings = push_settings(server, rebalance_interval=3600.0)
    group = "g_" + topic

    def consumer() -> PushConsumer:
        return PushConsumer(group, lambda _: None, settings, subscriptions={topic: "*"})

    with consumer() as one:
        assert shares([one], topic) == [4]
        with consumer() as two:
            wait_until(lambda: shares([one, two], topic) == [2, 2], "two queues each")
            assert not one.assignment & two.assignment
        wait_until(lambda: shares([one], topic) == [4], "all queues again")


def test_a_new_group_begins_at_a_time_that_is_told(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 8)
    with LitePullConsumer("m_" + topic, lite_settings(server)) as consumer:
        consumer.assign(consumer.message_queues(topic))
        last_ms = max(message.stored_at_ms for message in poll_until(consumer, 8))
    threading.Event().wait(0.2)
    begin = (last_ms + 1) / 1000
    send(producer, topic, 8, first=8)
    with LitePullConsumer("l_" + topic, lite_settings(server)) as consumer:
        consumer.assign(consumer.message_queues(topic))
        offsets = {queue: consumer.offset_for_time(queue, begin) for queue in consumer.assignment}
        assert sorted(offsets.values()) == [2, 2, 2, 2]
        for queue, offset in offsets.items():
            consumer.seek(queue, offset)
        assert {int(message.body) for message in poll_until(consumer, 8)} == set(range(8, 16))


def test_the_offset_of_a_group_can_be_reset_while_it_consumes(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 12)
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: "*"}) as consumer:
        seen.wait(12)
        consumer.commit()
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.offsets.reset("g_" + topic, topic, "earliest")
        wait_until(lambda: set(seen.bodies.values()) == {2}, "every message again", timeout_s=40)


def test_a_consumer_tells_tools_about_itself_and_consumes_on_demand(
    server: Peer, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"0"))
    seen = Seen()
    group = "g_" + topic
    with (
        AdminClient(namesrv=server.nameserver) as admin,
        PushConsumer(group, seen, push_settings(server), subscriptions={topic: "*"}) as consumer,
    ):
        seen.wait(1)
        info = admin.groups.running_info(group, consumer.client_id, jstack=True)
        assert len(info["mqTable"]) >= 4
        assert "push_consumer" in info["jstack"] or "Thread" in info["jstack"]
        assert {each["topic"] for each in info["subscriptionSet"]} == {topic, "%RETRY%" + group}
        result = admin.groups.consume_directly(group, consumer.client_id, sent.offset_msg_id, topic)
        assert result["consumeResult"] == "CR_SUCCESS"
        assert seen.bodies[b"0"] == 2


def test_what_is_consumed_is_traced_as_the_java_client_does(server: Peer, producer: Producer, topic: str) -> None:
    sent = producer.send(Message(topic, b"0", keys="order-1"))
    seen, group = Seen(), "g_" + topic
    settings = push_settings(server, enable_trace=True)
    with PushConsumer(group, seen, settings, subscriptions={topic: "*"}):
        seen.wait(1)
    with AdminClient(namesrv=server.nameserver) as admin:

        def traces() -> dict[str, list[str]]:
            found = admin.messages.by_key("RMQ_SYS_TRACE_TOPIC", sent.msg_id)
            records = [record for message in found for record in message.body.decode().split("\x02") if record]
            return {record.split("\x01")[0]: record.split("\x01") for record in records}

        wait_until(lambda: len(traces()) == 2, "the traces")
        before, after = traces()["SubBefore"], traces()["SubAfter"]
    assert before[2:4] + before[5:] == ["DefaultRegion", group, sent.msg_id, "0", "order-1"]
    assert (after[1], after[2]) == (before[4], sent.msg_id)
    assert after[4:7] + after[8:] == ["true", "order-1", "0", group]
