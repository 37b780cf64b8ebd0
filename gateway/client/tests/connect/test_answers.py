"""Tests of reading answers."""

from __future__ import annotations

import pytest

from gateway.client.connect.answers import body_of, header_of
from gateway.client.errors import ProtocolError
from wire.bodies.topics import TopicList
from wire.command import RemotingCommand
from wire.headers.send import SendMessageResponse

ADDRESS = "10.0.0.1:10911"


def test_header_and_body_of_an_answer_are_read() -> None:
    fields = {"msgId": "7F", "queueId": "3", "queueOffset": "12"}
    answer = RemotingCommand(0, ext_fields=fields, body=b'{"topicList":["orders"]}')
    assert header_of(SendMessageResponse, answer, ADDRESS).queue_offset == 12
    assert body_of(TopicList, answer, ADDRESS).topic_list == ("orders",)


@pytest.mark.parametrize("fields", [None, {"msgId": "7F", "queueId": "x", "queueOffset": "12"}, {"queueOffset": "12"}])
def test_a_header_that_cannot_be_read_is_told_with_whose_it_is(fields: dict[str, str] | None) -> None:
    with pytest.raises(ProtocolError, match="header of an answer cannot be read") as told:
        header_of(SendMessageResponse, RemotingCommand(0, ext_fields=fields), ADDRESS)
    assert ADDRESS in str(told.value)
    assert told.value.__cause__ is not None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"topicList":5}', b"\xff"])
def test_a_body_that_cannot_be_read_is_told_with_whose_it_is(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="body of an answer cannot be read") as told:
        body_of(TopicList, RemotingCommand(0, body=body), ADDRESS)
    assert ADDRESS in str(told.value)
