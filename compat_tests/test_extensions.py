"""Consume queue extensions and bit maps (``enableConsumeQueueExt``, ``enableCalcFilterBitMap``), handed over both ways.

Apache RocketMQ finds tags codes and bit maps in the files that we wrote, and the reverse; groups that filter by SQL92
or by tag get the same messages from either, and no other ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat_tests import frames
from compat_tests.environment import wait_until
from compat_tests.peers import ApacheContainer, GatewayProcess, Peer
from compat_tests.written import SETTINGS
from gateway.client import AdminClient, Message, Producer, PushConsumer, Sql

TOPIC = "extended"
EXTENDED = {
    **SETTINGS,
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "enablePropertyFilter": "true",
    "mappedFileSizeConsumeQueueExt": "8192",
}
COUNT = 120
TAGS = ("red", "green", "")
GROUPS: Mapping[str, str | Sql] = {
    "g_low": Sql("n BETWEEN 0 AND 9 OR n BETWEEN 100 AND 200"),
    "g_tens": Sql("tens = 'yes'"),
    "g_none": Sql("n > 100000"),
    "g_red": "red",
}
_QUERY_CONSUME_QUEUE = 321
_GET_CONSUMER_CONNECTION_LIST = 203


def wanted(group: str, numbers: range) -> set[int]:
    """The messages of a group."""
    return {
        number
        for number in numbers
        if (group == "g_low" and (number < 10 or 100 <= number <= 200))
        or (group == "g_tens" and number % 10 == 0)
        or (group == "g_red" and number % 3 == 0)
    }


@contextmanager
def running(peer: Peer) -> Iterator[str]:
    """The peer's name server."""
    peer.start()
    try:
        yield peer.nameserver
    finally:
        peer.stop()


@contextmanager
def consuming(nameserver: str, subscriptions: Mapping[str, str | Sql]) -> Iterator[dict[str, list[int]]]:
    """Members of groups; what they got."""
    got: dict[str, list[int]] = {group: [] for group in subscriptions}
    consumers = []
    try:
        for group, expression in subscriptions.items():

            def take(message: Any, group: str = group) -> None:
                got[group].append(int(message.properties["n"]))

            consumer = PushConsumer(group, take, namesrv=nameserver, subscriptions={TOPIC: expression})
            consumer.start()
            consumers.append(consumer)
        yield got
    finally:
        for consumer in consumers:
            consumer.close()


def send(nameserver: str, numbers: range) -> None:
    with Producer("p_extended", namesrv=nameserver) as producer:
        for number in numbers:
            tens = {"tens": "yes"} if number % 10 == 0 else {}
            tags = TAGS[number % 3]
            producer.send(Message(TOPIC, b"%d" % number, tags=tags, properties={"n": str(number), **tens}))


def ask_broker(nameserver: str, code: int, fields: dict[str, str]) -> frames.Frame:
    """The answer of the broker that has the topic."""
    with AdminClient(namesrv=nameserver) as admin:
        (addresses,) = admin.topics.route(TOPIC).brokers.values()
    host, port = addresses[0].split(":")
    answer = frames.ask((host, int(port)), frames.request(code, fields))
    assert answer is not None
    return answer


def units(nameserver: str, count: int) -> list[dict[str, Any]]:
    """Return the broker's answer about the units of the queue."""
    fields = {"topic": TOPIC, "queueId": "0", "index": "0", "count": str(count)}
    answer = ask_broker(nameserver, _QUERY_CONSUME_QUEUE, fields)
    body: dict[str, Any] = json.loads(answer.body)
    found: list[dict[str, Any]] = body["queueData"]
    return found


def is_known(nameserver: str, group: str) -> bool:
    """Return whether the broker knows a member of a group, and so the group's subscriptions."""
    return ask_broker(nameserver, _GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}).code == 0


def write(nameserver: str, first: int) -> None:
    """Messages before groups are known, and while they consume."""
    send(nameserver, range(first, first + 5))
    with consuming(nameserver, GROUPS) as got:
        wait_until(lambda: all(is_known(nameserver, group) for group in GROUPS), "the broker to hear of the groups")
        send(nameserver, range(first + 5, first + COUNT))
        numbers = range(first + COUNT)
        wait_until(
            lambda: all(wanted(group, numbers) - wanted(group, range(first)) <= set(got[group]) for group in GROUPS),
            f"messages of each group: {got}",
        )
        for group in GROUPS:
            assert set(got[group]) <= wanted(group, numbers), group


def take_over(nameserver: str, count: int) -> None:
    """Groups that begin anew get everything that is theirs, and nothing else."""
    with consuming(nameserver, {f"{group}_{count}": expression for group, expression in GROUPS.items()}) as got:
        numbers = range(count)
        wait_until(
            lambda: all(set(got[f"{group}_{count}"]) == wanted(group, numbers) for group in GROUPS),
            f"messages of each group: {got}",
        )


def make_topic(nameserver: str) -> None:
    with AdminClient(namesrv=nameserver) as admin:
        admin.topics.create(TOPIC, queues=1)


def test_a_directory_with_extensions_goes_there_and_back(tmp_path: Path) -> None:
    """Ours, Apache RocketMQ's, ours again."""
    data = tmp_path / "store"
    data.mkdir()
    with running(GatewayProcess(data, EXTENDED)) as nameserver:
        make_topic(nameserver)
        write(nameserver, 0)
        ours = units(nameserver, COUNT)
    assert list((data / "consumequeue_ext" / TOPIC / "0").iterdir())
    with running(ApacheContainer(EXTENDED, store=data, orderly=True)) as nameserver:
        print("OURS", ours[3], ours[20])
        print("APACHE", units(nameserver, COUNT)[3], units(nameserver, COUNT)[20])
        take_over(nameserver, COUNT)
        write(nameserver, COUNT)
    print((data / "config" / "consumerFilter.json").read_text())
    with running(GatewayProcess(data, EXTENDED)) as nameserver:
        take_over(nameserver, 2 * COUNT)
        write(nameserver, 2 * COUNT)
        assert len(units(nameserver, 3 * COUNT)) == 3 * COUNT
