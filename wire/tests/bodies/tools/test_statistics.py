from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.tools.statistics import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumerOffsetTable,
    ConsumeStats,
    ConsumeStatsList,
    CorrectionOffsets,
    GroupList,
    MessageQueue,
    OffsetWrapper,
    QueueOffset,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    TopicOffset,
    TopicStatsTable,
)
from wire.bodies.topics import DataVersion
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, doubles, int32s, longs, texts
from wire.tests.message.strategies import QUICK

QUEUE = MessageQueue("t", "b", 0)
QUEUE_TEXT = '{"brokerName":"b","queueId":0,"topic":"t"}'
message_queues = st.builds(MessageQueue, texts, texts, int32s)


def test_statistics_of_a_topic_are_by_queue_as_java_writes_them() -> None:
    body = TopicStatsTable({QUEUE: TopicOffset(1, 9, 1_700_000_000_000)}, 2.5)
    assert body.build().decode() == (
        '{"offsetTable":{' + QUEUE_TEXT + ':{"lastUpdateTimestamp":1700000000000,"maxOffset":9,"minOffset":1}},'
        '"topicPutTps":2.5}'
    )


@pytest.mark.parametrize("key", [QUEUE_TEXT, '"' + QUEUE_TEXT.replace('"', '\\"') + '"'])
def test_offsets_by_queue_are_read_in_both_forms(key: str) -> None:
    assert ResetOffsetBody.parse('{"offsetTable":{' + key + ":5}}") == ResetOffsetBody({QUEUE: 5})


@QUICK
@given(st.dictionaries(message_queues, st.tuples(longs, longs, longs, longs), max_size=3), doubles)
def test_tables_by_queue_come_back(table: dict[MessageQueue, tuple[int, int, int, int]], rate: float) -> None:
    stats = ConsumeStats({queue: OffsetWrapper(*values) for queue, values in table.items()}, rate)
    assert_comes_back(stats)
    assert_comes_back(TopicStatsTable({queue: TopicOffset(*values[:3]) for queue, values in table.items()}, rate))
    assert_comes_back(ResetOffsetBody({queue: values[0] for queue, values in table.items()}))
    assert_comes_back(ConsumeStatsList("a:1", ({"g": (stats,)},), 5, 6))


@QUICK
@given(st.dictionaries(texts, st.dictionaries(int32s, longs, max_size=3), max_size=3))
def test_offsets_of_groups_come_back(table: dict[str, dict[int, int]]) -> None:
    assert_comes_back(ConsumerOffsetTable(table, DataVersion(1, 2, 3)))


def test_offsets_for_clients_that_read_lists() -> None:
    body = ResetOffsetBodyForC((QueueOffset("t", "b", 0, 5),))
    assert body.build() == b'{"offsetTable":[{"brokerName":"b","offset":5,"queueId":0,"topic":"t"}]}'
    assert_comes_back(body)


def test_small_tables_come_back() -> None:
    assert_comes_back(GroupList(("g1", "g2")))
    assert_comes_back(CorrectionOffsets({0: 5, 3: 7}))
    assert_comes_back(BrokerStatsData(stats_day=BrokerStatsItem(5, 1.5, 0.5)))


@pytest.mark.parametrize(
    "text", ['{"offsetTable":{"key":5}}', '{"offsetTable":{' + QUEUE_TEXT + ':"far"}}', '{"offsetTable":[]}']
)
def test_a_damaged_table_is_refused(text: str) -> None:
    with pytest.raises(BodyError):
        ResetOffsetBody.parse(text)
