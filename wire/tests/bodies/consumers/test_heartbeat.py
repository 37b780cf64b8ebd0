from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, HeartbeatData, MessageModel
from wire.bodies.subscriptions import SubscriptionData
from wire.errors import BodyError
from wire.tests.bodies.consumers.test_subscriptions import subscriptions
from wire.tests.bodies.strategies import assert_comes_back, int32s, texts
from wire.tests.bodies.test_fastjson import calls_during
from wire.tests.message.strategies import QUICK

# As fastjson 1.2.83 writes it when two groups share a subscription object.
JAVA_TEXT = (
    b'{"clientID":"192.168.1.2@4711","consumerDataSet":['
    b'{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g1",'
    b'"messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[2598919],'
    b'"expressionType":"TAG","subString":"TagA","subVersion":1700000000000,"tagsSet":["TagA"],"topic":"t"}],'
    b'"unitMode":false},'
    b'{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_ACTIVELY","groupName":"g2",'
    b'"messageModel":"BROADCASTING","subscriptionDataSet":[{"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"}],'
    b'"unitMode":true}],'
    b'"heartbeatFingerprint":17,"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"},{"groupName":"p"}],'
    b'"withoutSub":false}'
)
SUBSCRIPTION = SubscriptionData("t", "TagA", frozenset({"TagA"}), frozenset({2598919}), 1_700_000_000_000)
PARSED = HeartbeatData(
    client_id="192.168.1.2@4711",
    producers=("CLIENT_INNER_PRODUCER", "p"),
    consumers=(
        ConsumerData("g1", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", False, (SUBSCRIPTION,)),
        ConsumerData("g2", "CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_FIRST_OFFSET", True, (SUBSCRIPTION,)),
    ),
    fingerprint=17,
)


def test_a_heartbeat_of_a_java_client_is_read() -> None:
    assert HeartbeatData.parse(JAVA_TEXT) == PARSED


def test_a_heartbeat_without_the_members_of_5_x_is_read() -> None:
    heartbeat = HeartbeatData.parse('{"clientID":"c","consumerDataSet":[],"producerDataSet":[{"groupName":"p"}]}')
    assert heartbeat == HeartbeatData("c", producers=("p",))
    assert heartbeat.fingerprint == 0
    assert not heartbeat.without_sub


def test_enums_may_be_numbers_and_unknown_names_stay() -> None:
    heartbeat = HeartbeatData.parse(
        '{"clientID":"c","consumerDataSet":['
        '{"groupName":"g","consumeType":0,"messageModel":1,"consumeFromWhere":4},'
        '{"groupName":"h","consumeType":"CONSUME_OTHERWISE"}]}'
    )
    first, second = heartbeat.consumers
    assert first.consume_type == ConsumeType.CONSUME_ACTIVELY
    assert first.message_model == MessageModel.CLUSTERING
    assert first.consume_from_where == ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    assert second.consume_type == "CONSUME_OTHERWISE"


consumers = st.builds(
    ConsumerData,
    texts,
    st.sampled_from([kind.value for kind in ConsumeType]),
    st.sampled_from([model.value for model in MessageModel]),
    st.sampled_from([where.value for where in ConsumeFromWhere]),
    st.booleans(),
    st.lists(subscriptions, max_size=3).map(tuple),
)


@QUICK
@given(
    st.builds(
        HeartbeatData,
        texts,
        st.lists(texts, max_size=3).map(tuple),
        st.lists(consumers, max_size=3).map(tuple),
        int32s,
        st.booleans(),
    )
)
def test_heartbeats_come_back(heartbeat: HeartbeatData) -> None:
    assert_comes_back(heartbeat)


@QUICK
@given(st.integers(0, len(JAVA_TEXT)), st.binary(max_size=4), st.integers(0, 8))
def test_a_damaged_heartbeat_is_read_or_a_body_error(at: int, inserted: bytes, removed: int) -> None:
    raw = JAVA_TEXT[:at] + inserted + JAVA_TEXT[at + removed :]
    try:
        heartbeat = HeartbeatData.parse(raw)
    except BodyError:
        return
    assert heartbeat.client_id is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "expected a value"),
        (b"{}", "HeartbeatData: clientID is missing"),
        (b'{"clientID":"c","consumerDataSet":[{}]}', "ConsumerData: groupName is missing"),
        (
            b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}',
            "topic is missing",
        ),
        (b'{"clientID":"c","producerDataSet":["p"]}', "array of objects"),
    ],
)
def test_a_heartbeat_without_its_parts_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(BodyError, match=reason):
        HeartbeatData.parse(text)


@pytest.mark.parametrize("items", ["0123456789", list(range(10))], ids=["tags", "codes"])
def test_tags_and_codes_are_read_together(items: Sequence[object]) -> None:
    """Two MiB have room for a million of them, and nothing else happens while they are read."""

    def calls(count: int) -> int:
        member = {"topic": "t", "tagsSet" if isinstance(items, str) else "codeSet": [*items] * count}
        return calls_during(lambda: SubscriptionData.from_json(member))

    assert calls(100) == calls(1)


def test_a_code_that_is_too_large_is_refused_also_in_a_long_list() -> None:
    with pytest.raises(BodyError, match="is not a 64-bit integer"):
        SubscriptionData.from_json({"topic": "t", "codeSet": [0, 1 << 63, -1]})
