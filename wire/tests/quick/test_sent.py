"""Sends that are recognised by their form are those that a parser reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from wire.command import RemotingCommand
from wire.headers.send import ShortSendMessageRequest
from wire.json_header import decode_fields_only, parse_ext_fields
from wire.quick.known_forms import (
    LEARNED_OF,
    MAX_FORMS,
    MAX_FRESH,
    MAX_LEARNED,
    MAX_SAMPLE_BYTES,
    FormReader,
)
from wire.quick.sent import SentHeader, send_reader
from wire.quick.whole import decoder
from wire.signature import RequestSigner, SigningKey
from wire.signed_fields import signed_names, values_of
from wire.tests.quick.known_reading import assert_read_as_ever, changed

HALF = r"TRAN_MSG\u0001true\u0002"


def header(
    key: str = "0A0B", queue: int | str = 1, born: int = 1795, opaque: int | str = 7, topic: str = "t", before: str = ""
) -> bytes:
    """Return the header as the Java client writes it."""
    return (
        f'{{"code":310,"extFields":{{"a":"g","b":"{topic}","c":"TBW102","d":"4","e":"{queue}","f":"0","g":"{born}",'
        f'"h":"0","i":"{before}UNIQ_KEY\\u0001{key}\\u0002WAIT\\u0001true\\u0002","j":"0","k":"false","m":"false",'
        f'"n":"vm"}},"flag":0,"language":"JAVA","opaque":{opaque},"serializeTypeCurrentRPC":"JSON","version":513}}'
    ).encode()


def reader(*, learns: bool = True) -> FormReader:
    return send_reader(decoder(ShortSendMessageRequest), learns=learns)


def is_sent(command: RemotingCommand | None) -> bool:
    assert command is not None
    return type(command.header) is SentHeader


@pytest.mark.parametrize("before", ["", HALF])
def test_a_form_is_known_after_one_header_and_tells_what_parsing_tells(before: str) -> None:
    learning = reader()
    assert not is_sent(learning.read(header(before=before), b""))
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
    assert_read_as_ever(learning, text, ShortSendMessageRequest)


SIGNER = RequestSigner("who", "secret")
SIGNED_BODY = b"body"


def signed_header(key: str = "0A0B", queue: int = 1, born: int = 1795, opaque: int = 7, more: str = "") -> bytes:
    """Return the header of a signed send."""
    members = json.loads(header(key, queue, born, opaque))
    command = RemotingCommand(310, ext_fields=members["extFields"], body=SIGNED_BODY)
    if more:
        command.ext_fields[more] = "x"
    SIGNER.sign(command)
    names = ("Signature", "AccessKey")
    first = {name: command.ext_fields.pop(name) for name in names}
    members["extFields"] = first | command.ext_fields
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def test_signed_sends_have_a_form_too_which_tells_what_is_signed() -> None:
    learning = reader()
    assert not is_sent(learning.read(signed_header(), SIGNED_BODY))
    for number in range(50):  # signatures have all characters of base64
        text = signed_header(f"F0F{number}", number, 1_795_416_607_191, number)
        known = learning.read(text, SIGNED_BODY)
        assert known is not None
        sent = known.header
        assert isinstance(sent, SentHeader)
        assert sent.form.access_key == "who"
        fields = parse_ext_fields(decode_fields_only(text).extFields)
        assert sent.signed_values() == values_of(fields, signed_names(fields))
        assert sent.signature.decode() == fields["Signature"]
        assert SigningKey(b"secret").is_signature(sent.signature, sent.signed_values(), SIGNED_BODY)
        assert_read_as_ever(learning, text, ShortSendMessageRequest)


@pytest.mark.parametrize("name", ["SecurityToken", "__ZONE_NAME", "__ZONE_MODE", "_UNIQUE_KEY_QUERY"])
def test_what_a_client_may_have_signed_or_not_is_left_to_who_reads_the_fields(name: str) -> None:
    learning = reader()
    learning.read(signed_header(more=name), SIGNED_BODY)
    known = learning.read(signed_header("F0F1", more=name), SIGNED_BODY)
    assert known is not None
    assert isinstance(known.header, SentHeader)
    assert known.header.form.access_key == ""


def test_unsigned_sends_and_signatures_elsewhere_have_no_account() -> None:
    learning = reader()
    learning.read(header(), SIGNED_BODY)
    known = learning.read(header("F0F1"), SIGNED_BODY)
    assert known is not None
    assert isinstance(known.header, SentHeader)
    assert known.header.form.access_key == ""
    nested = signed_header().replace(b'"Signature":', b'"y":{"Signature":').replace(b',"AccessKey"', b'},"AccessKey"')
    learning = reader()
    learning.read(nested, SIGNED_BODY)
    known = learning.read(nested.replace(b"0A0B", b"F0F1"), SIGNED_BODY)
    assert known is not None
    assert not isinstance(known.header, SentHeader) or known.header.form.access_key == ""


@settings(deadline=None, max_examples=300)
@given(changed(signed_header("CD")))
def test_signed_headers_with_other_bytes_are_read_as_ever(text: bytes) -> None:
    learning = reader()
    for key in "AB":
        learning.read(signed_header(key), b"")
    assert_read_as_ever(learning, text, ShortSendMessageRequest)


@settings(deadline=None, max_examples=300)
@given(changed(header("CD")))
def test_headers_with_other_bytes_are_read_as_ever(text: bytes) -> None:
    learning = reader()
    for key in "AB":
        learning.read(header(key), b"")
    assert_read_as_ever(learning, text, ShortSendMessageRequest)


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
    ],
)
def test_headers_that_are_not_like_those_of_sends_are_parsed_each_time(old: bytes, new: bytes) -> None:
    learning = reader()
    text = header().replace(old, new)
    assert text != header()
    for _ in range(4):
        assert not is_sent(learning.read(text, b""))
        assert_read_as_ever(learning, text, ShortSendMessageRequest)


def test_quotes_within_a_value_are_no_mark() -> None:
    learning = reader()
    text = header().replace(b'"n":"vm"', rb'"n":"\"e\":\"5"')
    for _ in range(4):
        assert_read_as_ever(learning, text, ShortSendMessageRequest)


def test_a_mark_that_is_of_another_field_makes_no_form() -> None:
    learning = reader()
    text = header().replace(b'"c":"TBW102"', rb'"c":"UNIQ_KEY\u00010A0B"').replace(b'"i":"UNIQ_', rb'"i":"UNIQ\u005f')
    for _ in range(3):
        assert not is_sent(learning.read(text, b""))
    assert_read_as_ever(learning, text, ShortSendMessageRequest)


def test_a_key_of_another_property_is_none_of_a_plain_message() -> None:
    learning = reader()
    for _ in range(2):
        command = learning.read(header(before="MY_"), b"")
    assert command is not None
    assert isinstance(command.header, SentHeader)
    assert command.header.form.before == "MY_UNIQ_KEY\x01"


def test_interpreted_no_form_is_learned() -> None:
    parsing = reader(learns=False)
    assert not any(is_sent(parsing.read(header(), b"")) for _ in range(5))


def test_a_long_header_is_not_kept_as_a_form() -> None:
    learning = reader()
    text, longer = (header(topic="t" * (MAX_SAMPLE_BYTES - len(header()) + more)) for more in (1, 2))
    for _ in range(3):
        assert not is_sent(learning.read(longer, b""))
        assert learning._fresh == []
    learning.read(text, b"")
    assert is_sent(learning.read(text, b""))


def test_topics_that_take_turns_are_all_known() -> None:
    learning = reader()
    topics = [f"topic-{number}" for number in range(MAX_FRESH)]
    for topic in topics:
        learning.read(header(topic=topic), b"")
    for _ in range(3):
        assert all(is_sent(learning.read(header(topic=topic), b"")) for topic in topics)


def test_the_forms_of_use_are_kept_and_the_others_forgotten() -> None:
    learning = reader()
    for number in range(3 * MAX_FORMS):
        for _ in range(2):
            learning.read(header(topic=f"topic-{number}"), b"")
    assert len(learning._forms) == MAX_FORMS
    assert is_sent(learning.read(header(topic=f"topic-{3 * MAX_FORMS - 1}"), b""))
    assert not is_sent(learning.read(header(topic="topic-0"), b""))


def test_headers_that_are_never_alike_are_not_learned_from_for_long() -> None:
    learning = reader()
    for number in range(LEARNED_OF - 1):
        learning.read(header(topic=f"topic-{number}"), b"")
        assert len(learning._fresh) <= (MAX_FRESH if number < MAX_LEARNED else 0)
    for _ in range(3):
        learning.read(header(topic="later"), b"")
    assert is_sent(learning.read(header(topic="later"), b""))
