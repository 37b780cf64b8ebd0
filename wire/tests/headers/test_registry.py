"""The registry, and through it every declared header."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import struct
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wire.headers
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import FieldError
from wire.frame import build_frame
from wire.headers.declare import Header, build_header, parse_header, read_header
from wire.headers.offsets import UpdateConsumerOffsetRequest
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.tests.headers.registry import REQUEST_HEADERS, RESPONSE_HEADERS


def _declared() -> set[type[Header]]:
    return {
        value
        for module in pkgutil.iter_modules(wire.headers.__path__, "wire.headers.")
        for value in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(value) and issubclass(value, Header) and value is not Header
    }


EVERY_HEADER = sorted(_declared(), key=lambda cls: cls.__name__)


def _sample_text(hint: str, *, seed: int) -> str:
    return ("true" if seed % 2 else "false") if "bool" in hint else str(seed) if "int" in hint else f"text {seed}"


@pytest.mark.parametrize("cls", EVERY_HEADER)
def test_every_header_reads_and_writes_all_its_fields(cls: type[Header]) -> None:
    fields = {
        declared.encode_name: _sample_text(str(declared.type), seed=seed)
        for seed, declared in enumerate(msgspec.structs.fields(cls))
    }

    header = parse_header(cls, fields)

    assert build_header(header) == fields
    assert parse_header(cls, build_header(header)) == header


@pytest.mark.parametrize("cls", EVERY_HEADER)
def test_every_header_without_fields_is_its_defaults_or_a_field_error(cls: type[Header]) -> None:
    required = [declared.encode_name for declared in msgspec.structs.fields(cls) if declared.required]
    if not required:
        assert parse_header(cls, {}) == cls()
        return
    with pytest.raises(FieldError) as caught:
        parse_header(cls, {})
    assert caught.value.field == required[0]


@pytest.mark.parametrize("cls", EVERY_HEADER)
def test_wire_names_are_unique_and_explained(cls: type[Header]) -> None:
    names = [declared.encode_name for declared in msgspec.structs.fields(cls)]

    assert len(names) == len(set(names))
    assert cls.__doc__


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(EVERY_HEADER), st.data())
def test_any_ext_fields_are_a_header_or_a_field_error(cls: type[Header], data: st.DataObject) -> None:
    names = [declared.encode_name for declared in msgspec.structs.fields(cls)] or ["x"]
    texts = st.text(max_size=10) | st.integers().map(str) | st.sampled_from(["true", "false", ""])
    try:
        parse_header(cls, data.draw(st.dictionaries(st.sampled_from(names), texts)))
    except FieldError as error:
        found = error
    else:
        return
    assert found.field in names


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(EVERY_HEADER), st.data())
def test_a_header_read_from_a_frame_is_the_one_parsed_from_its_fields(cls: type[Header], data: st.DataObject) -> None:
    names = [declared.encode_name for declared in msgspec.structs.fields(cls)] or ["x"]
    texts = st.text(max_size=10) | st.integers().map(str) | st.sampled_from(["true", "FALSE", "007", "+5", ""])
    fields = data.draw(st.dictionaries(st.sampled_from(names), texts))
    frame = build_frame(RemotingCommand(1, ext_fields=fields))
    (command,) = Connection().receive_data(frame)

    assert outcome(lambda: read_header(cls, command)) == outcome(lambda: parse_header(cls, fields))


def outcome(read: Callable[[], Header]) -> Header | str:
    """Return the result of reading, or the text of its error."""
    try:
        return read()
    except FieldError as error:
        return str(error)


@pytest.mark.parametrize("value", ["5", '"5"', "5.0", "true", "null", '"+5"', "[]"])
def test_a_value_that_is_not_text_is_read_as_its_json_text(value: str) -> None:
    header = b'{"code":15,"extFields":{"consumerGroup":"g","topic":"t","queueId":0,"commitOffset":%s}}' % value.encode()
    frame = struct.pack(">ii", len(header) + 4, len(header)) + header
    (command,), (twin,) = Connection().receive_data(frame), Connection().receive_data(frame)

    read = outcome(lambda: read_header(UpdateConsumerOffsetRequest, command))

    assert read == outcome(lambda: parse_header(UpdateConsumerOffsetRequest, twin.ext_fields))


def test_requests_and_responses_are_named_for_what_they_are() -> None:
    assert all(cls.__name__.endswith("Request") for cls in REQUEST_HEADERS.values())
    assert all(cls.__name__.endswith("Response") for cls in RESPONSE_HEADERS.values())


def test_every_declared_header_belongs_to_a_code() -> None:
    assert set(EVERY_HEADER) == {*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}


def test_registered_codes_are_codes_and_responses_belong_to_known_requests() -> None:
    assert set(REQUEST_HEADERS) | set(RESPONSE_HEADERS) <= set(RequestCode)


def test_a_code_named_in_a_headers_docstring_is_the_code_it_is_registered_for() -> None:
    """Each docstring says in brackets which codes carry the header; that and the registry are one truth."""
    for table in (REQUEST_HEADERS, RESPONSE_HEADERS):
        for code, cls in table.items():
            assert int(code) in set(map(int, re.findall(r"\d+", cls.__doc__ or ""))), (code, cls)


def test_the_two_forms_of_send_go_with_their_codes() -> None:
    forms = {code: cls for code, cls in REQUEST_HEADERS.items() if issubclass(cls, SendMessageRequest)}

    assert forms == {
        RequestCode.SEND_MESSAGE: SendMessageRequest,
        RequestCode.SEND_REPLY_MESSAGE: SendMessageRequest,
        RequestCode.SEND_MESSAGE_V2: ShortSendMessageRequest,
        RequestCode.SEND_BATCH_MESSAGE: ShortSendMessageRequest,
        RequestCode.SEND_REPLY_MESSAGE_V2: ShortSendMessageRequest,
    }


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        REQUEST_HEADERS[RequestCode.HEART_BEAT] = SendMessageRequest  # type: ignore[index]
