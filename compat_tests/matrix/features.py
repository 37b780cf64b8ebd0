"""The rows of the matrix: what each feature means, as a function that raises AssertionError where it does not hold.

All messages of a cell are counted: lost, repeated, damaged and foreign ones are failures in every row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from compat_tests import scenarios
from compat_tests.client_program import Answer
from compat_tests.environment import wait_until
from compat_tests.matrix.stage import Stage
from compat_tests.scenarios import only_once, receive_all, run_name, send_all, unused_topic
from gateway.client import ReceivedMessage, RocketMQError

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
ONE_SECOND_MS = (800, 6_000)
"""When a message with a delay of a second comes; the control may be two seconds late, and machines are busy."""
BEHIND_PROXY_S = 5
"""So long a client has to join a group where nobody can be asked whether it has."""
LARGE_BYTES = 60_000
TRANSACTIONS = 30
RECALLED = 5
LITES = 4
TIMED = 30
RESET_S = 80
"""From a message to the next one when the offsets are set back in between: 10 s until Java and Go clients tell how far
they are for the first time, 20 s until a broker's answer that does not come early; then clients before 5.x, and Go's,
let go of the queue for 10 s, and look within 20 s which queues are theirs; and 20 s for a slow machine."""


Holds = Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Feature:
    """A row: `name` for the command line, `title` for the page; `topic_type` for clients that look at types."""

    name: str
    title: str
    holds: Holds
    topic_type: str = "NORMAL"


FEATURES: dict[str, Feature] = {}


def feature(name: str, title: str, topic_type: str = "NORMAL") -> Callable[[Holds], Holds]:
    """Add a row."""

    def add(holds: Holds) -> Holds:
        FEATURES[name] = Feature(name, title, holds, topic_type)
        return holds

    return add


def sent_and_received(stage: Stage, verb: str, **options: object) -> None:
    topic = stage.topic()
    send_all(stage, topic, verb, **options)
    receive_all(stage, topic)


@feature("send-sync", "send, waiting for the answer")
def send_sync(stage: Stage) -> None:
    sent_and_received(stage, "send-sync")


@feature("send-async", "send with a callback")
def send_async(stage: Stage) -> None:
    sent_and_received(stage, "send-async")


@feature("send-oneway", "send one-way")
def send_oneway(stage: Stage) -> None:
    sent_and_received(stage, "send-oneway", linger_ms=1000)


@feature("send-batch", "send batches")
def send_batch(stage: Stage) -> None:
    sent_and_received(stage, "send-batch", batch=20)


@feature("auto-topic", "topics made by sending to them")
def auto_topic(stage: Stage) -> None:
    topic = unused_topic()
    send_all(stage, topic)
    receive_all(stage, topic)


@feature("compression", "compressed bodies")
def compression(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic, size=LARGE_BYTES, threads=2)
    receive_all(stage, topic)
    (found,) = stored_with_key(stage, topic, f"{run_name(topic)}-0")
    assert len(found.record.body) < LARGE_BYTES // 2, "stored as it was sent"


@feature("push", "push: messages that come while the consumer waits")
def push(stage: Stage) -> None:
    topic = stage.topic()
    waiting = stage.start("consume-push", topic=topic, run=run_name(topic), group=f"g_{topic}", count=stage.messages)
    await_members(stage, f"g_{topic}", 1)
    send_all(stage, topic)
    only_once(waiting.result(), stage.messages)


@feature("orderly", "orderly: messages of a key in their order", "FIFO")
def orderly(stage: Stage) -> None:
    topic = stage.topic(queues=8)
    send_all(stage, topic, "send-orderly", shards=16, threads=8)
    group = stage.group(f"g_{topic}", orderly=True)
    got = receive_all(stage, topic, "consume-orderly", shards=16, group=group)
    assert got["order_breaks"] == 0, str(got)


@feature("orderly-retry", "orderly: a failed message holds its queue, then comes again", "FIFO")
def orderly_retry(stage: Stage) -> None:
    topic = stage.topic(queues=4)
    send_all(stage, topic, "send-orderly", shards=8, threads=8)
    group = stage.group(f"g_{topic}", orderly=True)
    got = receive_all(stage, topic, "consume-orderly", shards=8, group=group, suspend=10)
    assert got["order_breaks"] == 0, str(got)
    assert got["suspended"] == stage.messages // 10, str(got)


@feature("broadcasting", "broadcasting")
def broadcasting(stage: Stage) -> None:
    topic = stage.topic()
    group = f"g_{topic}"
    receiving = stage.start(
        "consume-broadcast", topic=topic, run=run_name(topic), group=group, count=stage.messages, members=2
    )
    await_members(stage, group, 2)
    send_all(stage, topic)
    got = receiving.result()
    only_once(got, stage.messages)
    assert got["total"] == 2 * stage.messages, str(got)


@feature("tags", "tags")
def tags(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic, tags="red,green,blue")
    wanted = frozenset(number for number in range(stage.messages) if number % 3 != 1)
    assert receive_all(stage, topic, count=len(wanted), tags="red || blue").numbers() == wanted


@feature("sql92", "SQL92 filters")
def sql92(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic, property="number")
    wanted = frozenset({*range(10, 21), stage.messages - 1})
    expression = f"number BETWEEN 10 AND 20 OR number IN ('{stage.messages - 1}')"
    assert receive_all(stage, topic, count=len(wanted), sql=expression).numbers() == wanted


@feature("retry", "retries after a failure")
def retry(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic)
    group = stage.group(f"g_{topic}", retries=3)
    got = consume_failing(stage, topic, group, retries=3, hopeless=0)
    only_once(got, stage.messages)
    assert got["wrong_counts"] == 0, f"reconsumeTimes is not the number of failures: {got}"
    assert got.json("attempts") == {"2": stage.messages}, str(got)


@feature("dead-letters", "dead letters")
def dead_letters(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic)
    group = stage.group(f"g_{topic}", retries=2)
    got = consume_failing(stage, topic, group, retries=2, hopeless=10)
    hopeless = stage.messages // 10
    only_once(got, stage.messages - hopeless)
    assert got.json("hopeless_attempts") == {"3": hopeless}, str(got)
    wait_until(lambda: stored(stage, f"%DLQ%{group}") == hopeless, f"{hopeless} dead letters", timeout_s=10)


@feature("delay-level", "delay levels", "DELAY")
def delay_level(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic, delay=3)
    got = receive_all(stage, topic)
    least, most = ONE_SECOND_MS
    assert least <= got["waited_min_ms"], f"before its time: {got}"
    assert got["waited_max_ms"] <= most, f"late: {got}"
    # Clients that show the level of a received message say which they saw.
    assert got.fields.get("delay_levels", "[3]") == "[3]", f"not their level: {got}"


@feature("timer", "delivery at an arbitrary time", "DELAY")
def timer(stage: Stage) -> None:
    topic = stage.topic()
    sent = stage.run("send-timed", topic=topic, run=run_name(topic), count=TIMED, min_ms=1200, max_ms=3000)
    assert sent["acknowledged"] == TIMED, str(sent)
    got = receive_all(stage, topic, count=TIMED)
    assert got["waited_min_ms"] >= ONE_SECOND_MS[0], f"before its time: {got}"
    assert got["waited_max_ms"] <= ONE_SECOND_MS[1] + 2000, f"late: {got}"


@feature("recall", "taking a message back before its time", "DELAY")
def recall(stage: Stage) -> None:
    topic = stage.topic()
    name = run_name(topic)
    sent = stage.run("send-timed", topic=topic, run=name, count=2 * RECALLED, min_ms=9000, max_ms=10000)
    handles, ids = sent.json("handles"), sent.json("message_ids")
    taken_back = stage.run("recall", topic=topic, handles=",".join(handles[::2]))
    assert taken_back.json("message_ids") == ids[::2], str(taken_back)
    got = receive_all(stage, topic, count=RECALLED, linger_ms=2000)
    assert got.numbers() == frozenset(range(1, 2 * RECALLED, 2)), str(got)


@feature("transactions", "transactions: commit, rollback, check", "TRANSACTION")
def transactions(stage: Stage) -> None:
    scenarios.transactions_by_thirds(stage, TRANSACTIONS)


@feature("request-reply", "request and reply")
def request_reply(stage: Stage) -> None:
    topic = stage.topic()
    got = stage.run("request", topic=topic, group=f"g_{topic}", count=20, threads=4)
    assert (got["replied"], got["wrong"], got["timed_out"], got["failed"]) == (20, 0, 0, 0), str(got)


@feature("resume", "a group goes on where it stopped")
def resume(stage: Stage) -> None:
    topic = stage.topic()
    name, group = run_name(topic), f"g_{topic}"
    send_all(stage, topic)
    receive_all(stage, topic, group=group, linger_ms=1500)
    stage.run("send-sync", topic=topic, run=name, first=stage.messages, count=20)
    more = stage.run("consume-push", topic=topic, run=name, group=group, count=20)
    only_once(more, 20)
    assert min(more.numbers()) == stage.messages, str(more)


@feature("rebalance", "members share the queues; who stays takes over")
def rebalance(stage: Stage) -> None:
    topic = stage.topic()
    name, group = run_name(topic), f"g_{topic}"
    common = {"topic": topic, "run": name, "group": group}
    consuming = [stage.start("consume-push", **common, until=f"{group}_{number}") for number in range(2)]
    await_members(stage, group, 2)
    send_all(stage, topic, threads=2, pause_ms=60)  # they share the queues within that time
    wait_until(lambda: consumed(stage, group, topic) == stage.messages, "all consumed", timeout_s=30)
    stage.client.stop(f"{group}_0")
    first = consuming[0].result()
    sent = stage.run("send-sync", topic=topic, run=name, first=stage.messages, count=stage.messages)
    assert sent["acknowledged"] == stage.messages, str(sent)
    wait_until(lambda: consumed(stage, group, topic) == 2 * stage.messages, "the other took over", timeout_s=30)
    stage.client.stop(f"{group}_1")
    second = consuming[1].result()
    assert 0 < first["received"] < stage.messages, f"not shared: {first}"
    assert first.numbers() | second.numbers() == frozenset(range(2 * stage.messages))


@feature("lite-pull", "lite pull consumer")
def lite_pull(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic)
    receive_all(stage, topic, "consume-lite-pull")


@feature("pull", "pull from queues")
def pull(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic)
    receive_all(stage, topic, "consume-pull")


@feature("pop", "POP by a push consumer")
def pop(stage: Stage) -> None:
    topic = stage.topic()
    group = stage.group(f"g_{topic}")
    stage.let_pop(topic, group)
    name = run_name(topic)
    receiving = stage.start(
        "consume-push", topic=topic, run=name, group=group, count=stage.messages, broker_balances=True
    )
    send_all(stage, topic)
    only_once(receiving.result(), stage.messages)


@feature("simple", "simple consumer: receive, acknowledge, once more after the invisible time")
def simple(stage: Stage) -> None:
    topic = stage.topic()
    group = stage.group(f"g_{topic}")
    send_all(stage, topic)
    got = receive_all(stage, topic, "consume-simple", group=group, invisible_ms=10_000, skip=10)
    assert got["skipped"] == stage.messages // 10, str(got)


@feature("lite-topics", "lite topics: those subscribed to, each in its order, also when a message fails", "LITE")
def lite_topics(stage: Stage) -> None:
    topic = stage.topic()
    group = stage.group(f"g_{topic}", orderly=True, attributes={"lite.bind.topic": topic})
    common = {"run": run_name(topic), "group": group, "lites": LITES}
    waiting = stage.start(
        "consume-lite", topic=topic, **common, until_lite=LITES - 1, count=_in_lites(stage), suspend=5
    )
    await_members(stage, group, 1)
    send_all(stage, topic, lites=LITES, threads=LITES)
    got = waiting.result()
    wanted = {number for number in range(stage.messages) if number % LITES < LITES - 1}
    assert got.numbers() == wanted, str(got)
    assert (got["duplicates"], got["order_breaks"], got["strange_lites"]) == (0, 0, 0), str(got)
    assert got["suspended"] > 0, str(got)
    rest = stage.run("consume-lite", topic=topic, **common, first_lite=LITES - 1, count=stage.messages - len(wanted))
    assert rest.numbers() == frozenset(range(stage.messages)) - wanted, str(rest)


def _in_lites(stage: Stage) -> int:
    """Return how many messages of a run are in all lite topics but the last."""
    return sum(number % LITES < LITES - 1 for number in range(stage.messages))


@feature("namespace", "namespaces")
def namespace(stage: Stage) -> None:
    whole = stage.topic(namespace="tenant")
    topic = whole.removeprefix("tenant%")
    send_all(stage, topic, namespace="tenant")
    receive_all(stage, topic, namespace="tenant")
    assert stored(stage, whole) == stage.messages


@feature("trace", "message trace")
def trace(stage: Stage) -> None:
    topic = stage.topic()
    send_all(stage, topic, trace=True)
    wait_until(
        lambda: bool(stored_with_key(stage, TRACE_TOPIC, f"{run_name(topic)}-0")),
        "the trace of a message",
        timeout_s=15,
    )


@feature("query", "messages found by key and by id")
def query(stage: Stage) -> None:
    topic = stage.topic()
    sent = send_all(stage, topic)
    found = stage.run("query-key", topic=topic, run=run_name(topic), count=20)
    assert (found["found"], found["duplicates"], found["strangers"]) == (20, 0, 0), str(found)
    offset_id, unique_id, key = sent.json("ids")[0].split("/")
    for message_id in (offset_id, unique_id):
        assert stage.run("view-id", topic=topic, id=message_id).text("key") == key


@feature("reset-offline", "offsets set back while the group is away")
def reset_offline(stage: Stage) -> None:
    topic = stage.topic()
    group = f"g_{topic}"
    send_all(stage, topic)
    receive_all(stage, topic, group=group, linger_ms=1500)
    wait_until(lambda: not members(stage, group), "the consumer's leave")
    stage.admin.offsets.reset(group, topic, "earliest")
    receive_all(stage, topic, group=group)


@feature("reset-online", "offsets set back while the group consumes")
def reset_online(stage: Stage) -> None:
    topic = stage.topic()
    group = f"g_{topic}"
    send_all(stage, topic)
    common = {"topic": topic, "run": run_name(topic), "group": group, "idle_s": RESET_S, "timeout_s": RESET_S + 30}
    consuming = stage.start("consume-push", **common, count=stage.messages, deliveries=2 * stage.messages)
    wait_until(lambda: consumed(stage, group, topic) == stage.messages, "all consumed", timeout_s=30)
    stage.admin.offsets.reset(group, topic, "earliest")
    got = consuming.result()
    assert (got["received"], got["duplicates"]) == (stage.messages, stage.messages), str(got)


@feature("running-info", "asking a running consumer what it does")
def running_info(stage: Stage) -> None:
    topic = stage.topic()
    group = f"g_{topic}"
    consuming = stage.start("consume-push", topic=topic, run=run_name(topic), group=group, until=group)
    await_members(stage, group, 1)
    (client_id,) = members(stage, group)
    info = stage.admin.groups.running_info(group, client_id)
    stage.client.stop(group)
    consuming.result()
    assert info.get("properties"), str(info)


def consume_failing(stage: Stage, topic: str, group: str, *, retries: int, hopeless: int) -> Answer:
    """Receive what fails once; one of ``hopeless`` messages (0: none) fails until the broker gives it up."""
    return stage.run(
        "consume-failing",
        topic=topic,
        run=run_name(topic),
        group=group,
        count=stage.messages,
        max_reconsume=retries,
        hopeless=hopeless,
    )


def await_members(stage: Stage, group: str, count: int) -> None:
    """Wait until so many clients have joined the group."""
    if stage.behind_proxy:
        threading.Event().wait(BEHIND_PROXY_S)
    else:
        wait_until(lambda: len(members(stage, group)) == count, f"the heartbeats of {count} members")


def members(stage: Stage, group: str) -> tuple[str, ...]:
    """The ids of a group's connected clients."""
    connection = stage.admin.groups.consumers(group)
    return () if connection is None else tuple(each.client_id for each in connection.connections)


def consumed(stage: Stage, group: str, topic: str) -> int:
    """Return how many messages the group reports as consumed if the topic is read from its beginning."""
    try:
        queues = stage.admin.offsets.progress(group, topic).queues
    except RocketMQError:
        return 0  # it has told nothing yet
    return sum(max(0, each.offset) for queue, each in queues.items() if queue.topic == topic)


def stored(stage: Stage, topic: str) -> int:
    """Return how many messages a topic has; 0 if there is no such topic."""
    try:
        return sum(each.messages for each in stage.admin.topics.stats(topic).values())
    except RocketMQError:
        return 0


def stored_with_key(stage: Stage, topic: str, key: str) -> list[ReceivedMessage]:
    try:
        return stage.admin.messages.by_key(topic, key)
    except RocketMQError:
        return []
