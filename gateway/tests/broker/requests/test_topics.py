"""Topics made, changed, deleted and listed by requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import Failed
from gateway.metadata.topics import Topics
from gateway.tests.broker.requests.small_broker import SmallBroker
from wire.bodies.topics import CreateTopicList, TopicConfig, TopicConfigTable, TopicList
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.topics import CreateTopicRequest


def create(broker: SmallBroker, topic: str, **changed: Any) -> RemotingCommand:
    fields: dict[str, Any] = {
        "default_topic": "TBW102",
        "read_queue_nums": 4,
        "write_queue_nums": 4,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        **changed,
    }
    return broker.connect().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicRequest(topic=topic, **fields))


def test_a_created_topic_is_on_disk_when_the_answer_comes(broker: SmallBroker) -> None:
    held: list[Any] = []
    broker.in_thread = lambda work, done: held.append((work, done))
    fields = {
        "topic": "t",
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }
    peer = broker.connect()
    assert peer.ask_all(RequestCode.UPDATE_AND_CREATE_TOPIC, fields=fields) == []
    ((work, done),) = held
    work()
    done(None)
    broker.server.reactor.advance(0)
    (answer,) = peer.received()
    assert answer.code == ResponseCode.SUCCESS
    again = Topics(path=broker.topics.path, settings=broker.settings, clock_ms=broker.clock)
    again.load()
    assert again.get("t") == TopicConfig("t", 4, 4, 6)


def test_a_topic_that_cannot_be_written_is_an_error(broker: SmallBroker) -> None:
    broker.in_thread = lambda work, done: done(Failed(OSError(28, "No space left on device")))
    answer = create(broker, "t")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "No space left on device" in answer.remark
    assert broker.topics.dirty


def test_a_topic_is_changed_and_its_attributes_are_kept(broker: SmallBroker) -> None:
    create(broker, "t", attributes="+message.type=FIFO", order=True)
    create(broker, "t", perm=4, write_queue_nums=2)
    assert broker.topics.get("t") == TopicConfig("t", 4, 2, 4, attributes={"message.type": "FIFO"})


@pytest.mark.parametrize(
    ("topic", "changed", "reason"),
    [
        ("../../x", {}, "illegal characters"),
        ("t" * 128, {}, "128 characters"),
        ("", {}, "blank"),
        ("TBW102", {}, "system topic"),
        ("broker-a", {}, "system topic"),
        ("rmq_sys_x", {}, "system topic"),
        ("t", {"read_queue_nums": -1}, "readQueueNums is -1"),
        ("t", {"write_queue_nums": 100_000}, "writeQueueNums is 100000"),
        ("t", {"perm": 8}, "perm is 8"),
        ("t", {"topic_filter_type": "NO_TAG"}, "topicFilterType"),
        ("t", {"attributes": "+cleanup.policy=COMPACTION"}, "does not compact"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_reason(
    broker: SmallBroker, topic: str, changed: dict[str, Any], reason: str
) -> None:
    before = dict(broker.topics.table())
    answer = create(broker, topic, **changed)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark is not None
    assert reason in answer.remark
    assert broker.topics.table() == before


def test_a_list_of_topics_is_made_whole_or_not_at_all(broker: SmallBroker) -> None:
    good, bad = TopicConfig("good"), TopicConfig("bad/name")
    peer = broker.connect()
    for configs in ([good, bad], []):
        answer = peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=CreateTopicList(configs).build())
        assert answer.code == ResponseCode.INVALID_PARAMETER
    assert broker.topics.get("good") is None
    answer = peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=CreateTopicList([good]).build())
    assert answer.code == ResponseCode.SUCCESS
    assert broker.topics.get("good") == good


def test_a_deleted_topic_takes_its_messages_and_offsets_along(broker: SmallBroker) -> None:
    create(broker, "t")
    broker.stand_in.put("t", 0, 100)
    broker.offsets.commit("g", "t", 0, 1)
    peer = broker.connect()
    assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": "t"}).code == ResponseCode.SUCCESS
    assert broker.topics.get("t") is None
    assert broker.stand_in.kept == {}
    assert broker.offsets.query("g", "t", 0) == -1
    assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": "t"}).code == ResponseCode.SUCCESS


def test_the_deletion_of_a_topic_that_does_not_exist_writes_no_offsets(broker: SmallBroker) -> None:
    """Any client may ask for it, beside commits that change the table all the time."""
    broker.offsets.commit("g", "t", 0, 1)
    peer = broker.connect()
    versions: list[int] = []
    for topic in ("missing", "missing", "t"):
        if topic == "t":
            create(broker, "t")
        broker.offsets.commit("other", "other", 0, len(versions))
        assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": topic}).code == ResponseCode.SUCCESS
        versions.append(broker.offsets.data_version.counter)
    assert versions == [0, 0, 1], "one more with each write"
    assert not broker.offsets.dirty


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRANS_OP_HALF_TOPIC", "TBW102", "", "../../x"])
def test_system_topics_and_illegal_names_are_not_deleted(broker: SmallBroker, topic: str) -> None:
    before = dict(broker.topics.table())
    answer = broker.connect().ask(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": topic})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert broker.topics.table() == before


def test_all_topics_are_listed_whole_or_by_the_page(broker: SmallBroker) -> None:
    peer = broker.connect()
    answer = peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    table = TopicConfigTable.parse(answer.body)
    assert table.configs == broker.topics.table()
    assert table.data_version == broker.topics.data_version
    pages: dict[str, TopicConfig] = {}
    for first in range(0, 100, 5):
        asker = broker.connect()
        answer = asker.ask(RequestCode.GET_ALL_TOPIC_CONFIG, fields={"topicSeq": str(first), "maxTopicNum": "5"})
        assert answer.ext_fields["totalTopicNum"] == str(len(table.configs))
        pages.update(TopicConfigTable.parse(answer.body).configs)
    assert pages == table.configs


def test_one_topic_is_shown_or_said_to_be_missing(broker: SmallBroker) -> None:
    peer = broker.connect()
    create(broker, "t")
    shown = peer.ask(RequestCode.GET_TOPIC_CONFIG, fields={"topic": "t"})
    assert TopicConfig.parse(shown.body) == broker.topics.get("t")
    missing = peer.ask(RequestCode.GET_TOPIC_CONFIG, fields={"topic": "u"})
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_system_topics_are_listed_without_those_of_users(broker: SmallBroker) -> None:
    create(broker, "t")
    answer = broker.connect().ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    listed = set(TopicList.parse(answer.body).topic_list)
    assert listed == set(broker.topics.table()) - {"t"}


def test_topics_are_not_lost_when_the_broker_ends_without_a_word(broker: SmallBroker, tmp_path: Path) -> None:
    create(broker, "t")
    after = SmallBroker(tmp_path)
    after.topics.load()
    assert after.topics.get("t") is not None


def test_attributes_in_a_list_of_topics_are_changes_too(broker: SmallBroker) -> None:
    create(broker, "old", attributes="+reserve.time=5")
    wanted = [
        TopicConfig("new", 4, 4, 6, attributes={"+message.type": "DELAY"}),
        TopicConfig("old", 4, 4, 6, attributes={"+message.type": "FIFO"}),
    ]
    body = CreateTopicList(wanted).build()
    answer = broker.connect().ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
    assert answer.code == ResponseCode.SUCCESS
    table = broker.topics.table()
    assert table["new"].attributes == {"message.type": "DELAY"}
    assert table["old"].attributes == {"reserve.time": "5", "message.type": "FIFO"}
