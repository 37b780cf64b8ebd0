"""The checks that must hold for any peer, as functions that raise AssertionError.

The tests run them against good peers, and against deliberately bad ones to show that they notice.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from compat_tests.client_program import Answer, ClientProgram
from compat_tests.peers import Peer

_UNIQUE = itertools.count()
_SESSION = uuid.uuid4().hex[:6]
TRANSACTIONS = 3000


@dataclass(frozen=True, slots=True)
class Scene:
    """A peer, a client, and how many messages to send."""

    peer: Peer
    client: ClientProgram
    messages: int
    # A consumer that gets nothing new for so long gives up.
    patience_s: int = 45
    keys: Mapping[str, str] = field(default_factory=dict)
    """The keys of the client's account."""

    def run(self, verb: str, **options: object) -> Answer:
        return self.client.run(verb, **self._common(options))

    def start(self, verb: str, **options: object) -> Future[Answer]:
        return self.client.start(verb, **self._common(options))

    def _common(self, options: dict[str, object]) -> dict[str, Any]:
        return {"ns": self.peer.nameserver, "timeout_s": 120, "idle_s": self.patience_s, **self.keys, **options}

    def topic(self, queues: int = 4) -> str:
        """A new topic, made through the client's API and visible to it."""
        topic = unused_topic()
        made = self.run("create-topic", topic=topic, queues=queues)
        assert made["queues"] == queues, f"{topic} has {made['queues']} queues instead of {queues}"
        return topic


def unused_topic() -> str:
    """A name that nothing has had."""
    return f"compat_{_SESSION}_{next(_UNIQUE)}"


def run_name(topic: str) -> str:
    return "r" + topic.rsplit("_", 1)[1]


def send_all(scene: Scene, topic: str, verb: str = "send-sync", **options: object) -> Answer:
    """Send the run; each message must be acknowledged exactly once, except one-way ones, which are not."""
    sent = scene.run(verb, topic=topic, run=run_name(topic), count=scene.messages, **options)
    assert sent["started"] == scene.messages, str(sent)
    expected = 0 if verb == "send-oneway" else scene.messages
    assert (sent["acknowledged"], sent["failed"], sent["not_ok"]) == (expected, 0, 0), str(sent)
    return sent


def receive_all(
    scene: Scene, topic: str, verb: str = "consume-push", count: int | None = None, **options: object
) -> Answer:
    """Receive the run with a new group: every message once, unharmed, none of other runs."""
    expected = scene.messages if count is None else count
    name = run_name(topic)
    got = scene.run(verb, **{"topic": topic, "run": name, "group": f"g_{topic}_{verb}", "count": expected, **options})
    only_once(got, expected)
    return got


def only_once(got: Answer, expected: int) -> None:
    missing = expected - got["received"]
    assert missing <= 0, f"{missing} messages missing: {got}"
    assert got["received"] == expected, f"more messages than sent: {got}"
    assert got["duplicates"] == 0, f"{got['duplicates']} messages delivered twice: {got}"
    assert (got["strangers"], got["corrupt"]) == (0, 0), str(got)


def transactions_by_thirds(scene: Scene, count: int = TRANSACTIONS) -> Answer:
    """Commit, roll back, or let the check decide, by thirds: exactly the committed are received, once."""
    topic = scene.topic()
    name = run_name(topic)
    done = scene.run("transact", topic=topic, run=name, group=f"pg_{topic}", count=count)
    assert (done["acknowledged"], done["failed"]) == (count, 0), str(done)
    unknown = done.numbers("unknown")
    assert len(unknown) == count // 3
    assert unknown <= done.numbers("checked"), f"never checked: {sorted(unknown - done.numbers('checked'))[:20]}"
    committed = done.numbers("committed")
    # A longer wait at the end, for rolled-back messages that a bad peer would still deliver.
    got = scene.run("consume-push", topic=topic, run=name, group=f"g_{topic}", count=len(committed), linger_ms=2000)
    received = got.numbers()
    assert not received - committed, f"rolled back, yet delivered: {sorted(received - committed)[:20]}"
    assert not committed - received, f"committed, yet missing: {sorted(committed - received)[:20]}"
    assert got["duplicates"] == 0, f"{got['duplicates']} transactions delivered twice: {got}"
    return done


def retried_then_dead(scene: Scene) -> None:
    """Messages fail once and succeed when retried, except each tenth, which ends as a dead letter."""
    topic = scene.topic()
    name = run_name(topic)
    group = f"g_{topic}"
    send_all(scene, topic)
    got = scene.run("consume-failing", topic=topic, run=name, group=group, count=scene.messages, max_reconsume=2)
    hopeless = scene.messages // 10
    only_once(got, scene.messages - hopeless)
    assert got["wrong_counts"] == 0, f"reconsumeTimes is not the number of failures: {got}"
    assert got.json("attempts") == {"2": scene.messages - hopeless}, str(got)
    assert got.json("hopeless_attempts") == {"3": hopeless}, str(got)
    dead = scene.run(
        "consume-pull", topic=f"%DLQ%{group}", run=name, group=f"{group}_dead", count=hopeless, linger_ms=500
    )
    only_once(dead, hopeless)
    assert dead.numbers() == frozenset(range(0, scene.messages, 10))
