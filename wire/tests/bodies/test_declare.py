from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given

from wire.bodies.declare import MAX_KEPT_DEPTH, Body, Members, Ordinals, Undeclared, field
from wire.bodies.fastjson import build_json
from wire.bodies.message_queue import MessageQueue
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, json_values
from wire.tests.message.strategies import QUICK


class Colour(StrEnum):
    RED = "RED"
    GREEN = "GREEN"


class Inner(Body):
    name: str
    size: int = 1


class Sample(Body):
    topic_name: str
    count: int = 0
    rate: float = 0.0
    order: bool = False
    remark: str | None = None
    tags_set: frozenset[str] = frozenset()
    inner: Inner | None = None
    inners: Sequence[Inner] = ()
    by_queue: Mapping[MessageQueue, int] = field(default_factory=dict)
    by_number: Mapping[int, str] = field(default_factory=dict)
    odd_name: int = field(default=0, name="clientID")
    groups: Annotated[Sequence[str], Members("groupName")] = ()
    colour: Annotated[str, Ordinals(Colour)] = "RED"
    anything: Any = None
    extra: Annotated[Mapping[str, Any], Undeclared(drop=("derived",))] = field(default_factory=dict)


FULL = Sample(
    topic_name="t",
    count=-5,
    rate=1.5,
    order=True,
    remark="r",
    tags_set=frozenset({"b", "a"}),
    inner=Inner("i"),
    inners=(Inner("x", 2), Inner("y", 3)),
    by_queue={MessageQueue("t", "b", 0): 7},
    by_number={0: "zero", 10: "ten"},
    odd_name=9,
    groups=("g1", "g2"),
    colour="GREEN",
    anything={"k": [1, None]},
    extra={"unknown": [1]},
)
FULL_JAVA = (
    b'{"anything":{"k":[1,null]},"byNumber":{0:"zero",10:"ten"},'
    b'"byQueue":{{"brokerName":"b","queueId":0,"topic":"t"}:7},"clientID":9,"colour":"GREEN","count":-5,'
    b'"groups":[{"groupName":"g1"},{"groupName":"g2"}],"inner":{"name":"i","size":1},'
    b'"inners":[{"name":"x","size":2},{"name":"y","size":3}],"order":true,"rate":1.5,"remark":"r",'
    b'"tagsSet":["a","b"],"topicName":"t","unknown":[1]}'
)


def test_a_body_is_written_member_by_member_in_order() -> None:
    assert FULL.build() == FULL_JAVA
    assert_comes_back(FULL)


def test_what_is_left_out_has_its_default_and_none_is_left_out() -> None:
    sparse = Sample.parse('{"topicName":"t","count":null}')
    assert sparse == Sample("t")
    assert b"remark" not in sparse.build()
    assert b"anything" not in sparse.build()
    assert b'"inners":[]' in sparse.build()


@pytest.mark.parametrize("name", ["topicName", "topic_name", "TOPICNAME", "TopicName", "isTopicName"])
def test_names_match_as_fastjson_matches_them(name: str) -> None:
    assert Sample.parse(f'{{"{name}":"t"}}').topic_name == "t"


@pytest.mark.parametrize(
    ("text", "attribute", "expected"),
    [
        ('"count":"12"', "count", 12),
        ('"count":12.0', "count", 12),
        ('"count":true', "count", 1),
        ('"rate":"1.5"', "rate", 1.5),
        ('"rate":2', "rate", 2.0),
        ('"order":"true"', "order", True),
        ('"order":"FALSE"', "order", False),
        ('"order":1', "order", True),
        ('"order":"0"', "order", False),
        ('"remark":5', "remark", "5"),
        ('"remark":true', "remark", "true"),
        ('"remark":1.5', "remark", "1.5"),
        ('"colour":1', "colour", "GREEN"),
        ('"colour":"VIOLET"', "colour", "VIOLET"),
        ('"inners":[null,{"name":"x"}]', "inners", (Inner("x"),)),
        ('"byNumber":{"0":"a","1":null}', "by_number", {0: "a"}),
        ('"groups":[{"groupName":"g"},{}]', "groups", ("g",)),
        ('"derived":1,"kept":2', "extra", {"kept": 2}),
    ],
)
def test_values_are_read_as_leniently_as_fastjson_reads_them(text: str, attribute: str, expected: Any) -> None:
    assert getattr(Sample.parse('{"topicName":"t",' + text + "}"), attribute) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", r"Sample is a JSON object, not \[\]"),
        ("null", "Sample is a JSON object, not None"),
        ("{}", "Sample: topicName is missing"),
        ('{"topicName":null}', "Sample: topicName is missing"),
        ('{"topicName":[]}', r"Sample.topicName: \[\] is not text"),
        ('{"topicName":"t","count":"x"}', "Sample.count: 'x' is not a 64-bit integer"),
        ('{"topicName":"t","count":1.5}', "Sample.count: 1.5 is not"),
        ('{"topicName":"t","count":9223372036854775808}', "64-bit integer"),
        ('{"topicName":"t","count":"%s"}' % ("9" * 5000), "64-bit integer"),
        ('{"topicName":"t","count":{}}', "64-bit integer"),
        ('{"topicName":"t","rate":"fast"}', "not a number"),
        ('{"topicName":"t","rate":[]}', "not a number"),
        ('{"topicName":"t","rate":%s}' % ("9" * 400), "not a number"),
        ('{"topicName":"t","order":2}', "not true or false"),
        ('{"topicName":"t","order":[]}', "not true or false"),
        ('{"topicName":"t","inners":{}}', "not an array"),
        ('{"topicName":"t","inners":[{}]}', "Inner: name is missing"),
        ('{"topicName":"t","inner":5}', "Inner is a JSON object, not 5"),
        ('{"topicName":"t","byNumber":[]}', "not an object"),
        ('{"topicName":"t","byNumber":{"x":"a"}}', "64-bit integer"),
        ('{"topicName":"t","byNumber":{"1":"a","x":"a"}}', r"Sample.byNumber\['x'\]: 'x' is not a 64-bit integer"),
        ('{"topicName":"t","byNumber":{"1":"a","2":[]}}', r"Sample.byNumber\['2'\]: \[\] is not text"),
        ('{"topicName":"t","byQueue":{"x":1}}', "JSON text at character 0"),
        ('{"topicName":"t","byQueue":{"[]":1}}', "MessageQueue is a JSON object"),
        ('{"topicName":"t","groups":["g"]}', "not an array of objects"),
        ('{"topicName":"t","groups":5}', "not an array of objects"),
        ('{"topicName":"t","colour":2}', "not one of RED, GREEN"),
        ('{"topicName":"t","colour":-1}', "not one of RED, GREEN"),
    ],
)
def test_a_member_of_another_kind_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(BodyError, match=reason):
        Sample.parse(text)


@QUICK
@given(json_values)
def test_any_value_is_a_body_or_a_body_error(value: Any) -> None:
    names = ("topicName", "inners", "byQueue", "byNumber", "groups", "count", "inner", "colour")
    for document in (value, *({"topicName": "t", name: value} for name in names)):
        try:
            body = Sample.from_json(document)
        except BodyError:
            continue
        assert body.topic_name is not None


def test_empty_tables_lists_and_sets_and_texts_of_the_default_are_one_object_for_all() -> None:
    """A broker keeps subscriptions, topics and groups by the hundred thousand."""
    one, other = (
        Sample.parse('{"topicName":"t","tagsSet":[],"inners":[],"byNumber":{},"colour":"R' + end)
        for end in ('ED"}',) * 2
    )
    assert one.tags_set is other.tags_set
    assert one.inners is other.inners
    assert one.by_number is other.by_number
    assert one.colour is other.colour
    assert one == Sample("t")
    assert Sample.parse(one.build()) == one


def test_a_type_that_no_body_can_hold_is_found_at_first_use() -> None:
    class Wrong(Body):
        moment: complex = 0j

    with pytest.raises(TypeError, match="cannot hold"):
        Wrong.parse("{}")


@pytest.mark.parametrize("member", ["anything", "unknown"])
def test_what_is_kept_as_it_is_can_be_written_within_others(member: str) -> None:
    def text(depth: int) -> str:
        return f'{{"topicName":"t","{member}":{"[" * depth}{"]" * depth}}}'

    sample = Sample.parse(text(MAX_KEPT_DEPTH))
    assert build_json({"table": {"of": [sample.to_json()]}}, java_form=True)
    with pytest.raises(BodyError, match=rf"Sample\.{member}: [][]+ is not nested at most {MAX_KEPT_DEPTH} deep"):
        Sample.parse(text(MAX_KEPT_DEPTH + 2))
