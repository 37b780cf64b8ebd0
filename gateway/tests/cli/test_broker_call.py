"""One request over a socket, and everything that can go wrong."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from gateway.cli.broker_call import BrokerCall, BrokerRefused, BrokerUnreachable
from gateway.settings.addresses import Address
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.headers.transaction import TransactionStatisticsRequest

CODE = RequestCode.GATEWAY_TRANSACTION_STATISTICS
HEADER = TransactionStatisticsRequest(max_num=3)


class Far:
    """The far side: answers each request with what ``answer`` makes of it, in pieces of 7 bytes."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._connection = Connection()
        self._pieces: list[bytes] = []
        self.closed = False

    def sendall(self, data: bytes) -> None:
        for command in self._connection.receive_data(data):
            raw = self._answer(command)
            self._pieces += [raw[at : at + 7] for at in range(0, len(raw), 7)]

    def recv(self, count: int) -> bytes:
        if not self._pieces:
            raise TimeoutError("timed out")
        return self._pieces.pop(0)

    def close(self) -> None:
        self.closed = True


def asked(monkeypatch: pytest.MonkeyPatch, answer: Any) -> bytes:
    far = Far(answer)
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: far)
    try:
        with BrokerCall(Address("127.0.0.1", 10911)) as call:
            return call.ask(CODE, HEADER)
    finally:
        assert far.closed


def test_the_body_of_the_answer_is_given_and_others_messages_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: RemotingCommand) -> bytes:
        assert command.ext_fields == {"maxNum": "3"}
        other = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=command.opaque)
        return build_frame(other) + build_frame(command.response(ResponseCode.SUCCESS, body=b"body"))

    assert asked(monkeypatch, answer) == b"body"


def test_a_refusal_carries_the_brokers_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerRefused, match="not from there") as refused:
        asked(monkeypatch, lambda command: build_frame(command.response(ResponseCode.NO_PERMISSION, "not from there")))
    assert (refused.value.code, refused.value.exit_code) == (ResponseCode.NO_PERMISSION, 1)


def test_a_server_that_does_not_know_the_request_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerRefused, match="not a RocketMQ Gateway broker"):
        asked(monkeypatch, lambda command: build_frame(command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)))


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"", "did not answer"), (b"HTTP/1.1 400 Bad Request\r\n", "failed"), (b"\xff" * 20, "failed")],
)
def test_silence_and_other_protocols_are_told(monkeypatch: pytest.MonkeyPatch, raw: bytes, text: str) -> None:
    with pytest.raises(BrokerUnreachable, match=text) as unreachable:
        asked(monkeypatch, lambda command: raw)
    assert unreachable.value.exit_code == 2
