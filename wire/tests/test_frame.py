"""Frames: commands to bytes and back, in both header forms, and what is refused."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.codes import LanguageCode, SerializeType
from wire.command import RemotingCommand
from wire.errors import FrameError, HeaderError, LocalError
from wire.frame import (
    LARGE_HEADER_BYTES,
    MAX_FRAME_BYTES,
    MAX_LARGE_HEADER_FIELDS,
    build_frame,
    build_frame_head,
    parse_frame,
)
from wire.json_header import NO_OPAQUE

# Made by ``RemotingCommand.encode`` of 4.9.8: code 105, topic=tt, opaque 7, version 0.
BINARY_EXAMPLE = bytes.fromhex(
    "00000026 01000022 0069 00 0000 00000007 00000000 00000000 0000000d 0005 746f706963 00000002 7474"
)
JSON_EXAMPLE = (
    b'{"code":105,"extFields":{"topic":"tt"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":0}'
)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
FULL_TEXT = st.text(min_size=1, max_size=40)


def commands(serialize_type: SerializeType) -> st.SearchStrategy[RemotingCommand]:
    """Commands as a header form can carry them: the binary one knows neither empty text nor large codes."""
    binary = serialize_type is SerializeType.ROCKETMQ
    text = FULL_TEXT if binary else st.text(max_size=40)
    return st.builds(
        RemotingCommand,
        INT16 if binary else INT32,
        opaque=INT32,
        flag=INT32,
        language=st.sampled_from(LanguageCode),
        version=INT16 if binary else INT32,
        remark=st.none() | text,
        ext_fields=st.dictionaries(text, text, max_size=8),
        body=st.binary(max_size=200),
        serialize_type=st.just(serialize_type),
    )


FACTS = ("body", "code", "ext_fields", "flag", "language", "opaque", "remark", "serialize_type", "version")
ANY_COMMAND = commands(SerializeType.JSON) | commands(SerializeType.ROCKETMQ)


def facts(command: RemotingCommand) -> dict[str, Any]:
    """All members, for comparing."""
    return {name: getattr(command, name) for name in FACTS}


def json_frame(header: str | bytes, body: bytes = b"") -> bytes:
    """Return the part of a frame with this JSON header that follows the length field."""
    raw = header.encode() if isinstance(header, str) else header
    return len(raw).to_bytes(4, "big") + raw + body


def read(frame: bytes) -> RemotingCommand:
    """Parse a frame that is given without its length field."""
    return parse_frame(frame, 0, len(frame))


@settings(deadline=None)
@given(ANY_COMMAND)
def test_a_command_survives_its_frame(command: RemotingCommand) -> None:
    frame = build_frame(command)

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert facts(parse_frame(frame, 4, len(frame))) == facts(command)


@settings(deadline=None)
@given(ANY_COMMAND, st.binary(max_size=20), st.binary(max_size=20))
def test_bytes_around_a_frame_do_not_matter(command: RemotingCommand, before: bytes, after: bytes) -> None:
    frame = build_frame(command)
    stream = memoryview(before + frame + after)

    found = parse_frame(stream, len(before) + 4, len(before) + len(frame))

    assert facts(found) == facts(command)
    assert type(found.body) is bytes


@settings(deadline=None)
@given(ANY_COMMAND)
def test_head_and_body_sent_apart_are_the_frame(command: RemotingCommand) -> None:
    assert build_frame_head(command, len(command.body)) + command.body == build_frame(command)


def test_the_recorded_binary_frame_is_read_and_written() -> None:
    command = parse_frame(BINARY_EXAMPLE, 4, len(BINARY_EXAMPLE))

    assert (command.code, command.opaque, command.version, command.remark) == (105, 7, 0, None)
    assert command.ext_fields == {"topic": "tt"}
    assert command.serialize_type == SerializeType.ROCKETMQ
    assert build_frame(command) == BINARY_EXAMPLE


def test_the_recorded_json_frame_is_read_and_written() -> None:
    command = read(json_frame(JSON_EXAMPLE))

    assert (command.code, command.opaque, command.ext_fields) == (105, 7, {"topic": "tt"})
    assert build_frame(command)[8:] == JSON_EXAMPLE


def test_null_members_are_left_out_as_fastjson_does() -> None:
    header = build_frame(RemotingCommand(0, flag=1, opaque=7, version=479))[8:]

    assert header == (
        b'{"code":0,"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}'
    )


def test_property_separators_are_escaped_in_json() -> None:
    frame = build_frame(RemotingCommand(310, ext_fields={"i": "KEYS\x01k\x02"}))

    assert rb'"i":"KEYS\u0001k\u0002"' in frame
    assert parse_frame(frame, 4, len(frame)).ext_fields == {"i": "KEYS\x01k\x02"}


@pytest.mark.parametrize("language", [14, 255, -1])
def test_a_language_nobody_knows_is_written_as_other(language: int) -> None:
    assert b'"language":"OTHER"' in build_frame(RemotingCommand(0, language=language))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('{"code":"105"}', {"code": 105}),
        ('{"CODE":105,"ext_fields":{"a":"b"}}', {"code": 105, "ext_fields": {"a": "b"}}),
        ('{"code":1,"nobody":{"knows":[1]},"flag":1}', {"code": 1, "flag": 1}),
        (
            '{"code":1,"extFields":{"i":7,"f":1.50,"t":true,"n":null}}',
            {"ext_fields": {"i": "7", "f": "1.50", "t": "true"}},
        ),
        ('{"code":1,"extFields":{"o":{"a":[1,2]}}}', {"ext_fields": {"o": '{"a":[1,2]}'}}),
        ('{"code":1,"extFields":null,"remark":null,"x":0}', {"ext_fields": {}, "remark": None}),
        ('{"code":1,"remark":5}', {"remark": "5"}),
        ('{"code":1,"opaque":null,"flag":null}', {"opaque": NO_OPAQUE, "flag": 0}),
        ('{"code":1}', {"opaque": NO_OPAQUE, "language": LanguageCode.JAVA, "version": 0}),
        ('{"code":1,"language":"KOTLIN"}', {"language": LanguageCode.OTHER}),
        ('{"code":1,"language":9}', {"language": LanguageCode.GO}),
        ('{"code":1,"language":99}', {"language": LanguageCode.OTHER}),
        ('{"code":1,"language":null}', {"language": LanguageCode.JAVA}),
        ('{"extFields":{"a":"1","a":"2"}}', {"code": 0, "ext_fields": {"a": "2"}}),
        (' {"code" : 5 } ', {"code": 5}),
        (b'{"code":1,"remark":"\xff"}', {"remark": "�"}),
    ],
)
def test_an_odd_json_header_is_read_as_fastjson_reads_it(header: str | bytes, expected: dict[str, Any]) -> None:
    command = read(json_frame(header, b"body"))

    assert {name: getattr(command, name) for name in expected} == expected
    assert command.body == b"body"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "null",
        "[1]",
        '"text"',
        "{",
        '{"code":1',
        '{"code":1}x',
        '{"code":"many"}',
        '{"code":1.5}',
        '{"code":4294967296}',
        '{"code":[]}',
        '{"opaque":true}',
        '{"language":[]}',
        '{"extFields":[]}',
        '{"extFields":"a"}',
        '{"remark":"\\ud800"}',
        "{'code':1}",
        "[" * 100_000,
        '{"extFields":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}",
        b"\xff\xfe",
        b"\x00" * 20,
    ],
)
def test_an_unreadable_json_header_is_a_header_error(header: str | bytes) -> None:
    with pytest.raises(HeaderError, match="JSON header"):
        read(json_frame(header))


BINARY_HEADER = BINARY_EXAMPLE[8:]


def patched(offset: int, replacement: bytes) -> bytes:
    """The example's binary header with some bytes replaced."""
    return BINARY_HEADER[:offset] + replacement + BINARY_HEADER[offset + len(replacement) :]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"", "shorter than its fixed 21"),
        (BINARY_HEADER[:20], "shorter than its fixed 21"),
        (patched(13, b"\xff\xff\xff\xff"), "remark of -1 bytes"),
        (patched(13, b"\x7f\xff\xff\xff"), "remark of 2147483647 bytes"),
        (patched(17, b"\x00\x00\x00\x0e"), "ext fields of 14 bytes"),
        (patched(17, b"\xff\xff\xff\xff"), "ext fields of -1 bytes"),
        (patched(17, b"\x00\x00\x00\x0c"), "runs outside its block of 12"),
        (patched(17, b"\x00\x00\x00\x01"), "runs outside its block of 1"),
        (patched(21, b"\xff\xff"), "runs outside its block"),
        (patched(21, b"\x7f\xff"), "ends inside an entry"),
        (patched(28, b"\xff\xff\xff\xff"), "runs outside its block"),
        (patched(28, b"\x00\x00\x00\x03"), "runs outside its block"),
    ],
)
def test_a_damaged_binary_header_is_a_header_error(header: bytes, problem: str) -> None:
    frame = (1 << 24 | len(header)).to_bytes(4, "big") + header

    with pytest.raises(HeaderError, match=problem):
        read(frame)


def test_the_language_of_a_binary_header_is_an_unsigned_byte() -> None:
    header = patched(2, b"\xff")

    assert read((1 << 24 | len(header)).to_bytes(4, "big") + header).language == 255


def test_empty_binary_text_counts_as_absent_as_in_java() -> None:
    fields = {"": "no key", "noValue": "", "kept": "v"}
    frame = build_frame(RemotingCommand(1, remark="", ext_fields=fields, serialize_type=1))

    command = parse_frame(frame, 4, len(frame))

    assert command.ext_fields == {"kept": "v"}
    assert command.remark is None


def test_bytes_after_the_ext_block_are_ignored_as_in_java() -> None:
    header = BINARY_HEADER + b"later versions"

    assert read((1 << 24 | len(header)).to_bytes(4, "big") + header).ext_fields == {"topic": "tt"}


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (b"", "no room for its header length"),
        (b"\x00\x00\x00", "no room for its header length"),
        (b"\x02\x00\x00\x02{}", "serialize type 2 is unknown"),
        (b"\xff\x00\x00\x02{}", "serialize type 255 is unknown"),
        (b"\x00\x00\x00\x03{}", "header of 3 bytes is longer than its frame of 6 bytes"),
        (b"\x01\xff\xff\xff{}", "header of 16777215 bytes is longer"),
    ],
)
def test_an_impossible_frame_is_a_frame_error(frame: bytes, problem: str) -> None:
    with pytest.raises(FrameError, match=problem):
        read(frame)


@pytest.mark.parametrize(
    "command",
    [
        RemotingCommand(200050, serialize_type=1),
        RemotingCommand(1, version=40000, serialize_type=1),
        RemotingCommand(1, ext_fields={"k" * 40000: "v"}, serialize_type=1),
        RemotingCommand(1, ext_fields={"k": "\ud800"}, serialize_type=1),
        RemotingCommand(1, ext_fields={"k": "\ud800"}),
        RemotingCommand(1, ext_fields={"k": "v" * MAX_FRAME_BYTES}),
    ],
    ids=["code", "version", "key", "surrogate", "json surrogate", "size"],
)
def test_what_a_header_cannot_carry_is_our_own_error(command: RemotingCommand) -> None:
    with pytest.raises(LocalError):
        build_frame(command)


def test_a_frame_may_reach_the_limit_and_not_pass_it() -> None:
    command = RemotingCommand(0)
    room = MAX_FRAME_BYTES - len(build_frame(command))

    assert len(build_frame_head(command, room)) + room == MAX_FRAME_BYTES
    with pytest.raises(LocalError, match="exceeds 16777216"):
        build_frame_head(command, room + 1)


def many_fields(count: int, serialize_type: int) -> bytes:
    """A frame of a megabyte with so many fields."""
    fields = {str(at): "v" for at in range(count - 1)} | {"long": "x" * LARGE_HEADER_BYTES}
    return build_frame(RemotingCommand(0, ext_fields=fields, serialize_type=serialize_type))[4:]


@pytest.mark.parametrize("serialize_type", [SerializeType.JSON, SerializeType.ROCKETMQ])
def test_a_long_header_has_only_so_many_fields(serialize_type: int) -> None:
    most = MAX_LARGE_HEADER_FIELDS - (7 if serialize_type == SerializeType.JSON else 0)  # members around the fields
    assert len(read(many_fields(most, serialize_type)).ext_fields) == most
    with pytest.raises(HeaderError, match=f"has more than {MAX_LARGE_HEADER_FIELDS} fields"):
        read(many_fields(most + 1, serialize_type))


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x00\x00\x00", b"\x01\x00\x00"]))
def test_arbitrary_bytes_are_a_command_or_a_frame_or_header_error(noise: bytes, start: bytes) -> None:
    with contextlib.suppress(FrameError, HeaderError):
        read(start + noise)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = ["code", "extFields", "flag", "language", "opaque", "remark", "version", "Ext_Fields", "other"]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(MEMBERS), JSON_VALUES))
def test_any_json_object_is_a_command_or_a_header_error(members: dict[str, Any]) -> None:
    try:
        command = read(json_frame(json.dumps(members)))
    except HeaderError:
        return
    assert all(type(value) is str for value in command.ext_fields.values())
    build_frame(command)


@settings(deadline=None)
@given(st.integers(0, len(BINARY_HEADER) - 1), st.binary(min_size=1, max_size=4))
def test_a_binary_header_with_changed_bytes_is_a_command_or_a_header_error(offset: int, change: bytes) -> None:
    header = patched(offset, change)
    with contextlib.suppress(HeaderError):
        read(struct.pack(">I", 1 << 24 | len(header)) + header)
