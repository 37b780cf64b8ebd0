"""Python and Java consumers and producers together, on both servers."""

from __future__ import annotations

import threading
from collections import Counter

from compat_tests.environment import wait_until
from compat_tests.java_client import JavaClient
from compat_tests.peers import Peer
from compat_tests.python_consumers.consuming import (
    java_body,
    lag,
    lite_settings,
    make_topic,
    poll_until,
    push_settings,
    shares,
)
from gateway.client import (
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
)


def test_python_and_java_share_sixteen_queues_and_nothing_is_consumed_twice(
    server: Peer, producer: Producer, java: JavaClient
) -> None:
    topic = make_topic(server, 16)
    group, run = "g_" + topic, "r" + topic.rsplit("_", 1)[1]
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def listen(message: ReceivedMessage) -> None:
        with lock:
            seen[message.keys[0]] += 1

    name = f"stop_{topic}"
    java_part = java.start(
        "consume-push", ns=server.nameserver, topic=topic, run=run, group=group, until=name, timeout_s=120
    )
    settings = push_settings(server)
    with (
        PushConsumer(group, listen, settings, subscriptions={topic: "*"}) as one,
        PushConsumer(group, listen, settings, subscriptions={topic: "*"}) as two,
    ):
        wait_until(lambda: sorted(shares([one, two], topic)) in ([5, 5], [5, 6]), "a third each", timeout_s=60)
        count = 3000
        sent = java.run("send-sync", ns=server.nameserver, topic=topic, run=run, count=count, timeout_s=60)
        assert sent["acknowledged"] == count
        wait_until(lambda: lag(server, group) == 0, "everything consumed", timeout_s=60)
    java.stop(name)
    got = java_part.result(60)
    assert got["duplicates"] == 0
    assert set(seen.values()) == {1}
    ours = {int(key.rsplit("-", 1)[1]) for key in seen}
    theirs = got.numbers()
    assert not ours & theirs, f"consumed by both: {sorted(ours & theirs)[:20]}"
    assert ours | theirs == set(range(count))
    assert min(len(ours), len(theirs)) > count // 6


def test_python_reads_what_java_wrote_compressed_and_in_batches(server: Peer, topic: str, java: JavaClient) -> None:
    run = "r" + topic.rsplit("_", 1)[1]
    common = {"ns": server.nameserver, "topic": topic, "run": run, "count": 60}
    java.run("send-sync", **common, size=8000, compress_over=1000)  # type: ignore[arg-type]
    java.run("send-batch", **common, first=60, size=300)  # type: ignore[arg-type]
    with LitePullConsumer("g_" + topic, lite_settings(server), subscriptions={topic: "*"}) as consumer:
        got = poll_until(consumer, 120)
    assert sorted(int(message.keys[0].split("-")[1]) for message in got) == list(range(120))
    for message in got:
        assert message.body == java_body(message.keys[0], len(message.body))
    assert {len(message.body) for message in got} == {8000, 300}
    assert sum(message.sys_flag & 1 for message in got) == 60


def test_java_reads_what_python_wrote_compressed_and_in_batches(server: Peer, topic: str, java: JavaClient) -> None:
    run = "r" + topic.rsplit("_", 1)[1]

    def message(number: int, size: int) -> Message:
        key = f"{run}-{number}"
        return Message(topic, java_body(key, size), keys=key)

    for number, kind in enumerate(("zlib", "lz4", "zstd", "none")):
        settings = ProducerSettings(namesrv=server.nameserver, compress_type=kind, compress_msg_body_over=1000)
        with Producer(f"p_{topic}", settings) as producer:
            for each in range(10):
                producer.send(message(10 * number + each, 6000))
            producer.send_batch([message(40 + 10 * number + each, 200) for each in range(10)])
    got = java.run(
        "consume-push", ns=server.nameserver, topic=topic, run=run, group="g_" + topic, count=80, timeout_s=60
    )
    assert (got["received"], got["duplicates"], got["corrupt"], got["strangers"]) == (80, 0, 0, 0), str(got)
