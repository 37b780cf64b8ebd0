"""Offsets as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client.message_queue import MessageQueue
from gateway.spark.errors import CheckpointRefused, OptionRefused
from gateway.spark.offsets import Checkpoint, Life, offsets_to_json, parse_assignment, parse_offsets

NAMES = st.text("abc-%_", min_size=1, max_size=5)
QUEUES = st.builds(MessageQueue, NAMES, NAMES, st.integers(0, 20))
LIVES = st.dictionaries(QUEUES, st.builds(Life, st.integers(0, 2**63 - 1), st.integers(-1, 2**63 - 1)), max_size=8)
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 2**63 - 1), max_size=8)


@given(OFFSETS, st.dictionaries(NAMES, NAMES), st.none() | OFFSETS, OFFSETS, OFFSETS, LIVES)
def test_a_checkpoint_is_read_as_it_was_written(
    offsets: dict[MessageQueue, int],
    stores: dict[str, str],
    base: dict[MessageQueue, int] | None,
    away: dict[MessageQueue, int],
    more: dict[MessageQueue, int],
    lives: dict[MessageQueue, Life],
) -> None:
    checkpoint = Checkpoint(offsets=offsets, stores=stores, base=base, away=away, more=more, lives=lives)
    assert Checkpoint.parse(json.loads(json.dumps(checkpoint.to_json()))) == checkpoint


@given(st.lists(st.tuples(QUEUES, st.integers(0, 99)), max_size=8, unique_by=lambda entry: entry[0]))
def test_the_text_does_not_depend_on_the_order_in_which_queues_were_found(
    entries: list[tuple[MessageQueue, int]],
) -> None:
    there, back = (json.dumps(Checkpoint(offsets=dict(order)).to_json()) for order in (entries, entries[::-1]))
    assert there == back == json.dumps(json.loads(there), sort_keys=True)


def test_a_checkpoint_looks_as_documented() -> None:
    queue = MessageQueue("t", "broker-a", 0)
    text = json.dumps(Checkpoint(offsets={queue: 6}, stores={"broker-a": "s1"}, base={queue: 2}).to_json())
    assert text.replace(" ", "") == (
        '{"base":{"t":{"broker-a":{"0":2}}},"e":{"broker-a":"s1"},"q":{"t":{"broker-a":{"0":6}}},"v":2}'
    )
    assert Checkpoint(offsets={queue: 6}).to_json().keys() == {"e", "q", "v"}
    text = json.dumps(Checkpoint(offsets={}, away={queue: 6}, more={queue: 9}).to_json())
    assert text.replace(" ", "") == (
        '{"away":{"t":{"broker-a":{"0":6}}},"e":{},"more":{"t":{"broker-a":{"0":9}}},"q":{},"v":2}'
    )
    text = json.dumps(Checkpoint(offsets={queue: 6}, lives={queue: Life(2, 1_750_000_000_000)}).to_json())
    assert text.replace(" ", "") == (
        '{"e":{},"lives":{"t":{"broker-a":{"0":[2,1750000000000]}}},"q":{"t":{"broker-a":{"0":6}}},"v":2}'
    )


@pytest.mark.parametrize(
    ("before", "now", "is_other"),
    [
        (Life(0, 100), Life(0, 100), False),
        (Life(0, 100), Life(0, 900), True),
        (Life(0, 900), Life(0, 100), True),  # the clock was set back
        (Life(0, 100), Life(7, 300), False),  # retention
        (Life(7, 300), Life(7, 900), True),
        (Life(7, 300), Life(0, 900), True),
        (Life(7, -1), Life(7, 900), False),  # all had been taken, and one came
        (Life(7, -1), Life(0, 900), True),
        (Life(0, 100), Life(7, -1), False),
        (Life(0, 100), Life(0, -1), False),  # it ends before the offset that was read, which tells enough
        (Life(0, -1), Life(0, 100), False),
    ],
)
def test_another_first_message_at_an_offset_no_later_is_another_life(before: Life, now: Life, is_other: bool) -> None:
    assert now.is_other_than(before) == is_other


def test_a_checkpoint_of_version_1_is_read() -> None:
    queue = MessageQueue("t", "broker-a", 0)
    old = Checkpoint.parse({"e": {"broker-a": "s1"}, "q": {"t": {"broker-a": {"0": 6}}}, "v": 1})
    assert old == Checkpoint(offsets={queue: 6}, stores={"broker-a": "s1"}, more=None)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"v": 3, "q": {}},
        {"v": 2, "q": {}, "away": 5},
        {"v": 2, "q": {}, "lives": 5},
        {"v": 2, "q": {}, "lives": {"t": {"b": {"0": 5}}}},
        {"v": 2, "q": {}, "lives": {"t": {"b": {"0": [5]}}}},
        {"v": 2, "q": {}, "lives": {"t": {"b": {"0": [-1, 5]}}}},
        {"v": 1},
        {"v": 1, "q": []},
        {"v": 1, "q": {"t": {"b": {"x": 1}}}},
        {"v": 1, "q": {}, "e": 3},
    ]
    + [{"v": 1, "q": {"t": {"b": {"0": number}}}} for number in (-1, 1.0, True, "1", None)],
)
def test_what_is_not_our_checkpoint_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(CheckpointRefused, match="checkpoint"):
        Checkpoint.parse(document)


def test_offsets_of_an_option_may_be_earliest_and_latest() -> None:
    found = parse_offsets("startingOffsets", '{"t":{"broker-a":{"0":23,"1":-1,"2":-2}}}')
    assert found == {MessageQueue("t", "broker-a", queue_id): number for queue_id, number in enumerate((23, -1, -2))}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ('{"t":{"b":[1]}}', "not an object"),
        ('{"t":{"b":{"0":-3}}}', "-3 is no whole number from -2"),
        ('{"t":{"b":{"0":1.5}}}', "1.5 is no whole number"),
        ('{"t":{"b":{"0":"1"}}}', "'1' is no whole number"),
        ('{"t":{"b":{"zero":1}}}', "'zero' is no queue number"),
        ('{"t":{"b":{"0":1,"0":2}}}', "'0' is there twice"),
    ],
)
def test_offsets_that_cannot_be_read_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(OptionRefused, match="startingOffsets: ") as caught:
        parse_offsets("startingOffsets", text)
    assert reason in str(caught.value)
    assert '{"topic":{"broker"' in str(caught.value)


def test_queues_are_assigned_by_number() -> None:
    assert parse_assignment("assign", '{"t":{"b":[1,0]},"s":{"b":[2]}}') == (
        MessageQueue("s", "b", 2),
        MessageQueue("t", "b", 0),
        MessageQueue("t", "b", 1),
    )


@pytest.mark.parametrize(
    "text", ["x", '{"t":[0]}', '{"t":{"b":0}}', '{"t":{"b":[-1]}}', '{"t":{"b":["0"]}}', "{}", "[]"]
)
def test_an_assignment_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(OptionRefused, match="assign"):
        parse_assignment("assign", text)


def test_an_order_of_queues_is_an_order_of_texts() -> None:
    offsets = {MessageQueue("t", "b", number): number for number in (10, 9, 2)}
    assert list(offsets_to_json(offsets)["t"]["b"]) == ["10", "2", "9"]
