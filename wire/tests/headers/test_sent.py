"""Sends that are recognised by their form are those that a parser reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError
from wire.frame import FRAME_HEAD
from wire.headers.declare import read_header
from wire.headers.send import ShortSendMessageRequest
from wire.headers.sent import LEARNED_OF, MAX_FORMS, MAX_FRESH, MAX_LEARNED, SendReader, SentHeader
from wire.headers.whole import decoder
from wire.json_header import WHOLE_START_BYTES

HALF = r"TRAN_MSG\u0001true\u0002"


def header(
    key: str = "0A0B", queue: int | str = 1, born: int = 1795, opaque: int | str = 7, topic: str = "t", before: str = ""
) -> bytes:
    """As the Java client writes it."""
    return (
        f'{{"code":310,"extFields":{{"a":"g","b":"{topic}","c":"TBW102","d":"4","e":"{queue}","f":"0","g":"{born}",'
        f'"h":"0","i":"{before}UNIQ_KEY\\u0001{key}\\u0002WAIT\\u0001true\\u0002","j":"0","k":"false","m":"false",'
        f'"n":"vm"}},"flag":0,"language":"JAVA","opaque":{opaque},"serializeTypeCurrentRPC":"JSON","version":513}}'
    ).encode()


def reader(*, learns: bool = True) -> SendReader:
    return SendReader(decoder(ShortSendMessageRequest), learns=learns)


def is_known(command: RemotingCommand | None) -> bool:
    assert command is not None
    return type(command.header) is SentHeader


def reading(of: SendReader | None, text: bytes) -> tuple[object, ...] | str:
    """All that a command says, or why there is none."""
    start = text[:WHOLE_START_BYTES]
    frame = FRAME_HEAD.pack(len(text) + 4 + 4, len(text)) + text + b"body"
    try:
        (command,) = Connection(whole_headers={} if of is None else {start: of}).receive_data(frame)
    except RemoteError as error:
        return str(error)
    facts = (command.code, command.opaque, command.flag, command.language, command.version, command.remark)
    try:
        fields: object = read_header(ShortSendMessageRequest, command)
    except RemoteError as error:
        fields = str(error)
    return (*facts, command.body, command.serialize_type, fields, command.ext_fields)


@pytest.mark.parametrize("before", ["", HALF])
def test_a_form_is_known_after_one_header_and_tells_what_parsing_tells(before: str) -> None:
    learning = reader()
    assert not is_known(learning.read(header(before=before), b""))
    text = header("F0F1F2", 3, 1_795_416_607_191, 16, before=before)
    known = learning.read(text, b"body")

    assert known is not None
    sent = known.header
    assert isinstance(sent, SentHeader)
    assert (sent.queue_id, sent.born_timestamp, sent.unique_key) == (3, 1_795_416_607_191, b"F0F1F2")
    form = sent.form
    start = before.encode().decode("unicode_escape") + "UNIQ_KEY\x01"
    assert (form.before, form.ending) == (start, "WAIT\x01true\x02")
    assert (form.raw_before, form.raw_ending) == (start.encode(), b"\x02WAIT\x01true\x02")
    assert (form.topic, form.sys_flag, form.message_flag, form.reconsume_times) == ("t", 0, 0, 0)
    assert reading(learning, text) == reading(None, text)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_headers_with_other_bytes_are_read_as_ever(data: st.DataObject) -> None:
    learning = reader()
    for key in "AB":
        learning.read(header(key), b"")
    changed = bytearray(header("CD"))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(WHOLE_START_BYTES, len(changed) - 1))
        some = data.draw(st.binary(max_size=2) | st.sampled_from([b'"', b"0", b"7", b"A", b"\\", b",", b"\xc3\xa4"]))
        changed[place : place + data.draw(st.integers(0, 2))] = some
    text = bytes(changed)
    assert reading(learning, text) == reading(None, text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"0A0B", b"0A-0B"),  # goes on behind the word
        (b"UNIQ_KEY", b"KEY"),
        (b'"m":"false"', b'"m":"true"'),  # a batch
        (b'"e":"1"', b'"e":1'),
        (b'"e":"1"', b'"e":"1","e":"2"'),
        (b'"opaque":7', b'"opaque":7,"remark":"r"'),
        (b'"j":"0"', rb'"j":"0","UNIQ_KEY\u0001":"x"'),
        (b'"n":"vm"', rb'"n":"\"e\":\"5"'),
    ],
)
def test_headers_that_are_not_like_those_of_sends_are_parsed_each_time(old: bytes, new: bytes) -> None:
    learning = reader()
    text = header().replace(old, new)
    assert text != header()
    for _ in range(4):
        if old != b'"n":"vm"':
            assert not is_known(learning.read(text, b""))
        assert reading(learning, text) == reading(None, text)


def test_a_key_of_another_property_is_none_of_a_plain_message() -> None:
    learning = reader()
    for _ in range(2):
        command = learning.read(header(before="MY_"), b"")
    assert command is not None
    if isinstance(command.header, SentHeader):
        assert command.header.form.before == "MY_UNIQ_KEY\x01"


def test_interpreted_no_form_is_learned() -> None:
    parsing = reader(learns=False)
    assert not any(is_known(parsing.read(header(), b"")) for _ in range(5))


def test_topics_that_take_turns_are_all_known() -> None:
    learning = reader()
    topics = [f"topic-{number}" for number in range(MAX_FRESH)]
    for topic in topics:
        learning.read(header(topic=topic), b"")
    for _ in range(3):
        assert all(is_known(learning.read(header(topic=topic), b"")) for topic in topics)


def test_the_forms_of_use_are_kept_and_the_others_forgotten() -> None:
    learning = reader()
    for number in range(3 * MAX_FORMS):
        for _ in range(2):
            learning.read(header(topic=f"topic-{number}"), b"")
    assert len(learning._forms) == MAX_FORMS
    assert is_known(learning.read(header(topic=f"topic-{3 * MAX_FORMS - 1}"), b""))
    assert not is_known(learning.read(header(topic="topic-0"), b""))


def test_headers_that_are_never_alike_are_not_learned_from_for_long() -> None:
    learning = reader()
    for number in range(LEARNED_OF - 1):
        learning.read(header(topic=f"topic-{number}"), b"")
        assert len(learning._fresh) <= (MAX_FRESH if number < MAX_LEARNED else 0)
    for _ in range(3):
        learning.read(header(topic="later"), b"")
    assert is_known(learning.read(header(topic="later"), b""))
