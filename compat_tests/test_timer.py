"""Timer messages of the stock client: at their time, taken back, refused, and in a directory that changes hands.

Two stories run at the same time, since Apache RocketMQ takes its time to start and to end: in one it is the first
broker of the directory and the gateway goes on, in the other it is the reverse. The tests look at what was noted.
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compat_tests import frames
from compat_tests.java_client import Answer, JavaClient
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess, Peer
from gateway.client import Message, Producer
from gateway.client.errors import BrokerError
from gateway.tests.stalls import Stalls

SETTINGS = {
    **QUICK,
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": "104857600",
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
    "recallMessageEnable": "true",
}
DAY_S = 86_400
COUNT = 120
TAKEN_OVER = 150
SPAN_S = 34.0
"""The last of the messages that are taken over is due so long after the first ones were sent."""
ILLEGAL_OPERATION = 604
MESSAGE_ILLEGAL = 13
TOPIC_NOT_EXIST = 17
LATE_P50_MS = 100
LATE_P99_MS = 500
"""On busy machines, and beside what the machine itself takes; ``benchmarks.timer`` measures it."""
APACHE_LATE_MS = 2_500
"""It delivers a second at once, at its end, and was measured on busy machines."""


@dataclass(slots=True)
class Story:
    """The events at one directory."""

    first: str = ""
    late: Answer | None = None
    stalled_ms: int = 0
    """The longest time that the disk and the processors took, in the meantime, for one byte."""
    recalled: Answer | None = None
    kept: Answer | None = None
    handles: list[str] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    delivered_by_first: int = 0
    taken_over: Answer | None = None
    python: dict[str, object] = field(default_factory=dict)


def tell(first: Peer, second: Peer, client: JavaClient, disk: Path) -> Story:
    """One directory, two brokers.

    :param disk: a directory on the disk of both.
    """
    story = Story(first.name)
    with contextlib.ExitStack() as stack:
        first.start()
        stack.callback(_end, first)
        ns = first.nameserver
        for topic in ("timed", "recalled", "handed", "python"):
            client.run("create-topic", ns=ns, topic=topic, queues=4)
        began = time.monotonic()
        sent = client.run("send-timed", ns=ns, topic="handed", run="h", count=TAKEN_OVER, min_ms=2_000, max_ms=34_000)
        assert sent["acknowledged"] == TAKEN_OVER, str(sent)
        _recalls(story, ns, client)
        with Stalls(disk) as stalls:
            client.run("send-timed", ns=ns, topic="timed", run="t", count=COUNT)
            _refusals(story, ns)
            _python(story, ns)
            story.late = client.run("consume-timed", ns=ns, topic="timed", run="t", group="late", count=COUNT)
        story.stalled_ms = stalls.longest_ms
        story.kept = client.run(
            "consume-timed", ns=ns, topic="recalled", run="r", group="kept", count=10, timeout_s=12, linger_ms=1_500
        )
        so_far = client.run(
            "consume-timed", ns=ns, topic="handed", run="h", group="first", count=1, timeout_s=5, linger_ms=300
        )
        story.delivered_by_first = so_far["received"]
        first.stop()
        stack.pop_all()
        second.start()
        stack.callback(_end, second)
        left_s = max(0.0, SPAN_S + 2 - (time.monotonic() - began))
        story.taken_over = client.run(
            "consume-timed",
            ns=second.nameserver,
            topic="handed",
            run="h",
            group="second",
            count=TAKEN_OVER,
            timeout_s=round(left_s) + 15,
            linger_ms=round(left_s * 1000) if left_s < 3 else 2_500,
        )
    return story


def _end(peer: Peer) -> None:
    with contextlib.suppress(Exception):
        peer.stop()


def _recalls(story: Story, ns: str, client: JavaClient) -> None:
    sent = client.run("send-timed", ns=ns, topic="recalled", run="r", count=20, min_ms=7_000, max_ms=8_000)
    story.handles, story.message_ids = sent.json("handles"), sent.json("message_ids")
    story.recalled = client.run("recall", ns=ns, topic="recalled", handles=",".join(story.handles[::2]))


def _handle(topic: str, broker: str, timestamp: str, key: str) -> str:
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {timestamp} {key}".encode()).decode()


def _refusals(story: Story, ns: str) -> None:
    """The codes of bad sends and bad recalls, asked on the wire."""
    with broker_of(ns, "timed") as connection:
        for name, properties in {
            "beyond": {"TIMER_DELAY_SEC": str(4 * DAY_S)},
            "just within": {"TIMER_DELAY_SEC": str(3 * DAY_S - 60)},
            "negative": {"TIMER_DELAY_MS": "-1000"},
            "past": {"TIMER_DELIVER_MS": "1000"},
            "no number": {"TIMER_DELIVER_MS": "soon"},
            "level wins": {"TIMER_DELAY_SEC": str(4 * DAY_S), "DELAY": "1"},
            "marker in the past": {"TIMER_DELIVER_MS": "1000", "TIMER_DEL_UNIQKEY": "K"},
        }.items():
            story.refused[name] = ask(connection, frames.SEND_V2, send_fields("timed", properties), b"refused?").code
        later = str(int(time.time() * 1000) + 10_000)  # noqa: TID251 - a handle has a time of the clock
        for name, handle, topic in (
            ("forged", "no handle", "timed"),
            ("other topic", _handle("recalled", "broker-a", later, "K"), "timed"),
            ("other broker", _handle("timed", "broker-b", later, "K"), "timed"),
            ("fired", _handle("timed", "broker-a", "1000", "K"), "timed"),
            ("too far", _handle("timed", "broker-a", str(int(later) + 4 * DAY_S * 1000), "K"), "timed"),
            ("no time", _handle("timed", "broker-a", "soon", "K"), "timed"),
            ("no topic", _handle("nowhere", "broker-a", later, "K"), "nowhere"),
            ("unknown message", _handle("timed", "broker-a", later, "UNKNOWN"), "timed"),
        ):
            fields = {"producerGroup": "g", "topic": topic, "recallHandle": handle}
            story.refused[f"recall {name}"] = ask(connection, 370, fields).code


def _python(story: Story, ns: str) -> None:
    with Producer("python_timed", namesrv=ns) as producer:
        deliver = producer.send(Message("python", b"at", deliver_at=time.time() + 1))  # noqa: TID251 - a clock's time
        taken_back = producer.send(Message("python", b"never", delay=20))
        assert deliver.recall_handle
        assert taken_back.recall_handle
        story.python["recalled"] = producer.recall("python", taken_back.recall_handle) == taken_back.msg_id
        try:
            producer.send(Message("python", b"no", delay=4 * DAY_S))
        except BrokerError as error:
            story.python["refused"] = error.code


@contextlib.contextmanager
def broker_of(ns: str, topic: str) -> Iterator[socket.socket]:
    host, port = ns.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        route = ask(connection, frames.GET_ROUTE, {"topic": topic}).body.decode()
    found = re.search(r'"brokerAddrs":\{"?0"?:"([^"]+):(\d+)"', route)
    assert found, route
    with socket.create_connection((found[1], int(found[2])), timeout=10) as connection:
        yield connection


def ask(connection: socket.socket, code: int, fields: dict[str, str], body: bytes = b"") -> frames.Frame:
    connection.sendall(frames.request(code, fields, body).pack())
    answer = frames.read(connection)
    assert answer is not None, "the connection was closed"
    return answer


def send_fields(topic: str, properties: Mapping[str, str]) -> dict[str, str]:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return {
        **dict(zip("abcdefghij", ("g", topic, "TBW102", "4", "0", "0", "1", "0", text, "0"), strict=True)),
        "m": "false",
    }


@pytest.fixture(scope="module")
def stories(newest: JavaClient, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Story]:
    """Return the stories by the first broker's name."""
    root = tmp_path_factory.mktemp("timer")
    theirs, ours = root / "apache", root / "gateway"
    theirs.mkdir()
    ours.mkdir()
    pairs: list[tuple[Peer, Peer]] = [
        (ApacheContainer(SETTINGS, store=theirs, orderly=True), GatewayProcess(theirs, SETTINGS)),
        (GatewayProcess(ours, SETTINGS), ApacheContainer(SETTINGS, store=ours)),
    ]
    with ThreadPoolExecutor(len(pairs)) as pool:
        told = [pool.submit(tell, first, second, newest, root) for first, second in pairs]
        return {story.first: story for story in (each.result() for each in told)}


@pytest.fixture(scope="module")
def newest(clients: object) -> JavaClient:
    return clients("5.5.0")  # type: ignore[operator, no-any-return]


@pytest.fixture(params=["gateway-host", "rocketmq-5.5.0"])
def story(request: pytest.FixtureRequest, stories: Mapping[str, Story]) -> Story:
    return stories[request.param]


def test_each_comes_once_and_not_before_its_time(story: Story) -> None:
    late = story.late
    assert late is not None
    assert (late["received"], late["duplicates"], late["corrupt"]) == (COUNT, 0, 0), str(late)
    assert late["earliest"] >= 0, str(late)
    p50_ms, p99_ms = (LATE_P50_MS, LATE_P99_MS) if story.first == "gateway-host" else (APACHE_LATE_MS, APACHE_LATE_MS)
    assert late["late_p50"] <= p50_ms, str(late)
    assert late["late_p99"] <= p99_ms + story.stalled_ms, (str(late), story.stalled_ms)


def test_what_was_taken_back_does_not_come(story: Story) -> None:
    assert story.recalled is not None
    assert story.recalled.json("message_ids") == story.message_ids[::2]
    assert story.kept is not None
    assert story.kept.numbers() == frozenset(range(1, 20, 2)), str(story.kept)
    assert story.kept["duplicates"] == 0


def test_handles_say_topic_broker_second_and_message(story: Story) -> None:
    for handle, message_id in zip(story.handles, story.message_ids, strict=True):
        version, topic, broker, timestamp, key = base64.urlsafe_b64decode(handle).decode().split(" ")
        assert (version, topic, broker, key) == ("v1", "recalled", "broker-a", message_id)
        assert int(timestamp) % 1000 == 1


def test_bad_sends_and_recalls_are_answered_alike(stories: Mapping[str, Story]) -> None:
    theirs = stories["rocketmq-5.5.0"].refused
    assert theirs == stories["gateway-host"].refused
    assert (theirs["beyond"], theirs["no number"], theirs["marker in the past"]) == (MESSAGE_ILLEGAL,) * 3
    assert (theirs["just within"], theirs["negative"], theirs["past"], theirs["level wins"]) == (0,) * 4
    recalls = {name.removeprefix("recall "): code for name, code in theirs.items() if name.startswith("recall ")}
    assert (recalls.pop("no topic"), recalls.pop("unknown message")) == (TOPIC_NOT_EXIST, 0)
    assert set(recalls.values()) == {ILLEGAL_OPERATION}, str(recalls)


def test_the_python_client_times_and_recalls(story: Story) -> None:
    assert story.python == {"recalled": True, "refused": MESSAGE_ILLEGAL}


def test_pending_messages_go_on_with_the_next_broker(story: Story) -> None:
    found = story.taken_over
    assert found is not None
    assert 0 < story.delivered_by_first < TAKEN_OVER, "some before, some after"
    assert (found["received"], found["duplicates"], found["corrupt"]) == (TAKEN_OVER, 0, 0), str(found)
    assert found["earliest"] >= 0, str(found)
