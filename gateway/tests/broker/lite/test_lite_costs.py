"""The costs of lite topics: each change costs what it changes, long work runs in pieces, shared facts are kept once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.remoting.turns import ENTRIES_PER_TURN
from gateway.tests.broker.lite.lite_client import CTL, GROUP, PARENT, LiteConsumer, made, send
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.headers.topics import DeleteTopicRequest

MANY = 3 * ENTRIES_PER_TURN
NAMES = [f"n{number}" for number in range(MANY)]


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    broker = WholeBroker(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True)
    made(broker)
    return broker


class Counted:
    """Somebody who is asked; the questions are counted by name."""

    def __init__(self, asked: Any) -> None:
        self._asked = asked
        self.counts: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        self.counts[name] = self.counts.get(name, 0) + 1
        return getattr(self._asked, name)


def wish(action: str, *lite_topics: str, client_id: str = "client-1", **changed: Any) -> dict[str, Any]:
    asked = {"action": action, "clientId": client_id, "group": GROUP, "topic": PARENT, "version": 0}
    return {**asked, "liteTopicSet": list(lite_topics), **changed}


def body(*wishes: dict[str, Any]) -> bytes:
    return json.dumps({"subscriptionSet": wishes}).encode()


def test_a_change_costs_what_it_changes(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe(*NAMES)
    broker.parts.lite._store = store = Counted(broker.parts.store)  # type: ignore[assignment]
    assert broker.ask(consumer.peer, CTL, body=body(*[wish("PARTIAL_ADD")] * 20)).code == ResponseCode.SUCCESS
    assert store.counts == {}
    consumer.subscribe("one", "two")
    assert sum(store.counts.values()) < 10


def test_a_long_request_lets_others_have_their_turn_and_comes_before_the_next_of_its_connection(
    broker: WholeBroker,
) -> None:
    long, other = LiteConsumer(broker), LiteConsumer(broker, "client-2")
    assert long.peer.ask_all(CTL, body=body(wish("COMPLETE_ADD", *NAMES))) == []
    assert long.peer.ask_all(CTL, body=body(wish("PARTIAL_REMOVE", NAMES[-1]))) == []
    (answer,) = other.peer.ask_all(CTL, body=body(wish("PARTIAL_ADD", "a", client_id="client-2")))
    assert answer.code == ResponseCode.SUCCESS
    broker.wait(1)
    assert [answer.code for answer in long.peer.received()] == [ResponseCode.SUCCESS] * 2
    assert broker.parts.lite.subscriptions.count == MANY - 1 + 1


@pytest.mark.parametrize(("action", "names", "left"), [("COMPLETE_ADD", NAMES[:1], None), ("COMPLETE_REMOVE", [], 0)])
def test_what_a_closed_connection_leaves_of_a_long_request_counts_right(
    broker: WholeBroker, action: str, names: list[str], left: int | None
) -> None:
    LiteConsumer(broker).tell("COMPLETE_ADD", *NAMES)
    broker.wait(1)
    leaving = LiteConsumer(broker)
    assert leaving.peer.ask_all(CTL, body=body(wish(action, *names))) == []
    leaving.peer.leave()
    broker.wait(1)
    subscriptions = broker.parts.lite.subscriptions
    found = sum(len(client.queues) for client in subscriptions)
    assert subscriptions.count == found
    assert left is None or found == left


def test_more_names_than_there_may_be_subscriptions_are_refused_and_a_long_line_is_busy(tmp_path: Path) -> None:
    limit, thousand = MANY + 1_000, [f"m{number}" for number in range(1_000)]
    broker = WholeBroker(
        tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True, max_lite_subscription_count=limit
    )
    made(broker)
    peer = LiteConsumer(broker).peer
    (answer,) = peer.ask_all(CTL, body=body(wish("PARTIAL_REMOVE", *NAMES, *thousand, "more")))
    assert answer.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert peer.ask_all(CTL, body=body(wish("COMPLETE_ADD", *NAMES))) == []
    (busy,) = peer.ask_all(CTL, body=body(wish("PARTIAL_REMOVE", *thousand)))
    assert busy.code == ResponseCode.SYSTEM_BUSY
    broker.wait(1)
    assert [answer.code for answer in peer.received()] == [ResponseCode.SUCCESS]


def test_large_bodies_make_a_long_line_as_well(tmp_path: Path) -> None:
    broker = WholeBroker(
        tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True, max_lite_subscription_count=MANY + 1_000
    )
    made(broker)
    peer = LiteConsumer(broker).peer
    assert peer.ask_all(CTL, body=body(wish("COMPLETE_ADD", *NAMES))) == []
    assert peer.ask_all(CTL, body=body(wish("PARTIAL_REMOVE", "a")) + b" " * 100_000) == []
    (busy,) = peer.ask_all(CTL, body=body(wish("PARTIAL_REMOVE", "a")))
    assert busy.code == ResponseCode.SYSTEM_BUSY
    broker.wait(1)
    assert [answer.code for answer in peer.received()] == [ResponseCode.SUCCESS] * 2


def test_what_waits_for_a_group_with_all_lite_topics_is_kept_once(broker: WholeBroker) -> None:
    made(broker, attributes={"lite.sub.wildcard": "true"})
    consumers = [LiteConsumer(broker, f"client-{number}") for number in range(50)]
    for consumer in consumers:
        assert consumer.tell("COMPLETE_ADD").code == ResponseCode.SUCCESS
    for name in "abc":
        send(broker, name, f"{name}1")
    kept = {id(client.ready): len(client.ready) for client in broker.parts.lite.subscriptions}
    assert list(kept.values()) == [3]
    assert consumers[7].texts(max_msg_num=2) == ["a1", "b1"]
    assert consumers[8].texts() == ["c1"]
    consumers[9].wait()
    consumers[3].wait()
    consumers[9].tell("COMPLETE_REMOVE")
    send(broker, "d", "d1")
    assert [message.text for message in consumers[3].woken()] == ["d1"]


def test_a_look_at_all_queues_lets_others_have_their_turn(broker: WholeBroker) -> None:
    """A request may add a thousand clients that have all lite topics, and each looks at all queues."""
    assert len(list(broker.parts.lite.queues_of(PARENT))) == 1


def test_each_of_several_messages_wakes_another_client_that_has_all_lite_topics(broker: WholeBroker) -> None:
    made(broker, attributes={"lite.sub.wildcard": "true"})
    consumers = [LiteConsumer(broker, f"client-{number}") for number in range(5)]
    for consumer in consumers:
        consumer.tell("COMPLETE_ADD")
        consumer.wait(max_msg_num=1)
    for name in "abc":
        send(broker, name, name)
    assert [[message.text for message in consumer.woken()] for consumer in consumers] == [["a"], ["b"], ["c"], [], []]


def test_a_lite_topic_wakes_one_client_of_each_group_that_waits(broker: WholeBroker) -> None:
    made(broker, group="other")
    first, second = LiteConsumer(broker).subscribe("a"), LiteConsumer(broker, "client-2").subscribe("a")
    other = LiteConsumer(broker, "client-3", "other").subscribe("a")
    second.wait()
    other.wait()
    send(broker, "a", "1")
    assert [message.text for message in second.woken()] == ["1"]
    assert [message.text for message in other.woken()] == ["1"]
    assert first.texts() == []


def test_silent_clients_are_dropped_a_few_in_each_turn(tmp_path: Path) -> None:
    broker = WholeBroker(
        tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True, lite_subscription_check_interval_ms=86_400_000
    )
    made(broker)
    peer = broker.connect()
    wishes = [wish("PARTIAL_ADD", "a", client_id=f"client-{number}") for number in range(200)]
    assert broker.ask(peer, CTL, body=body(*wishes)).code == ResponseCode.SUCCESS
    broker.reactor.advance(200)
    broker.parts.lite.forget_silent()
    assert 0 < len(broker.parts.lite.subscriptions) < 200
    broker.wait(1)
    assert (len(broker.parts.lite.subscriptions), broker.parts.lite.subscriptions.count) == (0, 0)


def test_a_deleted_parent_asks_for_its_groups_once(broker: WholeBroker) -> None:
    for number in range(20):
        send(broker, f"n{number}", "1")
    broker.parts.lite._groups = groups = Counted(broker.parts.groups)  # type: ignore[assignment]
    request = DeleteTopicRequest(topic=PARENT)
    assert broker.ask(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, request).code == ResponseCode.SUCCESS
    assert groups.counts == {"table": 1}
