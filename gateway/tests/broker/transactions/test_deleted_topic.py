"""A topic that is deleted while half messages for it are pending: a commit never goes where no consumer reads."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.metadata.names import HALF_TOPIC
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.transaction.replies import Reply
from gateway.transaction.states import Event, State
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.topics import DeleteTopicRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.record import parse_records


def with_deleted_topic(directory: Path, *, creates: bool, queue_id: int = 1) -> WholeBroker:
    """A broker with one pending half message, for a topic that is gone."""
    broker = WholeBroker(directory, auto_create_topic_enable=creates)
    broker.parts.topics.ensure("orders", 16, 6)
    peer = broker.connect()
    properties = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "k0"}
    assert broker.send(peer, properties=properties, queue_id=queue_id).code == ResponseCode.SUCCESS
    assert broker.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders")).code == 0
    return broker


def commit(broker: WholeBroker) -> RemotingCommand:
    [half] = broker.messages(HALF_TOPIC)
    header = EndTransactionRequest(
        producer_group="g",
        tran_state_table_offset=0,
        commit_log_offset=half.commit_log_offset,
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        msg_id="k0",
    )
    return broker.ask(broker.connect(), RequestCode.END_TRANSACTION, header)


def test_with_automatic_creation_the_commit_makes_the_topic_again_as_a_send_would(tmp_path: Path) -> None:
    broker = with_deleted_topic(tmp_path, creates=True)
    assert commit(broker).code == ResponseCode.SUCCESS
    config = broker.parts.topics.get("orders")
    assert config is not None
    assert config.read_queue_nums > 1
    assert [message.unique_key for message in broker.messages("orders", 1)] == ["k0"]
    broker.stop()


@pytest.mark.parametrize(("creates", "queue_id"), [(False, 1), (True, 15)], ids=["not allowed", "too few queues"])
def test_else_the_commit_is_refused_and_the_message_waits_for_the_topic(
    tmp_path: Path, creates: bool, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    broker = with_deleted_topic(tmp_path, creates=creates, queue_id=queue_id)
    with caplog.at_level(logging.WARNING, "gateway"):
        answers = [commit(broker) for _ in range(5)]
    assert {answer.code for answer in answers} == {ResponseCode.TOPIC_NOT_EXIST}
    assert "topic[orders]" in (answers[0].remark or "")
    assert [record.message for record in caplog.records] == ["commit refused: its topic does not exist"]
    assert broker.parts.transactions.tables.outcomes.state(0) is State.PENDING
    broker = broker.restart()
    assert broker.parts.topics.get("orders") is None
    broker.parts.topics.ensure("orders", 16, 6)
    assert commit(broker).code == ResponseCode.SUCCESS
    assert [message.unique_key for message in broker.messages("orders", queue_id)] == ["k0"]
    broker.stop()


@pytest.mark.parametrize(
    ("creates", "code"), [(False, ResponseCode.TOPIC_NOT_EXIST), (True, ResponseCode.SYSTEM_BUSY)], ids=str
)
def test_a_topic_that_is_deleted_before_a_commit_is_written_does_not_get_it(
    tmp_path: Path, creates: bool, code: ResponseCode
) -> None:
    broker = with_deleted_topic(tmp_path, creates=creates)
    topics, transactions, replies = broker.parts.topics, broker.parts.transactions, list[Reply]()
    topics.ensure("orders", 16, 6)
    for name in ("first", "second"):
        transactions.settling.ask(broker.messages(HALF_TOPIC)[0], Event.COMMIT, ("test", name), replies.append)
    assert replies == []
    topics._makers._shares.resize(0)
    deleted = broker.ask(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders"))
    assert deleted.code == ResponseCode.SUCCESS
    assert [reply.code for reply in replies] == [code] * 2
    assert transactions.tables.outcomes.state(0) is State.PENDING
    assert broker.messages("orders", 1) == []
    topics._makers._shares.resize(1_000)
    topics.ensure("orders", 16, 6)
    assert commit(broker).code == ResponseCode.SUCCESS
    assert [message.unique_key for message in broker.messages("orders", 1)] == ["k0"]
    broker.stop()


def test_point_7_a_delayed_message_of_a_deleted_topic_waits_in_its_queue_for_the_topic(tmp_path: Path) -> None:
    """As with Apache RocketMQ, which asks for no topic when the delay is over."""
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client, properties={"DELAY": "2"})
    header = DeleteTopicRequest(topic="orders")
    assert broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, header).code == ResponseCode.SUCCESS
    broker.wait(6)
    assert broker.ask(client, RequestCode.PULL_MESSAGE, pulling(0)).code == ResponseCode.TOPIC_NOT_EXIST
    broker.parts.topics.ensure("orders", 4, 6)
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, pulling(0))
    assert [message.body for message in parse_records(answer.body)] == [b"hello"]
