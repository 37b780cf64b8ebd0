from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.topics import (
    CreateTopicList,
    DataVersion,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicQueueMapping,
)
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, data_versions, int32s, texts
from wire.tests.message.strategies import QUICK

configs = st.builds(
    TopicConfig,
    topic_name=texts,
    read_queue_nums=int32s,
    write_queue_nums=int32s,
    perm=int32s,
    topic_sys_flag=int32s,
    order=st.booleans(),
    attributes=st.dictionaries(texts, texts, max_size=2),
)


def test_a_new_topic_is_written_with_upstreams_defaults() -> None:
    assert TopicConfig("t").build() == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"t","topicSysFlag":0,"writeQueueNums":16}'
    )


def test_a_topic_of_4_9_is_read() -> None:
    text = (
        '{"order":true,"perm":4,"readQueueNums":8,"topicFilterType":"MULTI_TAG","topicName":"t","topicSysFlag":1,'
        '"writeQueueNums":2}'
    )
    assert TopicConfig.parse(text) == TopicConfig("t", 8, 2, 4, "MULTI_TAG", 1, True)


def test_the_filter_type_may_be_a_number() -> None:
    assert TopicConfig.parse('{"topicName":"t","topicFilterType":1}').topic_filter_type == "MULTI_TAG"


def test_members_of_later_versions_survive() -> None:
    config = TopicConfig.parse('{"topicName":"t","later":1}')
    assert config.extra == {"later": 1}
    assert_comes_back(config)


@QUICK
@given(configs, data_versions)
def test_topics_and_their_tables_come_back(config: TopicConfig, version: DataVersion) -> None:
    assert_comes_back(config)
    assert_comes_back(version)
    assert_comes_back(TopicConfigTable({config.topic_name: config}, version))
    assert_comes_back(CreateTopicList((config,)))


def test_a_data_version_of_4_9_has_no_state() -> None:
    assert DataVersion.parse('{"counter":3,"timestamp":1700000000000}') == DataVersion(3, 1_700_000_000_000, 0)


def test_lists_of_topics_come_back() -> None:
    assert TopicList(["b", "a"]).build() == b'{"topicList":["b","a"]}'
    assert_comes_back(TopicList(("a",), "127.0.0.1:10911"))


def test_static_topics_are_read() -> None:
    text = '{"bname":"b","currIdMap":{0:1},"dirty":false,"epoch":5,"scope":"__global__","topic":"t","totalQueues":8}'
    mapping = TopicQueueMapping.parse(text)
    assert mapping == TopicQueueMapping("t", "b", "__global__", 8, 5, False, {0: 1})


@pytest.mark.parametrize("text", ["{}", '{"topicName":"t","perm":"rw"}', '{"topicName":"t","attributes":[]}'])
def test_a_damaged_topic_is_refused(text: str) -> None:
    with pytest.raises(BodyError):
        TopicConfig.parse(text)
