from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.fastjson import (
    MAX_DEPTH,
    MAX_NUMBER_CHARS,
    MAX_REFERENCED_CHARS,
    MAX_REFERRING_BYTES,
    ObjectKey,
    build_json,
    build_pretty_json,
    object_key,
    parse_json,
)
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.subscriptions import SubscriptionData
from wire.errors import BodyError, LocalError
from wire.tests.bodies.strategies import json_values, texts
from wire.tests.growth import MOST_PER_DOUBLING, growth_per_doubling
from wire.tests.message.strategies import QUICK

QUEUE = '{"brokerName":"b","queueId":0,"topic":"t"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', {"a": 1}),
        ("{0:'a:1',1:\"a:2\"}", {"0": "a:1", "1": "a:2"}),
        ("{-1:2}", {"-1": 2}),
        ("{" + QUEUE + ":5}", {QUEUE: 5}),
        ('{{"topic":"t", queueId:0, \'brokerName\':"b"}:5}', {QUEUE: 5}),
        (
            "{" + QUEUE + ':{"k":[1]},' + QUEUE.replace("0", "1") + ":null}",
            {QUEUE: {"k": [1]}, QUEUE.replace("0", "1"): None},
        ),
        ("{name:true,other_name:false,$x:null}", {"name": True, "other_name": False, "$x": None}),
        ("[1,2,]", [1, 2]),
        ("[,1,,2]", [1, 2]),
        ('{"a":1,}', {"a": 1}),
        ("/* c */{// d\n'a'/**/:/*e*/1}//f", {"a": 1}),
        ("[/*,*//* */,//\n//\n1/***/]", [1]),
        ("\ufeff [ ] ", []),
        ("'it\\'s'", "it's"),
        (r"'\x41B\/\n\t\q'", "AB/\n\tq"),
        (r'{a:"😀"}', {"a": "\U0001f600"}),
        (r'{a:"\ud83d"}', {"a": "\ufffd"}),
        ("[1L,2.5D,.5,1.,-1e2,+7]", [1, 2.5, 0.5, 1.0, -100.0, 7]),
        ("[NaN,undefined,null]", [None, None, None]),
        ("'" + "x" * 1000 + "'", "x" * 1000),
        ("[12345678901234567890123456789012345678901234567890,]", [int("1234567890" * 5)]),
    ],
)
def test_the_reader_takes_what_fastjson_takes(text: str, expected: Any) -> None:
    assert parse_json(text) == expected
    assert parse_json(text.encode()) == expected
    assert parse_json(memoryview(text.encode())) == expected


def test_an_object_as_key_stays_recognisable() -> None:
    (key,) = parse_json("{" + QUEUE + ":5}")
    assert type(key) is ObjectKey
    (text_key,) = parse_json(build_json({QUEUE: 5}, java_form=True))
    assert type(text_key) is str


def test_malformed_utf_8_becomes_the_replacement_character() -> None:
    assert parse_json(b'{"a":"\xff"}') == {"a": "\ufffd"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a value, found ''"),
        ("{", "expected a member name, found ''"),
        ('{"a"', "expected ':'"),
        ('{"a" 1}', "expected ':'"),
        ('{"a":', "expected a value"),
        ('{"a":1', "expected a member name, found ''"),
        ("[1", "expected a value, found ''"),
        ("[1}", "expected a value, found '}'"),
        ('"abc', "expected a closed string"),
        ("'abc\\'", "expected a closed string"),
        ("tru", "expected a value, found 'tru'"),
        ("{:1}", "expected a member name"),
        ("1 2", "expected the end of the text"),
        ("{}{}", "expected the end of the text"),
        ("[1x]", "expected a value"),
        ("[--1]", "expected a value"),
        ("/* open", "expected a value"),
        ("1 /* open", "expected the end of the text"),
        ("{a:1 /* open }", "expected a member name"),
        ("[1 / 2]", "expected a value"),
        ("[" + "1" * (MAX_NUMBER_CHARS + 1) + ",]", "expected a value"),
        ("{{1}:2}", "expected ':'"),
        ("GET / HTTP/1.1", "expected a value, found 'GET / HTTP/1.1'"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(BodyError, match=reason.replace("{", "\\{")):
        parse_json(text)


@pytest.mark.parametrize(
    "template", ["{{a:{}x}}", "{{a:{}.{}x}}", "{{a:.{}x}}", "{{a:{}e{}x}}", "{{a:1e{}x}}", "{{a:{}ex}}", "{{a:{}L}}"]
)
def test_a_number_is_looked_at_once_however_long_it_is(template: str) -> None:
    """A name server was busy for 20 s with 12 KB of digits and a letter."""
    growth = growth_per_doubling(parse_json, lambda size: template.format("1" * size, "2" * size))
    assert growth <= MOST_PER_DOUBLING


@pytest.mark.parametrize("text", ["1.e", "1.5.", "1ee5", "1e", "1e+", ".", "+", "1e5.5", "٣"])
def test_what_is_only_nearly_a_number_is_refused(text: str) -> None:
    with pytest.raises(BodyError, match="expected a value"):
        parse_json("[" + text + ",]")


@pytest.mark.parametrize("template", ["{}", "[{}]", "[{},]", "{{'a':{}}}"])
def test_nesting_has_a_limit_for_strict_and_tolerant_text(template: str) -> None:
    around = template.count("[") + template.count("{{")

    def nested(depth: int) -> str:
        return template.format("[" * (depth - around) + "]" * (depth - around))

    assert parse_json(nested(MAX_DEPTH)) is not None
    for depth in (MAX_DEPTH + 2, 5_000):
        with pytest.raises(BodyError, match="deeper than 64"):
            parse_json(nested(depth))


def test_many_shallow_objects_are_not_deep() -> None:
    many: list[object] = [{"a": [{}]}] * 100
    assert parse_json(json.dumps(many)) == many


def test_brackets_within_a_text_are_not_nesting() -> None:
    assert parse_json(json.dumps("[" * 100)) == "[" * 100


def test_objects_as_keys_count_as_nesting() -> None:
    with pytest.raises(BodyError, match="deeper than 64"):
        parse_json("{" + '{"a":' * 5_000)


@pytest.mark.parametrize("inner", ["{{1:2}:3}", '{"a":[{{}:1}]}', "{" * 5_000])
def test_no_key_of_an_object_that_is_a_key_is_an_object(inner: str) -> None:
    with pytest.raises(BodyError, match=r"character \d+: expected a member name that is no object.*, found '{"):
        parse_json("{" + inner + ":5}")


def test_an_object_that_is_no_key_may_have_objects_as_keys() -> None:
    assert parse_json("{" + QUEUE + ":{" + QUEUE + ":{" + QUEUE + ":5}}}") == {QUEUE: {QUEUE: {QUEUE: 5}}}


def test_the_size_has_a_limit() -> None:
    assert parse_json("[1]", max_bytes=3) == [1]
    with pytest.raises(BodyError, match="of 4 bytes is over the limit of 3"):
        parse_json("[12]", max_bytes=3)


def test_what_takes_long_to_read_has_a_smaller_limit() -> None:
    assert parse_json("{a:1}", max_lenient_bytes=5)
    with pytest.raises(BodyError, match="of 5 bytes is over the limit of 4"):
        parse_json("{a:1}", max_lenient_bytes=4)
    assert parse_json('{"0":1}', max_lenient_bytes=0) == {"0": 1}


def test_numbers_as_keys_are_read_as_quickly_as_json() -> None:
    """Brokers with static topics register with them, and routes have them."""
    text = '{"a":{0:"x",-17:{"b":[{1:2},",3:4{5:"]}},"\\\\":"\\",6:"}'
    assert parse_json(text, max_lenient_bytes=0) == {
        "a": {"0": "x", "-17": {"b": [{"1": 2}, ",3:4{5:"]}},
        "\\": '",6:',
    }


@pytest.mark.parametrize("mark", ["\x01", "\x02", "\x03"])
def test_no_character_of_a_text_is_taken_for_a_mark_of_the_reader(mark: str) -> None:
    assert parse_json("{0:'" + mark + '\',"a":"' + mark + '"}') == {"0": mark, "a": mark}
    with pytest.raises(BodyError):
        parse_json("{" + mark + ":" + mark + "}")


@pytest.mark.parametrize("text", ["[1,2:3]", "{0:1", "{0:1}}", '{0:"}', "{0:,}"])
def test_numbers_at_other_places_are_no_keys(text: str) -> None:
    with pytest.raises(BodyError):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "values"), [("[1 2 '3'4L{}]", 7), ("{a:1,'b':[],c:{}}", 7), ("[/**//**/]", 3), ("{{a:1}:2}", 4)]
)
def test_the_values_of_a_text_that_is_no_json_have_a_limit(text: str, values: int) -> None:
    assert parse_json(text, max_lenient_values=values) is not None
    with pytest.raises(BodyError, match="more than 1 values and comments"):
        parse_json(text, max_lenient_values=1)


def test_objects_and_arrays_have_a_limit() -> None:
    assert parse_json('[{},"x"]', max_containers=2)
    with pytest.raises(BodyError, match="has 3 objects and arrays, the limit is 2"):
        parse_json("[{},[]]", max_containers=2)


def test_a_text_with_references_has_a_limit() -> None:
    text = '{"a":{},"b":{"$ref":"$.a"}'
    assert parse_json(text + "}")["b"] == {}
    with pytest.raises(BodyError, match=f"references of .* is over the limit of {MAX_REFERRING_BYTES}"):
        parse_json(text + " " * MAX_REFERRING_BYTES + "}")


SHARED = '{"topic":"t"}'


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"b":[%s]},"c":{"$ref":"$.a.b[0]"}}',
        "{a:{b:[%s]},c:{'$ref':'$.a.b[0]'}}",
        '{"c":{"$ref":"$.a.b[0]"},"a":{"b":[%s]}}',
        '{"x":{"0":[%s]},"c":{"$ref":"$.x[0][0]"}}',
        '{"%%RETRY%%g.1":[%s],"c":{"$ref":"$.\\\\%%RETRY\\\\%%g\\\\.1[0]"}}',
        '{"a b":[%s],"c":{"$ref":"$[\'a b\'][0]"}}',
        '{"a b":[%s],"c":{"$ref":"$[\\"a b\\"][0]"}}',
    ],
)
def test_a_reference_by_path_is_the_object_itself(text: str) -> None:
    value = parse_json(text % SHARED)
    assert value["c"] == {"topic": "t"}


def test_references_within_an_array() -> None:
    first, second = parse_json('[{"topic":"t"},{"$ref":"$[0]"}]')
    assert first is second


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"$ref":"@"}}',
        '{"a":{"b":{"$ref":".."}}}',
        '{"a":{"b":{"$ref":"$"}}}',
        '{"a":{"b":[{"$ref":"$.a"}]}}',
        '{"a":[{"$ref":"$.b"}],"b":[{"$ref":"$.a"}]}',
    ],
)
def test_what_would_contain_itself_is_refused(text: str) -> None:
    with pytest.raises(BodyError, match=r"lies in|contains itself"):
        parse_json(text)


def test_references_are_no_way_around_the_depth() -> None:
    def chain(length: int) -> str:
        links = {f"a{n + 1}": [{"$ref": f"$.a{n}"}] for n in range(length)}
        return json.dumps({"a0": [], **links})

    assert parse_json(chain(MAX_DEPTH - 2))
    for length in (MAX_DEPTH, 1_000):
        with pytest.raises(BodyError, match="by its references nested deeper than 64"):
            parse_json(chain(length))


def test_the_depth_is_that_around_the_reference_and_that_of_what_it_names() -> None:
    def crossed(around: int, below: int) -> str:
        reference: Any = {"$ref": "$.a"}
        for _ in range(around):
            reference = [reference]
        return json.dumps({"a": json.loads("[" * below + "]" * below), "b": reference})

    assert parse_json(crossed(MAX_DEPTH - 32, 32))
    with pytest.raises(BodyError, match="by its references nested deeper than 64"):
        parse_json(crossed(MAX_DEPTH - 31, 32))


def test_references_are_no_way_around_the_size() -> None:
    def doubled(times: int) -> str:
        pairs = {f"a{n + 1}": [{"$ref": f"$.a{n}"}] * 2 for n in range(times)}
        return json.dumps({"a0": [0], **pairs})

    def repeated(times: int) -> str:
        return json.dumps({"a": ["x" * 1_000], "b": [{"$ref": "$.a"}] * times})

    assert parse_json(doubled(10))["a10"][1][1] == parse_json(doubled(8))["a8"]
    assert parse_json(repeated(60))["b"][59] == ["x" * 1_000]
    for text, path in ((doubled(40), r"\$\.a\d+"), (repeated(70), r"\$\.a"), (repeated(20_000), r"\$\.a")):
        reason = rf"\$ref '{path}': with it .* at least \d+ characters more .*, the limit is {MAX_REFERENCED_CHARS}"
        with pytest.raises(BodyError, match=reason):
            parse_json(text)
    assert parse_json(repeated(1_000), max_referenced_chars=2_000_000)


def test_copies_count_as_far_as_they_are_longer_than_their_references() -> None:
    text = json.dumps({"name": "x" * 100, "b": [{"$ref": "$.name"}] * 3})
    added = 3 * (100 - len('{"$ref":"$.name"}'))
    assert parse_json(text, max_referenced_chars=added)["b"] == ["x" * 100] * 3
    with pytest.raises(BodyError, match=rf"at least {added} characters more .*, the limit is {added - 1}"):
        parse_json(text, max_referenced_chars=added - 1)


def test_as_many_references_as_a_text_can_hold_may_name_what_is_no_longer_than_they_are() -> None:
    topics = {f"topic-{n}": {"attributes": {"$ref": "$.table.topic.attributes"}} for n in range(20_000)}
    value = parse_json(json.dumps({"table": {"topic": {"attributes": {}}, **topics}}), max_referenced_chars=0)
    assert value["table"]["topic-19999"] == {"attributes": {}}


def test_a_text_may_be_longer_than_its_references() -> None:
    text = json.dumps({"a": [{"n": 1}, {"$ref": "$.a[0]"}], "b": ["x" * 50] * 20_000})
    assert len(text) > MAX_REFERENCED_CHARS
    assert parse_json(text)["a"][1] == {"n": 1}


def test_a_client_may_name_hundreds_of_subscriptions_a_second_time() -> None:
    first = [json.loads(SubscriptionData(f"%RETRY%orders-of-{n:03}", sub_version=17).build()) for n in range(300)]
    second = [{"$ref": f"$.consumerDataSet[0].subscriptionDataSet[{n}]"} for n in range(300)]
    groups = [{"groupName": "g", "subscriptionDataSet": part} for part in (first, second)]
    heartbeat = HeartbeatData.parse(json.dumps({"clientID": "c", "consumerDataSet": groups}))
    assert heartbeat.consumers[0].subscriptions == heartbeat.consumers[1].subscriptions


def values_of(value: Any) -> int:
    """Return how many values this value is, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_of, inner))


lists_and_references = st.lists(
    st.lists(st.integers(0, 9) | st.integers(0, 9).map(lambda n: {"$ref": f"$.a{n}"}), max_size=5),
    min_size=1,
    max_size=9,
)


@QUICK
@given(lists_and_references, st.integers(0, 1_000))
def test_references_are_copies_and_a_body_has_no_more_values_than_its_text_and_the_limit_have_characters(
    lists: list[list[Any]], limit: int
) -> None:
    def copied(item: Any) -> Any:
        return resolved[int(item["$ref"][3:])] if isinstance(item, dict) else item

    earlier = [
        [item for item in items if isinstance(item, int) or int(item["$ref"][3:]) < n] for n, items in enumerate(lists)
    ]
    resolved: list[list[Any]] = []
    for items in earlier:
        resolved.append([copied(item) for item in items])
    document = {f"a{n}": items for n, items in enumerate(earlier)}
    whole = {f"a{n}": items for n, items in enumerate(resolved)}
    text = json.dumps(document)
    assert parse_json(text, max_referenced_chars=1 << 30) == whole
    try:
        value = parse_json(text, max_referenced_chars=limit)
    except BodyError:
        assert len(json.dumps(whole)) + text.count("$ref") > limit
    else:
        assert value == whole
        assert values_of(whole) <= len(text) + limit


def calls_during(action: Callable[[], object]) -> int:
    """Return how many functions are called in a block, those of C included."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    except BodyError:
        pass
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "large",
    [[0] * 100_000, [[""] * 10] * 10_000, {f"k{n}": 0 for n in range(100_000)}],
    ids=["list", "list of lists", "object"],
)
def test_what_is_over_the_limit_is_looked_at_no_further(large: Any) -> None:
    def calls(path: str) -> int:
        text = json.dumps({"large": large, "small": 0, "b": {"$ref": path}})
        return calls_during(lambda: parse_json(text, max_referenced_chars=1_000))

    assert calls("$.large") < calls("$.small") + 3_000


def test_what_contains_itself_is_gone_through_once() -> None:
    document = {"a": [[0] * 1_000, *["x"] * 10_000, {"$ref": "$.a"}]}
    text = json.dumps(document)
    with pytest.raises(BodyError, match="contains itself"):
        parse_json(text)
    assert calls_during(lambda: parse_json(text)) < 20 * values_of(document)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("$.missing", "leads nowhere"),
        ("$.a[5]", "leads nowhere"),
        ("$.a[99999999999999999999]", "leads nowhere"),
        ("$.a.name", "leads nowhere"),
        ("$.n.deeper", "leads nowhere"),
        ("$.c", "leads to another"),
        ("$.d", "leads to another"),
        ("$.c.deeper", "leads nowhere"),
        ("$.e[0]", "leads nowhere"),
        ("elsewhere", "is no"),
        ("$!", "is not a path"),
        ("$.", "is not a path"),
        ("$[x]", "is not a path"),
    ],
)
def test_a_reference_to_nowhere_is_refused(path: str, reason: str) -> None:
    text = json.dumps({"a": [1], "n": 5, "c": {"$ref": path}, "d": {"$ref": path}, "e": {"$ref": "$.a"}})
    with pytest.raises(BodyError, match=reason):
        parse_json(text)


def test_a_document_that_is_a_reference_is_refused() -> None:
    with pytest.raises(BodyError, match="nothing but a"):
        parse_json('{"$ref":"$"}')


def test_what_only_looks_like_a_reference_stays() -> None:
    for text in ('{"a":{"$ref":1}}', '{"a":{"$ref":"$","b":1}}', '{"a":"$ref"}', '["$ref"]', '"\\"$ref\\""'):
        assert parse_json(text) == json.loads(text)


fragments = st.sampled_from(
    [
        *list("{}[]:,\"'\\ \n0123456789.-+eE"),
        "null",
        "true",
        "NaN",
        "$ref",
        "$",
        "..",
        "@",
        '{"$ref":"$"}',
        "/*",
        "*/",
        "//",
        "a",
        "\\u",
        "�",
        "漢",
    ]
)


@QUICK
@given(st.lists(fragments, max_size=30).map("".join))
def test_any_text_is_json_or_a_body_error(text: str) -> None:
    try:
        value = parse_json(text)
    except BodyError:
        return
    build_json(value, java_form=True)


@QUICK
@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_a_body_error(raw: bytes) -> None:
    try:
        parse_json(raw)
    except BodyError:
        return


@QUICK
@given(json_values)
def test_values_come_back(value: Any) -> None:
    assert parse_json(build_json(value, java_form=False)) == value
    assert json.loads(build_json(value, java_form=False)) == value
    assert parse_json(build_json(value, java_form=True)) == value
    assert parse_json(build_pretty_json(value)) == value


@QUICK
@given(json_values)
def test_the_tolerant_reader_agrees_with_the_strict_one(value: Any) -> None:
    loosened = "/**/" + json.dumps(value)
    if "$ref" not in loosened:
        assert parse_json(loosened) == value


@QUICK
@given(st.dictionaries(st.integers(-(2**63), 2**63), texts, max_size=5))
def test_integer_keys_are_bare_in_java_and_text_in_json(table: dict[int, str]) -> None:
    expected = {str(key): value for key, value in table.items()}
    assert parse_json(build_json(table, java_form=True)) == expected
    assert json.loads(build_json(table, java_form=False)) == expected
    assert parse_json(build_pretty_json(table)) == expected


def test_members_are_sorted_and_unspaced() -> None:
    assert build_json({"b": [1, 2.5, None], "a": {"d": True, "c": False}}, java_form=True) == (
        b'{"a":{"c":false,"d":true},"b":[1,2.5,null]}'
    )


def test_maps_by_number_and_by_object_in_both_forms() -> None:
    table = {"addrs": {1: "b:1", 0: "a:1"}, "offsets": {object_key({"topic": "t", "queueId": 0}): 5}}
    assert build_json(table, java_form=True) == b'{"addrs":{0:"a:1",1:"b:1"},"offsets":{{"queueId":0,"topic":"t"}:5}}'
    assert json.loads(build_json(table, java_form=False)) == {
        "addrs": {"0": "a:1", "1": "b:1"},
        "offsets": {'{"queueId":0,"topic":"t"}': 5},
    }


def test_text_is_utf_8_or_escaped_to_ascii() -> None:
    assert build_json({"é": "漢😀\u0001"}, java_form=False) == '{"é":"漢😀\\u0001"}'.encode()
    escaped = build_json({"é": "漢😀"}, java_form=False, ascii_only=True)
    assert escaped == rb'{"\u00e9":"\u6f22\ud83d\ude00"}'
    assert build_json(["plain"], java_form=False, ascii_only=True) == b'["plain"]'


def test_what_is_no_number_in_json_becomes_null() -> None:
    assert build_json([float("nan"), float("inf"), -0.0], java_form=True) == b"[null,null,-0.0]"


def test_sets_and_tuples_are_arrays() -> None:
    assert build_json({"s": {3, 1, 2}, "t": ("a", "b")}, java_form=True) == b'{"s":[1,2,3],"t":["a","b"]}'


@pytest.mark.parametrize(
    "value", [object(), b"bytes", {1.5: 2}, {None: 1}, {True: 1}, {1: 1, "a": 2}, {"a": {object()}}]
)
def test_what_json_has_not_is_not_built(value: Any) -> None:
    with pytest.raises(LocalError):
        build_json(value, java_form=False)
    with pytest.raises(LocalError):
        build_json({"inner": value}, java_form=False)


def test_a_value_that_contains_itself_is_not_built() -> None:
    value: dict[str, Any] = {}
    value["a"] = value
    with pytest.raises(LocalError, match="deeper than 64"):
        build_json(value, java_form=True)


def test_the_pretty_form_is_that_of_apaches_files() -> None:
    table = {"offsetTable": {"t@g": {1: 7, 0: 5}}, "empty": {}, "names": ["a"], "nested": {0: {"a": 1}}}
    assert build_pretty_json(table).decode() == (
        '{\n\t"empty":{},\n\t"names":[\n\t\t"a"\n\t],\n\t"nested":{0:{\n\t\t\t"a":1\n\t\t}\n\t},'
        '\n\t"offsetTable":{\n\t\t"t@g":{0:5,1:7\n\t\t}\n\t}\n}'
    )
