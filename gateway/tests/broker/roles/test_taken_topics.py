"""A broker whose table lacks topics of messages that wait: it took over a copied log, or was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.takeover import CopyMark
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.transaction.replies import Reply
from gateway.transaction.states import Event
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.topics import DeleteTopicRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag

DELAYED = {"DELAY": "1"}
TIMED = {"TIMER_DELAY_MS": "1500"}
HALF = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": "half"}
OK, NO_TOPIC = ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST


def waiting(directory: Path, topic: str, queue_id: int, properties: dict[str, str], **changed: Any) -> WholeBroker:
    """A broker with a message that waits."""
    broker = WholeBroker(directory, **changed)
    broker.parts.topics.ensure(topic, 16, 6, order=True)
    peer = broker.connect()
    assert broker.send(peer, topic, b"late", queue_id=queue_id, properties=properties).code == OK
    return broker


def without_topic(broker: WholeBroker, topic: str, *, is_copy: bool) -> WholeBroker:
    """The next start: the table was copied, or saved last, before it had the topic."""
    broker.parts.topics.delete(topic)
    if not is_copy:
        return broker.restart()
    broker.stop()
    CopyMark(broker.directory).set()
    return WholeBroker(broker.directory, broker.clock(), **broker._changed)


def pulled(broker: WholeBroker, topic: str, queue_id: int) -> int:
    """The code that a pull is answered with."""
    header = pulling(topic=topic, queue_id=queue_id)
    return broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, header).code


@pytest.mark.parametrize("is_copy", [True, False], ids=["took over", "was killed"])
@pytest.mark.parametrize("properties", [DELAYED, TIMED], ids=["delayed", "timed"])
@pytest.mark.parametrize(
    ("topic", "queue_id", "queues"), [("orders", 2, 8), ("orders", 12, 13), ("%RETRY%group", 0, 1)], ids=str
)
def test_a_delivery_makes_its_topic(
    tmp_path: Path, topic: str, queue_id: int, queues: int, properties: dict[str, str], is_copy: bool
) -> None:
    again = without_topic(waiting(tmp_path, topic, queue_id, properties), topic, is_copy=is_copy)
    told: list[TopicConfig | None] = []
    again.parts.topics.on_change(lambda: told.append(again.parts.topics.get(topic)))
    assert pulled(again, topic, queue_id) == NO_TOPIC
    again.wait(3)
    assert pulled(again, topic, queue_id) == OK
    assert told == [TopicConfig(topic, queues, queues, 6)], "the name servers hear of it"
    again.stop()


def test_a_topic_that_was_made_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    again = without_topic(waiting(tmp_path, "orders", 12, DELAYED), "orders", is_copy=True)
    made = again.parts.topics.ensure("orders", 3, 6)
    again.wait(3)
    assert again.parts.topics.get("orders") is made
    assert pulled(again, "orders", 0) == OK
    again.stop()


@pytest.mark.parametrize("creates", [True, False], ids=["automatic creation", "none"])
def test_a_commit_makes_its_topic(tmp_path: Path, creates: bool) -> None:
    broker = waiting(tmp_path, "orders", 12, HALF, auto_create_topic_enable=creates)
    again = without_topic(broker, "orders", is_copy=True)
    assert commit(again).code == OK
    assert again.parts.topics.get("orders") == TopicConfig("orders", 13, 13, 6)
    assert [message.body for message in again.messages("orders", 12)] == [b"late"]
    again.stop()


def commit(broker: WholeBroker) -> RemotingCommand:
    *_, half = broker.messages(HALF_TOPIC)
    header = EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.commit_log_offset,
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        msg_id="half",
    )
    return broker.ask(broker.connect(), RequestCode.END_TRANSACTION, header)


@pytest.mark.parametrize("properties", [DELAYED, TIMED], ids=["delayed", "timed"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_delivery_does_not_make_a_topic_that_was_deleted(
    tmp_path: Path, properties: dict[str, str], is_restarted: bool
) -> None:
    broker = waiting(tmp_path, "orders", 2, properties)
    delete(broker, "orders")
    if is_restarted:
        broker = broker.restart()
    broker.wait(3)
    assert len(broker.messages("orders", 2)) == 1
    assert broker.parts.topics.get("orders") is None
    broker.stop()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_timer_message_that_is_stored_again_does_not_make_a_topic_that_was_deleted(
    tmp_path: Path, is_restarted: bool
) -> None:
    broker = waiting(tmp_path, "orders", 2, {"TIMER_DELAY_MS": "25000"}, timer_roll_window_slot=10)
    broker.wait(1)
    delete(broker, "orders")
    if is_restarted:
        broker.wait(15)
        broker = broker.restart()
    broker.wait(60)
    assert len(broker.messages("orders", 2)) == 1
    assert broker.parts.topics.get("orders") is None
    broker.stop()


def test_a_timer_message_that_is_stored_again_makes_a_topic_that_was_deleted_before_it(tmp_path: Path) -> None:
    broker = waiting(tmp_path, "orders", 2, {"TIMER_DELAY_MS": "25000"}, timer_roll_window_slot=10)
    delete(broker, "orders")
    broker.parts.topics.ensure("orders", 16, 6)
    assert broker.send(broker.connect(), "orders", queue_id=3, properties={"TIMER_DELAY_MS": "25000"}).code == OK
    again = without_topic(broker, "orders", is_copy=True)
    again.wait(60)
    assert again.parts.topics.get("orders") == TopicConfig("orders", 8, 8, 6)
    again.stop()


def test_a_commit_of_a_resumed_half_message_does_not_make_a_topic_that_was_deleted(tmp_path: Path) -> None:
    broker = waiting(tmp_path, "orders", 2, HALF, auto_create_topic_enable=False)
    [half] = broker.messages(HALF_TOPIC)
    told: list[Reply] = []
    interventions = broker.parts.transactions.interventions
    interventions.settle(half, Event.DISCARD, ("operator", "test"), told.append, "lost")
    broker.wait(1)
    delete(broker, "orders")
    [given_up] = broker.messages(CHECK_MAX_TOPIC)
    interventions.resume(given_up, told.append)
    broker.wait(1)
    assert [reply.code for reply in told] == [OK, OK]
    assert commit(broker).code == NO_TOPIC
    assert broker.parts.topics.get("orders") is None
    broker.stop()


def delete(broker: WholeBroker, topic: str) -> None:
    """Delete a topic as an operator does."""
    header = DeleteTopicRequest(topic=topic)
    assert broker.ask(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, header).code == OK
