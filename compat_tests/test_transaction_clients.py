"""Transactions of all client generations: 4.3 to 5.5, the old API and the new, and Alibaba's ons-client.

A scene's client version stands for its generation: with 4.9.8 the older ones run, with 5.5.0 the newer. Against the
control all of them do, to show that what is asked here is what they get there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from compat_tests.environment import wait_until
from compat_tests.java_client import Answer, JavaClient, java_client
from compat_tests.scenarios import Scene, run_name
from compat_tests.soak.streams import commits

Clients = Callable[[str], JavaClient]

_TRANSACTIONS = 150
_HANGING = 12
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_PROPERTIES_BYTES = 32767


@dataclass(frozen=True, slots=True)
class Kind:
    """A client version and one of the APIs it has; see `TransactionApi.java`."""

    version: str
    api: str

    @property
    def name(self) -> str:
        return f"{self.api} of {self.version}"


_KINDS = {
    "4.9.8": (
        Kind("4.3.2", "new"),
        Kind("4.3.2", "old"),
        Kind("4.5.1", "new"),
        Kind("4.5.1", "old"),
        Kind("4.5.1", "ons"),
        Kind("4.9.8", "old"),
    ),
    "5.5.0": (Kind("5.3.3", "new"), Kind("5.3.3", "check-listener"), Kind("5.5.0", "check-listener")),
}


def kinds(scene: Scene) -> tuple[Kind, ...]:
    if scene.peer.name.startswith("rocketmq-"):
        return tuple(kind for generation in _KINDS.values() for kind in generation)
    return _KINDS[scene.client.version]


def received(scene: Scene, topic: str, committed: frozenset[int], **options: object) -> Answer:
    """Return the messages that a consumer gets: exactly the committed ones, once for each half message."""
    got = scene.run(
        "consume-pull",
        topic=topic,
        run=run_name(topic),
        group=f"g_{topic}",
        count=len(committed),
        linger_ms=300,
        **options,
    )
    assert got.numbers() == committed, str(got)
    assert (got["duplicates"], got["corrupt"], got["strangers"]) == (0, 0, 0), str(got)
    return got


def test_every_client_generation_commits_rolls_back_and_is_checked(scene: Scene, clients: Clients) -> None:
    started = []
    for kind in kinds(scene):
        topic = scene.topic()
        theirs = replace(scene, client=clients(kind.version))
        group = f"pg_{topic}"
        running = theirs.start(
            "transact", topic=topic, run=run_name(topic), group=group, api=kind.api, count=_TRANSACTIONS, threads=2
        )
        started.append((kind, topic, running))
    for kind, topic, running in started:
        done = running.result()
        assert (done["acknowledged"], done["failed"]) == (_TRANSACTIONS, 0), f"{kind.name}: {done}"
        unchecked = done.numbers("unknown") - done.numbers("checked")
        assert len(done.numbers("unknown")) == _TRANSACTIONS // 3
        assert not unchecked, f"{kind.name}: never checked: {sorted(unchecked)[:20]}"
        received(scene, topic, done.numbers("committed"))


@pytest.mark.parametrize(
    "kind", [Kind("4.3.2", "old"), Kind("4.5.1", "ons"), Kind("5.5.0", "new")], ids=lambda kind: kind.name
)
def test_another_producer_of_the_group_decides_for_one_that_died(gateway: Scene, clients: Clients, kind: Kind) -> None:
    """The first has stored its half messages, and is killed before it says what is to become of them."""
    topic = gateway.topic()
    options = {"topic": topic, "run": run_name(topic), "group": f"pg_{topic}", "api": kind.api}
    with java_client(kind.version) as mortal:
        dying = replace(gateway, client=mortal)
        hung = dying.start("transact", **options, count=_HANGING, threads=_HANGING, hang=True)
        wait_until(
            lambda: dying.run("executed", run=options["run"])["executed"] == _HANGING,
            "half messages of the first producer",
        )
        mortal.kill()
        with pytest.raises(AssertionError):
            hung.result()
    heir = replace(gateway, client=clients(kind.version))
    done = heir.run("transact", **options, first=_HANGING, count=1, expect_checks=_HANGING)
    assert done.numbers("checked") >= frozenset(range(_HANGING)), str(done)
    received(gateway, topic, frozenset(number for number in range(_HANGING + 1) if commits(number)))


def test_half_messages_are_found_by_key_under_the_half_topic(scene: Scene) -> None:
    """Where Apache's tools look for them, whatever became of it: the first is committed, the second rolled back."""
    topic = scene.topic()
    done = scene.run("transact", topic=topic, run=run_name(topic), group=f"pg_{topic}", count=2, wait_checks_s=0)
    assert done["acknowledged"] == 2, str(done)
    found = scene.run("query-key", topic="RMQ_SYS_TRANS_HALF_TOPIC", run=run_name(topic), count=2)
    assert found["found"] == 2, str(found)


@pytest.mark.parametrize(
    "kind", [Kind("4.3.2", "old"), Kind("4.5.1", "ons"), Kind("5.5.0", "new")], ids=lambda kind: kind.name
)
def test_tags_large_and_compressed_bodies_pass_through_a_transaction(
    gateway: Scene, clients: Clients, kind: Kind
) -> None:
    """Sent with keys (all messages of these tests have one), a tag by number, bodies up to the limit."""
    theirs = replace(gateway, client=clients(kind.version))
    for options in (
        {"size": 100_000, "count": 12},
        {"size": _MAX_BODY_BYTES, "count": 3, "compress_over": _MAX_BODY_BYTES, "send_timeout_ms": 20_000},
    ):
        topic = gateway.topic()
        done = theirs.run(
            "transact",
            **options,
            topic=topic,
            run=run_name(topic),
            group=f"pg_{topic}",
            api=kind.api,
            tags="red,green",
            threads=2,
        )
        assert (done["acknowledged"], done["failed"]) == (options["count"], 0), str(done)
        committed = done.numbers("committed")
        received(gateway, topic, committed)
        red = frozenset(number for number in committed if number % 2 == 0)
        tagged = gateway.run(
            "consume-pull", topic=topic, run=run_name(topic), group=f"t_{topic}", tags="red", count=len(red)
        )
        assert tagged.numbers() == red, str(tagged)
        found = gateway.run("query-key", topic=topic, run=run_name(topic), count=1)
        assert found["found"] == 1, "number 0 commits, and its key is in the index"


def refused(theirs: Scene, **options: object) -> str:
    """Send one transactional message, which must be refused; the error's text with # for numbers."""
    topic = theirs.topic()
    done = theirs.run(
        "transact", topic=topic, run=run_name(topic), group=f"pg_{topic}", count=1, wait_checks_s=0, **options
    )
    assert (done["acknowledged"], done["failed"]) == (0, 1), str(done)
    (text,) = done.json("errors")
    return str(text)


def test_what_a_transaction_cannot_be_is_refused_with_its_reason(gateway: Scene, clients: Clients) -> None:
    """Where the clients themselves do not take the property away (4.9) or refuse it (5.x)."""
    old, middle = (replace(gateway, client=clients(version)) for version in ("4.3.2", "4.9.8"))
    assert "CODE: #  DESC: a transactional message cannot be delayed: property DELAY=#" in refused(old, delay=3)
    for theirs in (old, middle):
        assert "cannot be delayed: property TIMER_DELAY_MS=#" in refused(theirs, deliver_in_ms=1000)
    for theirs in (old, middle, gateway):
        assert "a batch cannot be a transaction" in refused(theirs, batch=True)
    # ons-client has neither delay levels nor batches.
    ons = replace(gateway, client=clients("4.5.1"))
    assert "cannot be delayed: property TIMER_DELAY_MS=#" in refused(ons, api="ons", deliver_in_ms=1000)


@pytest.mark.parametrize(
    "kind", [Kind("4.3.2", "new"), Kind("4.5.1", "ons"), Kind("5.5.0", "new")], ids=lambda kind: kind.name
)
def test_properties_up_to_the_limit_are_kept_and_beyond_it_refused(
    gateway: Scene, clients: Clients, kind: Kind
) -> None:
    theirs = replace(gateway, client=clients(kind.version))
    topic = gateway.topic()
    filler = _MAX_PROPERTIES_BYTES - 600
    options = {"topic": topic, "run": run_name(topic), "group": f"pg_{topic}", "api": kind.api}
    done = theirs.run("transact", **options, count=3, properties_bytes=filler)
    assert done["acknowledged"] == 3, str(done)
    received(gateway, topic, done.numbers("committed"))
    assert "CODE: #" in refused(theirs, api=kind.api, properties_bytes=_MAX_PROPERTIES_BYTES + 1)
