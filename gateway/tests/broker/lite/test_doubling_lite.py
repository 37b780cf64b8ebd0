"""No request of lite topics costs more than in proportion to the clients, their lite topics and the changes in it.

All of them are doubled at once, so that work that multiplies two of them is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.tests.broker.lite.lite_client import CTL, GROUP, PARENT, LiteConsumer, made
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.doubling import Prepared, check_growth
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import Header
from wire.headers.lite import (
    GetLiteClientInfoRequest,
    GetLiteGroupInfoRequest,
    GetLiteTopicInfoRequest,
    GetParentTopicInfoRequest,
    TriggerLiteDispatchRequest,
)

SIZE = 250
ALL, LARGE = "all", "large"


class World:
    """Clients of one lite topic each, one that has as many lite topics, and as many that have all of them."""

    def __init__(self, directory: Path, size: int) -> None:
        self.size = size
        self.broker = WholeBroker(directory, enable_lmq=True, enable_multi_dispatch=True)
        made(self.broker)
        made(self.broker, group=ALL, attributes={"lite.sub.wildcard": "true"})
        self.names = [f"n{number}" for number in range(size)]
        self.clients = [f"client-{number}" for number in range(size)]
        self.peer = self.broker.connect()
        self.change(*(wish("PARTIAL_ADD", client, name) for client, name in zip(self.clients, self.names, strict=True)))
        self.change(wish("COMPLETE_ADD", LARGE, *self.names))
        self.change(*(wish("COMPLETE_ADD", client, group=ALL) for client in self.clients))

    def change(self, *wishes: dict[str, Any]) -> None:
        """Let clients tell their subscriptions."""
        self.ask(self.peer, CTL, body=json.dumps({"subscriptionSet": wishes}).encode())

    def ask(self, peer: Peer, code: int, header: Header | None = None, body: bytes = b"") -> None:
        """Ask, and let turns pass until the answer is there."""
        answers = peer.ask_all(code, header, body)
        while not answers:
            self.broker.turn()
            answers = peer.received()
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS], answers[0].remark


def wish(action: str, client: str, *names: str, group: str = GROUP) -> dict[str, Any]:
    return {"action": action, "clientId": client, "group": group, "topic": PARENT, "liteTopicSet": list(names)}


def _empty_changes(world: World) -> None:
    world.change(*[wish("PARTIAL_ADD", LARGE)] * world.size)


def _told_again(world: World) -> None:
    world.change(wish("COMPLETE_ADD", LARGE, *world.names))


def _come_and_go(world: World) -> None:
    world.change(*(wish("COMPLETE_REMOVE", client, group=ALL) for client in world.clients))
    world.change(*(wish("COMPLETE_ADD", client, group=ALL) for client in world.clients))


def _messages(world: World) -> None:
    queues = [f"%LMQ%${PARENT}${name}" for name in world.names]
    world.broker.parts.lite.arrived([SimpleNamespace(topic=queue) for queue in queues])  # type: ignore[misc]


def _messages_for_waiting(world: World) -> None:
    for client in world.clients[:20]:
        LiteConsumer(world.broker, client, ALL).wait()
    _messages(world)


def _silent(world: World) -> None:
    world.broker.reactor.rightNow += 1_000
    world.broker.parts.lite.forget_silent()
    while len(world.broker.parts.lite.subscriptions):
        world.broker.turn()


def asks(code: RequestCode, header: Header | None = None) -> Callable[[World], None]:
    return lambda world: world.ask(world.peer, code, header)


CASES: dict[str, Callable[[World], None]] = {
    "as many changes of nothing": _empty_changes,
    "all lite topics of a client once more": _told_again,
    "clients that have all come and go": _come_and_go,
    "a message for each lite topic": _messages,
    "a message for each lite topic while clients wait": _messages_for_waiting,
    "clients that are silent": _silent,
    "the broker": asks(RequestCode.GET_BROKER_LITE_INFO),
    "a parent": asks(RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfoRequest(topic=PARENT)),
    "a lite topic": asks(
        RequestCode.GET_LITE_TOPIC_INFO, GetLiteTopicInfoRequest(parent_topic=PARENT, lite_topic="n1")
    ),
    "a client": asks(
        RequestCode.GET_LITE_CLIENT_INFO,
        GetLiteClientInfoRequest(parent_topic=PARENT, group=GROUP, client_id=LARGE, max_count=9_999),
    ),
    "a group": asks(RequestCode.GET_LITE_GROUP_INFO, GetLiteGroupInfoRequest(group=GROUP, top_k=9_999)),
    "lite topics offered once more": asks(RequestCode.TRIGGER_LITE_DISPATCH, TriggerLiteDispatchRequest(group=GROUP)),
}


@pytest.mark.parametrize("name", CASES)
def test_twice_the_clients_and_lite_topics_are_about_twice_the_work(name: str, tmp_path: Path) -> None:
    made: list[World] = []

    def prepare(size: int) -> Prepared:
        made.append(World(tmp_path / str(len(made)), size))
        return lambda: CASES[name](made[-1])

    check_growth(prepare, SIZE, name)
