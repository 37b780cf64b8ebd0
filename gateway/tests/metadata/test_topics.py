"""The topic table and topics.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import GatewayError, RequestRefused
from gateway.metadata.topics import Topics
from gateway.settings import BrokerSettings
from wire.bodies.fastjson import parse_json
from wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from wire.codes import ResponseCode
from wire.errors import LayoutError
from wire.message.flags import Permission

Open = Callable[..., Topics]


@pytest.fixture
def open_topics(tmp_path: Path) -> Open:
    """Opens the table of one directory, as often as the test restarts the broker."""

    def open_with(*, max_topics: int = 1000, **changed: object) -> Topics:
        broker = BrokerSettings(broker_name="broker-a", **changed)  # type: ignore[arg-type]
        topics = Topics(
            path=tmp_path / "config" / "topics.json",
            settings=broker,
            clock_ms=lambda: 1_000,
            max_topics=max_topics,
        )
        topics.load()
        return topics

    return open_with


def test_a_created_topic_is_there_after_a_restart(open_topics: Open) -> None:
    config = TopicConfig("t", 8, 4, 6, order=True, attributes={"message.type": "FIFO"})
    assert open_topics().put(config)
    assert open_topics().get("t") == config


def test_each_change_bumps_the_version_and_is_told_and_the_same_again_is_no_change(open_topics: Open) -> None:
    topics = open_topics()
    told: list[int] = []
    topics.on_change(lambda: told.append(topics.data_version.counter))
    assert topics.put(TopicConfig("t"))
    assert not topics.put(TopicConfig("t"))
    assert topics.put(TopicConfig("t", perm=4))
    assert topics.delete("t")
    assert not topics.delete("t")
    assert told == [1, 2, 3]
    assert open_topics().data_version == topics.data_version


def test_the_system_topics_are_those_that_apache_makes(open_topics: Open) -> None:
    topics = open_topics()
    topics.create_system_topics()
    made = {name: (config.read_queue_nums, config.perm) for name, config in topics.table().items()}
    assert made == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
        "rmq_sys_wheel_timer": (1, 6),
    }


def test_system_topics_are_made_in_a_full_table_so_that_the_broker_starts(open_topics: Open) -> None:
    topics = open_topics(max_topics=1)
    topics.put(TopicConfig("t"))
    topics.create_system_topics()
    assert topics.get("t") is not None
    assert topics.get("SCHEDULE_TOPIC_XXXX") is not None
    version = topics.data_version
    topics.create_system_topics()
    assert topics.data_version == version


def test_switches_decide_about_the_default_the_trace_and_the_cluster_topic(open_topics: Open) -> None:
    topics = open_topics(
        auto_create_topic_enable=False,
        trace_topic_enable=True,
        cluster_topic_enable=False,
        broker_topic_enable=False,
    )
    topics.create_system_topics()
    table = topics.table()
    assert "TBW102" not in table
    assert table["RMQ_SYS_TRACE_TOPIC"].perm == 6
    assert (table["DefaultCluster"].perm, table["broker-a"].perm) == (1, 1)


def test_a_system_topic_that_exists_stays_as_it_is(open_topics: Open) -> None:
    topics = open_topics()
    mine = TopicConfig("TBW102", 2, 2, 7)
    topics.put(mine)
    topics.create_system_topics()
    assert open_topics().get("TBW102") == mine


@pytest.mark.parametrize(
    "topic",
    [
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "TBW102",
        "DefaultCluster",
        "broker-a",
        "DefaultCluster_REPLY_TOPIC",
        "rmq_sys_anything",
        "RMQ_SYS_TRACE_TOPIC",
    ],
)
def test_a_system_topic_cannot_be_deleted(open_topics: Open, topic: str) -> None:
    topics = open_topics()
    topics.create_system_topics()
    with pytest.raises(RequestRefused, match="system topic") as refused:
        topics.delete(topic)
    assert refused.value.code is ResponseCode.INVALID_PARAMETER


def test_a_first_send_creates_the_topic_like_the_default_topic(open_topics: Open) -> None:
    topics = open_topics()
    topics.create_system_topics()
    made = topics.create_from_default("orders", "TBW102", 4, 1)
    assert made == TopicConfig("orders", 4, 4, Permission.READ_WRITE, topic_sys_flag=1)
    assert topics.create_from_default("orders", "TBW102", 8, 0) == made


def test_a_producer_gets_at_most_the_queues_of_the_default_topic(open_topics: Open) -> None:
    topics = open_topics()
    topics.create_system_topics()
    made = topics.create_from_default("orders", "TBW102", 500, 0)
    assert made is not None
    assert made.write_queue_nums == 8


@pytest.mark.parametrize("default_topic", ["TBW102", "SELF_TEST_TOPIC", "nothing"])
def test_without_leave_no_topic_is_created(open_topics: Open, default_topic: str) -> None:
    open_topics().create_system_topics()
    topics = open_topics(auto_create_topic_enable=False)
    assert topics.get("TBW102") is not None
    assert topics.create_from_default("orders", default_topic, 4, 0) is None
    assert topics.get("orders") is None


def test_queues_found_in_the_store_bring_their_topic_back(open_topics: Open) -> None:
    topics = open_topics()
    for topic, found in (("orders", 12), ("%RETRY%mail", 1), ("%DLQ%mail", 2)):
        topics.adopt(topic, found)
        assert open_topics().get(topic) == TopicConfig(topic, found, found, 6)


def test_restored_topics_have_the_queues_that_their_producers_know_of(open_topics: Open) -> None:
    topics = open_topics(default_topic_queue_nums=6)
    assert topics.adopt("orders", 1) == TopicConfig("orders", 6, 6, 6)


def test_queues_of_a_topic_that_exists_change_nothing(open_topics: Open) -> None:
    topics = open_topics()
    topics.put(TopicConfig("orders", 2, 2))
    assert topics.adopt("orders", 4) == TopicConfig("orders", 2, 2)


def test_a_directory_that_is_no_topic_is_left_alone(open_topics: Open) -> None:
    topics = open_topics()
    assert topics.adopt("lost+found", 1) is None
    assert topics.adopt("fine", 0) is None
    assert topics.table() == {}


def test_the_limit_of_topics_holds_and_nothing_of_a_too_large_list_is_made(open_topics: Open) -> None:
    topics = open_topics(max_topics=2)
    topics.put(TopicConfig("a"))
    with pytest.raises(RequestRefused, match="2 topics, the limit"):
        topics.put_all([TopicConfig("b"), TopicConfig("c")])
    assert set(topics.table()) == {"a"}
    topics.put_all([TopicConfig("a", perm=4), TopicConfig("b")])
    assert set(topics.table()) == {"a", "b"}


def test_a_greedy_host_is_refused_while_others_and_operators_make_topics(open_topics: Open) -> None:
    topics = open_topics(max_topics=100)
    topics.put(TopicConfig("TBW102", 8, 8, 7))
    for number in range(75):
        topics.create_from_default(f"t{number}", "TBW102", 4, 0, "192.0.2.1")
    with pytest.raises(RequestRefused, match=r"topics made automatically for 192\.0\.2\.1: 75, of all: 76"):
        topics.create_from_default("more", "TBW102", 4, 0, "192.0.2.1")
    with pytest.raises(RequestRefused):
        topics.ensure("%RETRY%more", 1, 6, maker="192.0.2.1")
    assert topics.create_from_default("more", "TBW102", 4, 0, "192.0.2.2") is not None
    topics.put_all([TopicConfig(f"by an operator {number}") for number in range(23)])
    with pytest.raises(RequestRefused, match="100 topics, the limit"):
        topics.put(TopicConfig("one more"))
    topics.delete("t0")
    topics.delete("t1")
    topics.put(TopicConfig("one more"))


def test_topics_of_the_file_count(open_topics: Open) -> None:
    saved = open_topics()
    saved.put_all([TopicConfig("a"), TopicConfig("b")])
    saved.persist_now()
    topics = open_topics(max_topics=2)
    topics.load()
    with pytest.raises(RequestRefused):
        topics.put(TopicConfig("c"))
    topics.delete("a")
    topics.put(TopicConfig("c"))


APACHE_FILE = """{
	"dataVersion":{
		"counter":9,
		"stateVersion":3,
		"timestamp":1700000000000
	},
	"mappingVersion":"later",
	"topicConfigTable":{
		"orders":{
			"attributes":{},
			"multiTypeTopic":false,
			"order":false,
			"perm":6,
			"readQueueNums":4,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"orders",
			"topicSysFlag":0,
			"writeQueueNums":4
		}
	}
}"""


def test_a_file_of_apache_is_read_and_what_we_do_not_know_survives_a_change(open_topics: Open, tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    path.parent.mkdir()
    path.write_text(APACHE_FILE)
    topics = open_topics()
    topics.put(TopicConfig("orders", 8, 8))
    topics.put(TopicConfig("more"))
    written = parse_json(path.read_bytes())
    assert written["mappingVersion"] == "later"
    assert written["topicConfigTable"]["orders"]["multiTypeTopic"] is False
    assert written["topicConfigTable"]["orders"]["readQueueNums"] == 8
    assert written["dataVersion"] == {"counter": 11, "stateVersion": 3, "timestamp": 1000}


def test_an_unreadable_file_stops_the_start(open_topics: Open, tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    path.parent.mkdir()
    path.write_text('{"topicConfigTable": 7}')
    with pytest.raises(GatewayError, match=r"topics\.json"):
        open_topics()


@pytest.mark.parametrize("count", ["readQueueNums", "writeQueueNums"])
def test_a_file_with_more_queues_than_a_topic_may_have_stops_the_start(
    open_topics: Open, tmp_path: Path, count: str
) -> None:
    path = tmp_path / "config" / "topics.json"
    path.parent.mkdir()
    path.write_text(f'{{"topicConfigTable":{{"vast":{{"topicName":"vast","{count}":65537}}}}}}')
    with pytest.raises(GatewayError, match=rf"topics\.json.*'vast'.*{count} is 65537, the limit is 65536"):
        open_topics()


NAMES = st.text("abcXYZ019%_-|", min_size=1, max_size=20)
CONFIGS = st.builds(
    TopicConfig,
    topic_name=NAMES,
    read_queue_nums=st.integers(0, 2000),
    write_queue_nums=st.integers(0, 2000),
    perm=st.integers(0, 7),
    topic_filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    topic_sys_flag=st.integers(0, 3),
    order=st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.lists(CONFIGS, max_size=5))
def test_whatever_table_is_written_is_read_again(open_topics: Open, configs: list[TopicConfig]) -> None:
    topics = open_topics()
    for name in list(topics.table()):
        topics.delete(name)
    topics.put_all(configs)
    assert open_topics().table() == topics.table()


def test_a_topic_that_is_made_for_something_else_has_no_more_queues_than_a_topic_may(open_topics: Open) -> None:
    topics = open_topics()
    assert topics.ensure("%RETRY%vast", 2**31 - 1, 6).read_queue_nums == 65_536
    assert open_topics().table()["%RETRY%vast"].write_queue_nums == 65_536


def test_a_slaves_topics_are_the_masters_with_their_version_or_stay_as_they_are(
    open_topics: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.metadata.named_configs.MAX_FOLLOWED", 2)
    topics = open_topics(max_topics=2)
    topics.put_all([TopicConfig("old", perm=4), TopicConfig("both", perm=4)])
    version = DataVersion(counter=7, timestamp=5, state_version=2)
    assert topics.follow(TopicConfigTable({"both": TopicConfig("both"), "new": TopicConfig("new")}, version)) == ["old"]
    assert (dict(topics.table()), topics.data_version) == (
        {"both": TopicConfig("both"), "new": TopicConfig("new")},
        version,
    )
    later = DataVersion(counter=8, timestamp=6)
    with pytest.raises(RequestRefused, match="the master has 3 topics, a slave takes 2 at most"):
        topics.follow(TopicConfigTable({name: TopicConfig(name) for name in "abc"}, later))
    with pytest.raises(LayoutError, match="readQueueNums"):
        topics.follow(TopicConfigTable({"a": TopicConfig("a", read_queue_nums=1 << 30)}, later))
    assert sorted(topics.table()) == ["both", "new"]
    assert open_topics().data_version == version
