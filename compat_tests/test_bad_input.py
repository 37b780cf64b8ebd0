"""Bytes and requests that no good client sends: each gets its answer, and good clients notice nothing.

Where the expected answer is a code it is the one Apache RocketMQ 5.5.0 gives, except that it answers some
unreadable frames with silence, and an offset inside a record with whatever stands there.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import frames, scenarios
from compat_tests.environment import wait_until
from compat_tests.frames import Frame
from compat_tests.java_client import JavaClient
from compat_tests.peers import GatewayProcess
from compat_tests.scenarios import Scene

SUCCESS, SYSTEM_ERROR, NOT_SUPPORTED, MESSAGE_ILLEGAL = 0, 1, 3, 13
TOPIC_NOT_EXIST, NOT_FOUND, OFFSET_MOVED, QUERY_NOT_FOUND = 17, 19, 21, 22
SUBSCRIPTION_NOT_EXIST, GROUP_NOT_EXIST, INVALID_PARAMETER = 24, 26, 29
_TOPIC = "good_topic"
_MIB = 1 << 20
TLS_ALERT_BYTES = 7
FATAL_TLS_ALERT = re.compile(rb"\x15\x03.\x00\x02\x02.", re.DOTALL)
"""The alert of RFC 8446, 6, to a peer whose bytes begin like a handshake of TLS and are none."""

GARBAGE = {
    "random": bytes((i * 73 + 41) % 256 for i in range(4096)),
    "http": b"GET /index.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls-hello": bytes.fromhex("16030100") + b"\x05\x01" * 200,
    "two-gibibytes": struct.pack(">II", 0x7FFFFFFF, 20) + b"{",
    "negative-length": struct.pack(">iI", -1, 20) + b"{" * 40,
    "length-too-short": struct.pack(">II", 2, 0) + b"{}",
    "header-longer-than-frame": struct.pack(">II", 20, 4000) + b"{" * 16,
    "unknown-serialisation": struct.pack(">II", 14, 0x09000000 | 10) + b"{" * 10,
    "header-not-json": struct.pack(">II", 14, 10) + b"not json!!",
    "header-a-list": struct.pack(">II", 14, 10) + b"[1,2,3,4 ]",
    "binary-header-cut": struct.pack(">II", 14, 0x01000000 | 10) + b"\x00" * 10,
    "binary-header-lies": struct.pack(">II", 25, 0x01000000 | 21) + b"\x00" * 13 + b"\x7f\xff\xff\xff" + b"\x00" * 4,
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path_factory.mktemp("bad") / "data")
    process.start()
    try:
        made = frames.ask(broker(process), create_topic(_TOPIC))
        assert made is not None
        assert made.code == SUCCESS, made.remark
        yield process
        process.stop()
    finally:
        process.kill()


@pytest.fixture(autouse=True)
def stays_good(gateway: GatewayProcess) -> Iterator[None]:
    """After every bad input: a good message is stored and read, and memory has not grown by 32 MiB."""
    before = gateway.rss_bytes
    yield
    assert gateway.alive(), gateway.failure("ended")
    sent = ask(gateway, send())
    assert sent.code == SUCCESS, sent.remark
    # Held until the message is in its queue: sysFlag 2 | 4.
    place = {"queueOffset": sent.fields["queueOffset"], "queueId": sent.fields["queueId"]}
    read = ask(gateway, pull(**place, sysFlag="6", suspendTimeoutMillis="5000"))
    assert read.code == SUCCESS, read.remark
    assert b"good body" in read.body
    assert gateway.rss_bytes < before + 32 * _MIB, f"grew from {before} to {gateway.rss_bytes} bytes"


def broker(gateway: GatewayProcess) -> tuple[str, int]:
    return ("127.0.0.1", gateway.broker_port)


def ask(gateway: GatewayProcess, frame: Frame) -> Frame:
    answer = frames.ask(broker(gateway), frame)
    assert answer is not None, "the connection was closed"
    assert answer.header["flag"] & 1
    assert answer.header["opaque"] == frame.header["opaque"]
    return answer


def send(body: bytes = b"good body", changes: dict[str, str] | None = None) -> Frame:
    """SEND_MESSAGE_V2; `changes` by the one-letter names of its header, "" removes a field."""
    fields = {"a": "group_p", "b": _TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000"}
    fields |= {"h": "0", "i": "KEYS\x01k\x02", "j": "0", "k": "false", "m": "false", **(changes or {})}
    return frames.request(frames.SEND_V2, {k: v for k, v in fields.items() if v != ""}, body, opaque=77)


def pull(**changes: str) -> Frame:
    fields = {
        "consumerGroup": "group_c",
        "topic": _TOPIC,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
    }
    # sysFlag 4: the subscription comes with the request, no heartbeat needed.
    fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
    fields |= {"subVersion": "1", **changes}
    return frames.request(11, {k: v for k, v in fields.items() if v != ""}, opaque=78)


def create_topic(topic: str) -> Frame:
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
    }
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    return frames.request(17, fields)


def closed(connection: socket.socket) -> bool:
    """Return whether the peer ends the connection without sending anything but a fatal alert of TLS."""
    sent = b""
    try:
        while len(sent) <= TLS_ALERT_BYTES and (more := connection.recv(64)):
            sent += more
    except ConnectionResetError:
        pass
    return not sent or FATAL_TLS_ALERT.fullmatch(sent) is not None


@pytest.mark.parametrize("port", ["broker", "nameserver"])
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_closes_its_connection_only(gateway: GatewayProcess, garbage: bytes, port: str) -> None:
    number = gateway.broker_port if port == "broker" else gateway.nameserver_port
    with socket.create_connection(("127.0.0.1", number), timeout=10) as good:
        with socket.create_connection(("127.0.0.1", number), timeout=10) as bad:
            bad.sendall(garbage)
            assert closed(bad)
        good.sendall(frames.request(frames.GET_ROUTE, {"topic": "nowhere"}).pack())
        assert frames.read(good) is not None


def test_garbage_after_a_good_request_ends_the_connection_and_the_request_is_carried_out(
    gateway: GatewayProcess,
) -> None:
    """Its answer may be lost with the connection, as on Apache RocketMQ; the message may not."""
    end = frames.request(30, {"topic": _TOPIC, "queueId": "2"})
    before = int(ask(gateway, end).fields["offset"])
    with socket.create_connection(broker(gateway), timeout=10) as connection:
        connection.sendall(send(changes={"e": "2"}).pack() + GARBAGE["http"])
        answer = frames.read(connection)
        assert answer is None or (answer.code == SUCCESS and closed(connection))
    wait_until(lambda: int(ask(gateway, end).fields["offset"]) == before + 1, "the message being stored")


def test_a_frame_byte_by_byte_is_answered(gateway: GatewayProcess) -> None:
    with socket.create_connection(broker(gateway), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in send().pack():
            connection.sendall(bytes([byte]))
        answer = frames.read(connection)
        assert answer is not None
        assert answer.code == SUCCESS


def test_half_frames_of_many_connections_are_forgotten(gateway: GatewayProcess) -> None:
    half = send(b"x" * _MIB).pack()[: _MIB // 2]
    for _ in range(50):
        with socket.create_connection(broker(gateway), timeout=10) as connection:
            connection.sendall(half)


def test_a_hundred_announced_frames_that_never_come_cost_no_memory(gateway: GatewayProcess) -> None:
    """The largest frame that is allowed is announced, its bytes are not sent."""
    before = gateway.rss_bytes
    head = struct.pack(">II", 16 * _MIB - 4, 100) + b"{"
    held = [socket.create_connection(broker(gateway), timeout=10) for _ in range(100)]
    try:
        for connection in held:
            connection.sendall(head)
        ask(gateway, send())
        assert gateway.rss_bytes < before + 16 * _MIB
    finally:
        for connection in held:
            connection.close()


def test_a_client_that_does_not_read_its_answers_is_not_buffered_without_limit(
    gateway: GatewayProcess,
) -> None:
    for _ in range(8):
        assert ask(gateway, send(b"z" * (256 * 1024))).code == SUCCESS
    before = gateway.rss_bytes
    asked = pull(queueOffset="0").pack() * 2000
    with socket.create_connection(broker(gateway), timeout=5) as connection:
        stuffer = threading.Thread(target=stuff, args=(connection, asked), daemon=True)
        stuffer.start()
        stuffer.join(timeout=3)
        assert ask(gateway, send()).code == SUCCESS
        assert gateway.rss_bytes < before + 128 * _MIB, f"{gateway.rss_bytes / _MIB:.0f} MiB"
    stuffer.join(timeout=10)


def stuff(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:
        return


@pytest.mark.parametrize("code", [9999, -1, 0, 65535, 2_000_000_000])
def test_an_unknown_code_is_answered_as_not_supported(gateway: GatewayProcess, code: int) -> None:
    answer = ask(gateway, frames.request(code))
    assert answer.code == NOT_SUPPORTED
    assert str(code) in answer.remark


def test_a_known_but_unsupported_code_is_answered_with_its_name(gateway: GatewayProcess) -> None:
    answer = ask(gateway, frames.request(22))
    assert answer.code == NOT_SUPPORTED
    assert "GET_TOPIC_CONFIG_LIST" in answer.remark


# Without producer group or default queue number Apache RocketMQ stores the message: no client omits them.
@pytest.mark.parametrize("missing", ["b", "e", "f", "g"])
def test_a_send_without_a_required_field_is_an_error(gateway: GatewayProcess, missing: str) -> None:
    assert ask(gateway, send(changes={missing: ""})).code == SYSTEM_ERROR


@pytest.mark.parametrize("value", ["one", "1.5", "0x10", "99999999999999999999", "1 2"])
@pytest.mark.parametrize("field", ["d", "e", "f", "g"])
def test_a_non_numeric_field_is_an_error(gateway: GatewayProcess, field: str, value: str) -> None:
    assert ask(gateway, send(changes={field: value})).code == SYSTEM_ERROR


@pytest.mark.parametrize("missing", ["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"])
def test_a_pull_without_a_required_field_is_an_error(gateway: GatewayProcess, missing: str) -> None:
    assert ask(gateway, pull(**{missing: ""})).code == SYSTEM_ERROR


BAD_TOPICS = [
    "../../x",
    "a/b",
    "a" * 128,
    "spaces in it",
    "tab\tin",
    "ünïcode",
    "nul\x00",
    "semi;colon",
    "a\nb",
]


@pytest.mark.parametrize("topic", BAD_TOPICS)
def test_an_invalid_topic_name_is_refused_when_sending(gateway: GatewayProcess, topic: str) -> None:
    assert ask(gateway, send(changes={"b": topic})).code == INVALID_PARAMETER
    assert not escaped(gateway.data)


@pytest.mark.parametrize("topic", [*BAD_TOPICS, "", "TBW102"])
def test_an_invalid_topic_name_is_refused_when_creating(gateway: GatewayProcess, topic: str) -> None:
    assert ask(gateway, create_topic(topic)).code == INVALID_PARAMETER
    assert not escaped(gateway.data)


def escaped(data: Path) -> list[Path]:
    """Files beside the data directory that are not its log."""
    return [path for path in data.parent.iterdir() if path.name not in (data.name, data.name + ".log")]


def test_a_body_over_the_limit_is_refused(gateway: GatewayProcess) -> None:
    assert ask(gateway, send(b"x" * (4 * _MIB + 1))).code == MESSAGE_ILLEGAL


def test_properties_over_the_limit_are_refused(gateway: GatewayProcess) -> None:
    assert ask(gateway, send(changes={"i": "KEYS\x01" + "k" * 40_000 + "\x02"})).code == MESSAGE_ILLEGAL


@pytest.mark.parametrize("queue", ["4", "1000000", "2147483647"])
def test_a_queue_id_out_of_range_is_refused(gateway: GatewayProcess, queue: str) -> None:
    assert ask(gateway, send(changes={"e": queue})).code == INVALID_PARAMETER
    assert ask(gateway, pull(queueId=queue)).code == INVALID_PARAMETER


def test_a_pull_at_the_end_finds_nothing_and_one_beyond_it_is_moved(gateway: GatewayProcess) -> None:
    end = ask(gateway, frames.request(30, {"topic": _TOPIC, "queueId": "0"})).fields["offset"]
    at_end = ask(gateway, pull(queueOffset=end))
    assert (at_end.code, at_end.fields["nextBeginOffset"]) == (NOT_FOUND, end)
    for beyond in (str(int(end) + 1), str(2**62)):
        moved = ask(gateway, pull(queueOffset=beyond))
        assert (moved.code, moved.fields["nextBeginOffset"]) == (OFFSET_MOVED, end)
    before = ask(gateway, pull(queueOffset="-1"))
    assert (before.code, before.fields["nextBeginOffset"]) == (OFFSET_MOVED, "0")


def test_unknown_topics_are_named_as_missing(gateway: GatewayProcess) -> None:
    assert ask(gateway, send(changes={"b": "never_made", "c": "no_template"})).code == TOPIC_NOT_EXIST
    assert ask(gateway, pull(topic="never_made")).code == TOPIC_NOT_EXIST
    route = frames.ask(
        ("127.0.0.1", gateway.nameserver_port), frames.request(frames.GET_ROUTE, {"topic": "never_made"})
    )
    assert route is not None
    assert route.code == TOPIC_NOT_EXIST


def test_unknown_groups_get_their_own_answers(gateway: GatewayProcess) -> None:
    offset = {"consumerGroup": "nobody", "topic": _TOPIC, "queueId": "3", "setZeroIfNotFound": "false"}
    assert ask(gateway, frames.request(14, offset)).code == QUERY_NOT_FOUND
    assert ask(gateway, frames.request(38, {"consumerGroup": "nobody"})).code == SYSTEM_ERROR
    assert ask(gateway, pull(consumerGroup="nobody", sysFlag="0", subscription="")).code == SUBSCRIPTION_NOT_EXIST
    assert ask(gateway, send(changes={"b": "%RETRY%never seen"})).code in (GROUP_NOT_EXIST, INVALID_PARAMETER)


def test_offsets_that_are_no_records_are_not_found(gateway: GatewayProcess) -> None:
    for offset in ("1", "-5", str(2**50)):
        assert ask(gateway, frames.request(33, {"offset": offset})).code == SYSTEM_ERROR
        end = {"producerGroup": "g", "tranStateTableOffset": "0", "commitLogOffset": offset}
        end.update(commitOrRollback="8", fromTransactionCheck="false", msgId="x", transactionId="x")
        assert ask(gateway, frames.request(frames.END_TRANSACTION, end)).code == SYSTEM_ERROR


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"nonsense", b'{"clientID":5}', b"\xff\xfe"])
def test_a_damaged_heartbeat_is_an_error_and_not_the_end(gateway: GatewayProcess, body: bytes) -> None:
    answer = frames.ask(broker(gateway), frames.request(34, body=body))
    assert answer is not None
    assert answer.code in (SYSTEM_ERROR, SUCCESS)


def test_a_stock_client_works_after_all_of_it(gateway: GatewayProcess, newest_client: JavaClient) -> None:
    for garbage in GARBAGE.values():
        with socket.create_connection(broker(gateway), timeout=10) as bad:
            bad.sendall(garbage)
    scene = Scene(gateway, newest_client, 500)
    topic = scene.topic()
    scenarios.send_all(scene, topic)
    scenarios.receive_all(scene, topic)
