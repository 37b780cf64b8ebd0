from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.fastjson import (
    MAX_DEPTH,
    MAX_NUMBER_CHARS,
    ObjectKey,
    build_json,
    build_pretty_json,
    object_key,
    parse_json,
)
from wire.errors import BodyError, LocalError
from wire.tests.bodies.strategies import json_values, texts
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
        ("[" + "1" * (MAX_NUMBER_CHARS + 1) + ",]", "expected a value"),
        ("{{1}:2}", "expected ':'"),
        ("GET / HTTP/1.1", "expected a value, found 'GET / HTTP/1.1'"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(BodyError, match=reason.replace("{", "\\{")):
        parse_json(text)


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
        parse_json("{" * 5_000)


def test_the_size_has_a_limit() -> None:
    assert parse_json("[1]", max_bytes=3) == [1]
    with pytest.raises(BodyError, match="of 4 bytes is over the limit of 3"):
        parse_json("[12]", max_bytes=3)


def test_what_takes_long_to_read_has_a_smaller_limit() -> None:
    for text in ("{0:1}", '{"a":{},"b":{"$ref":"$.a"}}'):
        assert parse_json(text, max_lenient_bytes=len(text))
        with pytest.raises(BodyError, match=f"over the limit of {len(text) - 1}"):
            parse_json(text, max_lenient_bytes=len(text) - 1)
    assert parse_json('{"0":1}', max_lenient_bytes=0) == {"0": 1}


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
    for length in (MAX_DEPTH, 5_000):
        with pytest.raises(BodyError, match="by its references nested deeper than 64"):
            parse_json(chain(length))


def test_references_are_no_way_around_the_size() -> None:
    def doubled(times: int) -> str:
        pairs = {f"a{n + 1}": [{"$ref": f"$.a{n}"}] * 2 for n in range(times)}
        return json.dumps({"a0": [0], **pairs})

    def repeated(times: int) -> str:
        return json.dumps({"a": ["x" * 1_000], "b": [{"$ref": "$.a"}] * times})

    assert parse_json(doubled(10))["a10"][1][1] == parse_json(doubled(8))["a8"]
    assert parse_json(repeated(1_000))
    for text in (doubled(40), repeated(20_000)):
        with pytest.raises(BodyError, match=r"by its references .* characters long, the limit is 16777216"):
            parse_json(text)
    with pytest.raises(BodyError, match="the limit is 100000"):
        parse_json(repeated(1_000), max_bytes=100_000)


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
        ("elsewhere", "is no"),
        ("$!", "is not a path"),
        ("$.", "is not a path"),
        ("$[x]", "is not a path"),
    ],
)
def test_a_reference_to_nowhere_is_refused(path: str, reason: str) -> None:
    text = json.dumps({"a": [1], "n": 5, "c": {"$ref": path}, "d": {"$ref": path}})
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
