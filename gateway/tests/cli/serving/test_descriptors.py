"""A real server that runs out of descriptors: it refuses what needs one, loses nothing, and needs no restart."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gateway.client.testing.server import GatewayServer
from gateway.remoting.descriptors import MOST_RESERVED_SHARE
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame

if sys.platform != "linux":
    pytest.skip("another process is limited by prlimit", allow_module_level=True)

import resource

LOG_FILE_BYTES = 1 << 20
BODY = bytes(300_000)
A_FILE = 4
"""Sends of ``BODY`` that need at least one new log file."""
LIMIT = 200


class Caller:
    """A client that asks one thing after the other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self._frames = Connection()

    def ask(self, code: int, body: bytes = b"", **fields: str) -> RemotingCommand:
        self.socket.sendall(build_frame(RemotingCommand(code, opaque=1, ext_fields=fields, body=body)))
        while data := self.socket.recv(1 << 20):
            if answers := self._frames.receive_data(data):
                return answers[0]
        raise ConnectionError("the server closed the connection")

    def send(self, topic: str = "orders") -> int:
        fields = {"producerGroup": "p", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
        rest = {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": "KEYS\x01k\x02"}
        return self.ask(RequestCode.SEND_MESSAGE, BODY, **fields, **rest).code

    def create(self, topic: str) -> RemotingCommand:
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        rest = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        return self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, b"", **fields, **rest)

    def stored(self, topic: str = "orders") -> int:
        return int(self.ask(RequestCode.GET_MAX_OFFSET, topic=topic, queueId="0").ext_fields["offset"])

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def server() -> Iterator[GatewayServer]:
    settings = {
        "mappedFileSizeCommitLog": str(LOG_FILE_BYTES),
        "maxMessageSize": str(LOG_FILE_BYTES // 2),
        "flushDiskType": "SYNC_FLUSH",
    }
    with GatewayServer(settings=settings) as started:
        yield started


def limit_descriptors(server: GatewayServer, most: int) -> None:
    _, highest = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, highest))


def descriptors(server: GatewayServer) -> int:
    return sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())


def wait_for_room(server: GatewayServer) -> None:
    """Wait until the server has noticed that others are gone: until then it may refuse a new connection, as it should.

    However slow the machine is, the descriptors come back.
    """
    for _ in range(6_000):
        if descriptors(server) < LIMIT // MOST_RESERVED_SHARE:
            return
        time.sleep(0.01)  # noqa: TID251 - another process
    raise AssertionError(f"{descriptors(server)} descriptors are in use for good")


def is_open(connection: socket.socket) -> bool:
    """Return whether the server has not closed the connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_idle_connections_leave_descriptors_for_the_files_of_the_store(server: GatewayServer) -> None:
    host, _, port = server.broker.partition(":")
    with ExitStack() as opened, closing(Caller(server.broker)) as client:
        assert client.send() == ResponseCode.SUCCESS
        limit_descriptors(server, LIMIT)
        idle = [opened.enter_context(socket.create_connection((host, int(port)))) for _ in range(2 * LIMIT)]
        for _ in range(3 * A_FILE):
            assert client.send() == ResponseCode.SUCCESS
        assert descriptors(server) < LIMIT
        assert 0 < sum(map(is_open, idle)) < LIMIT
    wait_for_room(server)
    with closing(Caller(server.broker)) as another:
        for _ in range(A_FILE):
            assert another.send("more") == ResponseCode.SUCCESS


def flood(address: str) -> Generator[None, None, None]:
    """Connect hundreds of times at once, step after step."""
    host, _, port = address.partition(":")
    while True:
        with ExitStack() as opened:
            for _ in range(2 * LIMIT):
                one = opened.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex((host, int(port)))
            yield


def test_a_flood_of_connections_leaves_descriptors_for_files(server: GatewayServer) -> None:
    most = 0
    with closing(Caller(server.broker)) as client, closing(flood(server.broker)) as steps:
        assert client.send() == ResponseCode.SUCCESS
        limit_descriptors(server, LIMIT)
        for number in range(20):
            next(steps)
            for _ in range(20):
                most = max(most, descriptors(server))
            assert client.create(f"topic-{number}").code == ResponseCode.SUCCESS
            assert client.send() == ResponseCode.SUCCESS
    assert most < LIMIT * 3 // 4
    assert "topic-19" in (server.data / "config" / "topics.json").read_text()
    wait_for_room(server)
    with closing(Caller(server.broker)) as another:
        assert another.send("more") == ResponseCode.SUCCESS


def test_without_any_descriptor_left_nothing_is_lost_and_nothing_fails_for_good(server: GatewayServer) -> None:
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[0]
    with closing(Caller(server.broker)) as client:
        acknowledged = sum(client.send() == ResponseCode.SUCCESS for _ in range(A_FILE))
        assert acknowledged == A_FILE
        limit_descriptors(server, 5)  # less than it has: every open fails from now on
        codes = [client.send() for _ in range(4 * A_FILE)]
        assert set(codes) == {ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE}
        client.send("another")
        for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.QUERY_MESSAGE, RequestCode.GET_BROKER_CONFIG):
            fields = {"topic": "orders", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}
            answer = client.ask(code, b"", **fields)
            assert (answer.code, "open files" in (answer.remark or "")) == (ResponseCode.SYSTEM_BUSY, True)
        limit_descriptors(server, before)
        acknowledged += codes.count(ResponseCode.SUCCESS)
        for _ in range(2 * A_FILE):
            assert client.send() == ResponseCode.SUCCESS
            acknowledged += 1
        assert client.send("another") == ResponseCode.SUCCESS
        assert client.stored() == acknowledged
        assert client.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == ResponseCode.SUCCESS
    assert "Traceback" not in server.log.read_text()
