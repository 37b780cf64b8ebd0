"""Requests of operators who need space: queue files of deleted messages, queues without a topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.metadata.names import SCHEDULE_TOPIC
from gateway.tests.broker.upkeep.test_expiry import ask_for_deletion, broker_in, fill, make_old
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.headers.topics import DeleteTopicRequest


def queue_files(directory: Path, topic: str = "orders") -> list[str]:
    return sorted(path.name for path in (directory / "consumequeue" / topic / "0").iterdir())


def test_queue_files_of_deleted_messages_go_and_offsets_go_on(tmp_path: Path) -> None:
    broker = broker_in(tmp_path, mapped_file_size_consume_queue=200)
    fill(broker, 3)
    broker.parts.store.flush()
    many = len(queue_files(tmp_path))
    make_old(tmp_path)
    ask_for_deletion(broker)
    broker.wait(11)
    assert len(queue_files(tmp_path)) < many
    before = broker.parts.store.max_offset("orders", 0)
    answer = broker.ask(broker.connect(), RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert answer.code == ResponseCode.SUCCESS
    assert broker.send(broker.connect()).ext_fields["queueOffset"] == str(before)
    broker.restart().stop()


def test_queues_of_topics_that_do_not_exist_go(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client)
    broker.send(client, "kept")
    broker.parts.store.flush()
    broker.parts.topics.delete("orders")
    answer = broker.ask(client, RequestCode.CLEAN_UNUSED_TOPIC)
    assert answer.code == ResponseCode.SUCCESS
    assert not (tmp_path / "consumequeue" / "orders").exists()
    assert len(broker.messages("kept")) == 1
    assert [path.name for path in (tmp_path / "consumequeue").iterdir()] == ["kept"]


def test_queues_of_the_broker_itself_stay_whatever_the_table_says(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client, properties={"DELAY": "4"})
    broker.parts.topics._table.pop(SCHEDULE_TOPIC)
    assert broker.ask(client, RequestCode.CLEAN_UNUSED_TOPIC).code == ResponseCode.SUCCESS
    assert len(broker.messages(SCHEDULE_TOPIC, 3)) == 1


def test_light_queues_stay_though_they_are_in_no_table(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path, enable_lmq=True, enable_multi_dispatch=True)
    broker.send(broker.connect(), properties={"INNER_MULTI_DISPATCH": "%LMQ%x"})
    for changed in ({}, {"enable_lmq": False}):
        broker.stop()
        broker = WholeBroker(tmp_path, **{"enable_lmq": True, "enable_multi_dispatch": True, **changed})
        assert broker.ask(broker.connect(), RequestCode.CLEAN_UNUSED_TOPIC).code == ResponseCode.SUCCESS
        assert len(broker.messages("%LMQ%x")) == 1


def test_a_deleted_topic_can_be_used_again_at_once(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    for _ in range(3):
        broker.send(client)
    answer = broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders"))
    assert answer.code == ResponseCode.SUCCESS
    assert broker.send(client).ext_fields["queueOffset"] == "0"
    image = broker.crash_image(tmp_path / "after the kill")
    assert len(image.messages("orders")) == 1


def test_a_topic_whose_queues_cannot_be_deleted_is_not_called_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client)

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(broker.parts.store.deletion, "_finish", fails)
    answer = broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "not deleted on disk" in str(answer.remark)
