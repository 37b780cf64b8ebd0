"""Tests of the broadcasting consumer's file: Java's files are read, and its text is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client.consume.local_offsets import build_offsets, offsets_path, parse_offsets
from gateway.client.message import MessageQueue
from wire.errors import BodyError

OFFSETS = {MessageQueue("orders", "broker-a", 3): 17, MessageQueue("orders", "broker-a", 4): 5}
# Written by OffsetSerializeWrapper.toJson(true) of rocketmq-client 4.9.8 (fastjson) and 5.5.0 (fastjson2).
JAVA_4_9_8 = (
    '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":4,\n\t\t\t"topic":"orders"\n\t\t}:5,{\n'
    '\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":3,\n\t\t\t"topic":"orders"\n\t\t}:17\n\t}\n}'
)
JAVA_5_5_0 = (
    '{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":4,\n\t\t\t"topic":"orders"\n\t\t}:5,\n'
    '\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":3,\n\t\t\t"topic":"orders"\n\t\t}:17\n\t}\n}'
)


@pytest.mark.parametrize("text", [JAVA_4_9_8, JAVA_5_5_0])
def test_a_java_file_is_read(text: str) -> None:
    assert parse_offsets(text.encode()) == OFFSETS


def test_what_is_written_is_read_and_has_objects_as_keys() -> None:
    text = build_offsets(OFFSETS)
    assert parse_offsets(text) == OFFSETS
    assert b'{"brokerName":"broker-a","queueId":3,"topic":"orders"}:17' in text


@pytest.mark.parametrize("text", [b"", b"[]", b'{"offsetTable":{"x":1}}', b'{"offsetTable":5}'])
def test_other_files_are_refused(text: bytes) -> None:
    with pytest.raises(BodyError):
        parse_offsets(text)


def test_the_path_is_that_of_the_java_client() -> None:
    assert offsets_path("/tmp/o", "10.0.0.1@DEFAULT", "g") == Path("/tmp/o/10.0.0.1@DEFAULT/g/offsets.json")
    assert "fe80__1@DEFAULT" in str(offsets_path("/tmp/o", "fe80::1@DEFAULT", "a|b"))
    assert offsets_path("~/o", "c", "g").is_absolute()
