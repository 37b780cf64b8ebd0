from __future__ import annotations

import json

import pytest

from gateway.cli.clients.json_messages import message_line, message_of_line
from gateway.client.errors import MessageRefused
from gateway.client.message import ReceivedMessage
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record, parse_record

HOST = pack_host("127.0.0.1", 10911)


def received(body: bytes, **properties: str) -> ReceivedMessage:
    stored = OutgoingMessage("orders", 3, 0, 0, 1_000, HOST, HOST, 0, 0, body, build_properties(properties))
    return ReceivedMessage(parse_record(build_record(stored, 17, 4711, 1_500)), "broker-a")


def test_a_line_says_where_the_message_lies_and_what_it_holds() -> None:
    message = received("größe".encode(), KEYS="a b", TAGS="t", UNIQ_KEY="ID", host="web1")
    assert json.loads(message_line(message)) == {
        "topic": "orders",
        "broker": "broker-a",
        "queue": 3,
        "offset": 17,
        "msg_id": "ID",
        "stored_at": "1970-01-01T00:00:01.500Z",
        "born_at": "1970-01-01T00:00:01.000Z",
        "tags": "t",
        "keys": ["a", "b"],
        "properties": {"host": "web1"},
        "body": "größe",
    }
    assert "größe" in message_line(message)


def test_properties_of_the_protocol_are_shown_when_asked_for() -> None:
    line = json.loads(message_line(received(b"x", UNIQ_KEY="ID", PGROUP="g"), all_properties=True))
    assert line["properties"] == {"UNIQ_KEY": "ID", "PGROUP": "g"}


def test_a_body_that_is_no_text_travels_as_base64() -> None:
    line = json.loads(message_line(received(b"\x00\xff")))
    assert line["body_base64"] == "AP8="
    assert "body" not in line


@pytest.mark.parametrize("body", [b"text", "ü".encode(), b"\x00\xff"])
def test_what_is_printed_can_be_sent_again(body: bytes) -> None:
    again = message_of_line(message_line(received(body, KEYS="a b", TAGS="t", host="web1", __SHARDINGKEY="s")), "other")
    assert (again.topic, again.body, again.tags, again.keys) == ("other", body, "t", ("a", "b"))
    assert (again.properties, again.sharding_key) == ({"host": "web1"}, "s")


def test_a_body_that_is_an_object_is_sent_as_its_json() -> None:
    assert message_of_line('{"body": {"total": 3, "name": "ä"}}', "t").body == '{"total": 3, "name": "ä"}'.encode()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("no", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", "neither body nor body_base64"),
        ('{"body": null}', "neither body nor body_base64"),
        ('{"body_base64": "%%"}', "is not base64"),
        ('{"body": "x", "properties": 3}', "not a mapping of texts"),
        ('{"body": "x", "keys": 3}', "wrong type"),
        ('{"body": ""}', "is empty"),
        ('{"body": "x", "keys": ["a b"]}', "white space"),
        ('{"body": "x", "delay_level": 99}', "delay_level"),
    ],
)
def test_a_line_that_makes_no_message_is_refused(line: str, problem: str) -> None:
    with pytest.raises(MessageRefused, match=problem):
        message_of_line(line, "orders")


def test_a_line_moves_no_cursor_and_is_the_same_value() -> None:
    bad = "\x1b[2J\x7f\x9b\u2028\u202e"
    line = message_line(received(bad.encode(), note=bad))
    assert line.isprintable()
    assert json.loads(line)["body"] == json.loads(line)["properties"]["note"] == bad
