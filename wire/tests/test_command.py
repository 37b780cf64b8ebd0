"""Remoting commands."""

from __future__ import annotations

from wire.codes import SERVER_VERSION, RequestCode, ResponseCode, SerializeType
from wire.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand


def test_a_new_command_is_an_empty_json_request_of_our_version() -> None:
    command = RemotingCommand(RequestCode.HEART_BEAT)

    assert (command.code, command.opaque, command.flag) == (34, 0, 0)
    assert command.version == SERVER_VERSION
    assert command.serialize_type == SerializeType.JSON
    assert command.ext_fields == {}
    assert command.body == b""
    assert command.remark is None
    assert not command.is_response
    assert not command.is_oneway


def test_commands_never_share_their_empty_ext_fields() -> None:
    first, second = RemotingCommand(1), RemotingCommand(1)
    first.ext_fields["topic"] = "t"

    assert second.ext_fields == {}


def test_the_flag_bits_tell_responses_and_oneway_requests() -> None:
    assert RemotingCommand(0, flag=RESPONSE_FLAG).is_response
    assert RemotingCommand(10, flag=ONEWAY_FLAG).is_oneway
    assert not RemotingCommand(10, flag=ONEWAY_FLAG).is_response


def test_a_response_carries_the_opaque_and_the_header_form_of_its_request() -> None:
    request = RemotingCommand(105, opaque=7, language=9, version=401, flag=ONEWAY_FLAG, serialize_type=1)

    response = request.response(ResponseCode.TOPIC_NOT_EXIST, "no route", {"a": "b"}, b"body")

    assert (response.code, response.opaque, response.serialize_type) == (17, 7, 1)
    assert response.flag == RESPONSE_FLAG
    assert response.version == SERVER_VERSION
    assert response.language == 0
    assert (response.remark, response.ext_fields, response.body) == ("no route", {"a": "b"}, b"body")


def test_a_command_knows_about_how_long_its_header_is() -> None:
    assert RemotingCommand(11).header_characters == 0
    assert RemotingCommand(11, ext_fields={"a": "xyz", "b": "x"}).header_characters == 4
    assert RemotingCommand(11, ext_json=b'{"a":"xyz"}').header_characters == 11
    assert RemotingCommand(11, header_json=b'{"code":11}').header_characters == 11


def test_a_request_that_let_go_of_what_it_brought_can_still_be_answered() -> None:
    request = RemotingCommand(11, opaque=7, ext_fields={"topic": "x" * 1_000}, remark="r", body=b"b", serialize_type=1)
    request.let_go()
    assert (request.ext_fields, request.remark, request.body) == ({}, None, b"")
    assert (request.code, request.response(0).opaque, request.response(0).serialize_type) == (11, 7, 1)


def test_a_command_shows_what_it_is_but_not_its_body() -> None:
    text = repr(RemotingCommand(10, opaque=5, flag=ONEWAY_FLAG, ext_fields={"topic": "t"}, body=b"secret"))

    assert text == "<RemotingCommand one-way request code=10 opaque=5 fields={'topic': 't'} body=6 bytes>"
    assert "response" in repr(RemotingCommand(0, flag=RESPONSE_FLAG))
    assert " request " in repr(RemotingCommand(10))
