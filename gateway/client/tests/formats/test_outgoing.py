import msgspec
import pytest

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.errors import MessageRefused, MessageTooLarge
from gateway.client.formats.outgoing import (
    check_batch,
    compressed_body,
    full_properties,
    json_properties,
    plain_properties,
    split_batch,
)
from gateway.client.message import Message
from wire.message.batch import build_batch
from wire.message.properties import parse_properties

ID = "7F0000010A2B3C4D5E6F000000010000"


def test_the_quick_way_writes_what_the_thorough_way_writes() -> None:
    message = Message("t", b"x")
    quick = plain_properties(message, ID)
    assert quick == json_properties(full_properties(message, ID))
    assert quick is not None
    assert parse_properties(msgspec.json.decode(quick, type=str)) == {"WAIT": "true", "UNIQ_KEY": ID}


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"x", keys="k"),
        Message("t", b"x", tags="T"),
        Message("t", b"x", properties={"a": "b"}),
        Message("t", b"x", sharding_key="s"),
        Message("t", b"x", delay_level=1),
        Message("t", b"x", delay=0),
        Message("t", b"x", deliver_at=5),
        Message("t", b"x", wait_store_msg_ok=False),
    ],
)
def test_a_message_with_properties_takes_the_thorough_way(message: Message) -> None:
    assert plain_properties(message, ID) is None


def test_what_the_producer_adds_wins() -> None:
    properties = full_properties(Message("t", b"x", tags="T"), ID, {"TRAN_MSG": "true", "UNIQ_KEY": "OTHER"})
    assert properties == {"TAGS": "T", "WAIT": "true", "UNIQ_KEY": "OTHER", "TRAN_MSG": "true"}


def test_too_many_properties_are_refused() -> None:
    message = Message("t", b"x", properties={"a": "ü" * 17_000})
    with pytest.raises(MessageTooLarge, match="32767"):
        json_properties(full_properties(message, ID))


def test_long_bodies_are_compressed() -> None:
    body = b"x" * 5000
    compressed, flags = compressed_body(Message("t", body), ProducerSettings())
    assert len(compressed) < len(body)
    assert flags == 0x301


@pytest.mark.parametrize(
    ("body", "settings"),
    [
        (b"x" * 4095, ProducerSettings()),
        (b"x" * 5000, ProducerSettings(compress_type="none")),
        (bytes(range(256)) * 1, ProducerSettings(compress_msg_body_over=100)),
    ],
)
def test_others_are_not(body: bytes, settings: ProducerSettings) -> None:
    assert compressed_body(Message("t", body), settings) == (body, 0)


def test_the_limit_is_that_of_the_body_before_compression() -> None:
    with pytest.raises(MessageTooLarge):
        compressed_body(Message("t", b"x" * 101), ProducerSettings(max_message_size=100))


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "no messages"),
        ((Message("t", b"x") for _ in range(2)), "generator, not a sequence: make a list"),
        ([Message("a", b"x"), Message("b", b"x")], "one topic"),
        ([Message("a", b"x", delay_level=1)], "delayed"),
        ([Message("a", b"x"), Message("a", b"x", wait_store_msg_ok=False)], "wait_store_msg_ok"),
        ([Message("%RETRY%g", b"x")], "retry"),
    ],
)
def test_what_cannot_travel_together_is_refused(messages: list[Message], problem: str) -> None:
    with pytest.raises(MessageRefused, match=problem):
        check_batch(messages)


def test_a_batch_is_cut_at_the_limit() -> None:
    messages = [Message("t", b"x" * 100) for _ in range(10)]
    ids = [f"{number:032d}" for number in range(10)]
    pieces = list(split_batch(messages, ids, 1000))
    assert [message for place, _ in pieces for message in messages[place]] == messages
    assert all(len(build_batch(parts)) <= 1000 for _, parts in pieces)
    assert [len(parts) for _, parts in pieces] == [5, 5]
    assert parse_properties(pieces[1][1][0].properties)["UNIQ_KEY"] == ids[5]


def test_a_message_that_fits_no_batch_is_refused() -> None:
    with pytest.raises(MessageTooLarge):
        list(split_batch([Message("t", b"x" * 1000)], [ID], 1000))
