"""Commands whose header is read together with them are what they are when read in two steps."""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import FieldError, RemoteError
from wire.frame import build_frame
from wire.headers.declare import Header, read_header
from wire.headers.pull import PullMessageRequest
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.headers.transaction import EndTransactionRequest
from wire.quick.whole import whole_headers

HEADER_OF: dict[int, type[Header]] = {
    310: ShortSendMessageRequest,
    37: EndTransactionRequest,
    11: PullMessageRequest,
}
TEXTS = st.text(max_size=10) | st.integers().map(str) | st.sampled_from(["true", "FALSE", "007", "+5", "", "true"])
SENT = '{"code":310,"extFields":{"a":"g","b":"t","c":"T","d":"4","e":"1","f":"0","g":"5","h":"0"},"flag":0,"opaque":7}'


def outcome(read: Callable[[], Header]) -> Header | str:
    """Return the result of reading, or the text of its error."""
    try:
        return read()
    except FieldError as error:
        return str(error)


def facts(command: RemotingCommand) -> tuple[object, ...]:
    """Return the facts of a command, without its fields."""
    return (
        *(command.code, command.opaque, command.flag, command.language, command.version, command.remark),
        *(command.body, command.serialize_type),
    )


def read_both_ways(frame: bytes) -> tuple[RemotingCommand, RemotingCommand]:
    """A command read in one step, and in two."""
    (whole,) = Connection(whole_headers=whole_headers()).receive_data(frame)
    (twin,) = Connection().receive_data(frame)
    return whole, twin


def framed(header: bytes) -> bytes:
    """A frame with a JSON header."""
    return struct.pack(">ii", len(header) + 4, len(header)) + header


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([310, 37, 11]), st.data())
def test_reading_in_one_step_gives_what_two_steps_give(code: int, data: st.DataObject) -> None:
    declared = msgspec.structs.fields(HEADER_OF[code])
    fields = {field.encode_name: data.draw(TEXTS) for field in declared if data.draw(st.integers(0, 9))}
    if data.draw(st.booleans()):  # mostly what is drawn is refused
        fields |= {field.encode_name: "1" for field in declared if field.type is not str}
    remark = data.draw(st.none() | st.text(max_size=5))
    command = RemotingCommand(code, opaque=9, flag=2, version=513, remark=remark, ext_fields=fields, body=b"body")

    whole, twin = read_both_ways(build_frame(command))

    assert facts(whole) == facts(twin)
    assert outcome(lambda: read_header(HEADER_OF[code], whole)) == outcome(lambda: read_header(HEADER_OF[code], twin))
    assert whole.ext_fields == twin.ext_fields == fields


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"flag":0', '"flag":0,"language":"KLINGON"'),
        ('"flag":0', '"flag":"0","unknown":[1]'),
        ('"opaque":7', '"opaque":7,"code":11'),
        ('"opaque":7', '"opaque":99999999999'),
        ('"h":"0"', '"h":0'),
        ('"h":"0"', '"h":"007"'),
        ('"h":"0"', '"h":"0","i":null'),
        (',"flag":0', ',"flag":0,"extFields":null'),
    ],
)
def test_what_is_written_oddly_is_read_as_ever(old: str, new: str) -> None:
    frame = framed(SENT.replace(old, new).encode())
    readings: list[list[object]] = []
    for connection in (Connection(whole_headers=whole_headers()), Connection()):
        try:
            (command,) = connection.receive_data(frame)
        except RemoteError as error:
            readings.append([str(error)])
        else:
            header = outcome(lambda command=command: read_header(ShortSendMessageRequest, command))  # type: ignore[misc]
            readings.append([*facts(command), header, command.ext_fields])

    assert readings[0] == readings[1]


def test_fields_that_were_changed_count_from_then_on() -> None:
    whole, _ = read_both_ways(framed(SENT.encode()))
    assert read_header(ShortSendMessageRequest, whole).topic == "t"

    whole.ext_fields["b"] = "other"

    assert read_header(ShortSendMessageRequest, whole).topic == "other"


def test_a_header_is_not_taken_for_one_of_another_class() -> None:
    whole, _ = read_both_ways(framed(SENT.encode()))

    with pytest.raises(FieldError):
        read_header(SendMessageRequest, whole)


def test_stock_clients_requests_are_read_in_one_step() -> None:
    whole, twin = read_both_ways(framed(SENT.encode()))

    assert type(whole.header) is ShortSendMessageRequest
    assert twin.header is None
