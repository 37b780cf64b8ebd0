"""A conversation with a server that takes the short ways and with one that takes the plain ones: the same bytes."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any, Final

from gateway.client.testing.server import GatewayServer, free_port
from gateway.tests.broker.send_requests import batch, short
from gateway.tests.broker.whole_broker import pulling, sending
from wire.codes import RequestCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.frame import build_frame, parse_frame
from wire.headers.declare import Header, build_header
from wire.headers.offsets import QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.record import parse_records

HALF: Final = {"TRAN_MSG": "true", "WAIT": "true", "PGROUP": "producers"}
COMMIT, ROLLBACK, UNKNOWN = SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK, 0
ALIKE = 6
"""Requests of one form; the third is recognised by it."""
HOUR: Final = {"transactionTimeOut": "3600000", "transactionCheckInterval": "3600000"}


class Talk:
    """One connection, and what was answered on it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._stream = self._socket.makefile("rb")
        self._opaque = 0
        self.answers: list[bytes] = []

    def ask(self, code: int, header: Header | None, body: bytes = b"", flag: int = 0) -> RemotingCommand | None:
        """Ask, and keep the answer as it came but for times and the port of this connection."""
        self._opaque += 1
        fields = {} if header is None else build_header(header)
        command = RemotingCommand(code, opaque=self._opaque, flag=flag, ext_fields=fields, body=body)
        self._socket.sendall(build_frame(command))
        if flag & ONEWAY_FLAG:
            return None
        length = self._stream.read(4)
        frame = self._stream.read(struct.unpack(">I", length)[0])
        answer = parse_frame(frame, 0, len(frame))
        kept = frame
        if code == RequestCode.PULL_MESSAGE and answer.body:
            kept = frame[: -len(answer.body)] + "".join(map(_told, parse_records(answer.body))).encode()
        self.answers.append(kept)
        return answer

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def _told(message: Any) -> str:
    """Return the facts of a record, without its store time and the port from which it came."""
    shown = {name: getattr(message, name) for name in dir(message) if not name.startswith("_")}
    told = {name: value for name, value in shown.items() if not callable(value)}
    told["born_host"] = told["born_host"][0]
    del told["stored_at_ms"]
    told["properties"] = bytes(told["properties"])
    return repr(sorted(told.items(), key=lambda pair: pair[0]))


def hold(talk: Talk) -> None:
    """Every request that has a short way, many times alike, and with what no short way fits."""
    for number in range(ALIKE):
        own = {"UNIQ_KEY": f"0A{number:X}", "WAIT": "true", "KEYS": "k"}
        header = sending(properties=own, queue_id=number % 2, flag=number)
        talk.ask(RequestCode.SEND_MESSAGE_V2, short(header), b"body %d" % number)
    for topic, queue_id in (("orders", 9), ("no topic!", 0), ("", 0)):
        talk.ask(RequestCode.SEND_MESSAGE_V2, short(sending(topic, queue_id=queue_id)), b"x")
    for _ in range(3):
        parts = [(b"%d" % part, {"UNIQ_KEY": f"0B{part:X}", "WAIT": "true"}) for part in range(5)]
        header = sending(properties={"WAIT": "true"}, batch=True)
        talk.ask(RequestCode.SEND_BATCH_MESSAGE, short(header), batch(*parts))
    for number in range(ALIKE):
        properties = {**HALF, "UNIQ_KEY": f"0C{number:X}"}
        half = talk.ask(
            RequestCode.SEND_MESSAGE_V2,
            short(sending(properties=properties, sys_flag=SysFlag.TRANSACTION_PREPARED)),
            b"half %d" % number,
        )
        assert half is not None
        ext_fields = half.ext_fields
        decision = (COMMIT, ROLLBACK, UNKNOWN)[number % 3]
        outcome = EndTransactionRequest(
            topic="orders",
            producer_group="producers",
            tran_state_table_offset=int(ext_fields["queueOffset"]),
            commit_log_offset=parse_offset_message_id(ext_fields["msgId"])[1],
            commit_or_rollback=decision,
            from_transaction_check=False,
            msg_id=ext_fields["transactionId"],
            transaction_id=ext_fields["transactionId"],
        )
        talk.ask(RequestCode.END_TRANSACTION, outcome, flag=0 if decision else ONEWAY_FLAG)
    for offset in (0, 1, 2, 3, 100, -1):
        talk.ask(RequestCode.PULL_MESSAGE, pulling(offset, sys_flag=4))
    offsets: dict[str, Any] = {"consumer_group": "group", "topic": "orders", "queue_id": 0}
    talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest(**offsets, commit_offset=2))
    talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequest(**offsets))
    talk.ask(4_711, None)
    talk.ask(RequestCode.SEND_MESSAGE_V2, None, b"x")


def conversation(data: Path, ports: tuple[int, int], *, short_ways: bool) -> list[bytes]:
    """Return the answers of a new server."""
    settings = {**HOUR, "gateway.shortWays": str(short_ways).lower(), "brokerName": "b", "flushDiskType": "SYNC_FLUSH"}
    with GatewayServer(data, settings=settings, port=ports[0], nameserver_port=ports[1]) as server:
        talk = Talk(server.broker)
        try:
            hold(talk)
            return talk.answers
        finally:
            talk.close()


def test_the_short_ways_answer_what_the_plain_ones_answer(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    quick = conversation(tmp_path / "short", ports, short_ways=True)
    plain = conversation(tmp_path / "plain", ports, short_ways=False)
    assert quick == plain
