"""Peers that ask for large answers and read none, round after round, against a real server process.

    python -m compat_tests.unread_answers --rounds 10 --peers 60

A round connects ``--peers`` peers; each asks ``--pulls`` times for a message of 4 MB, reads nothing, and leaves after
some seconds. An honest producer sends all the while, and an honest consumer pulls. The program prints, for each round,
the resident memory of the server above its memory before the first round, and how long the honest clients waited.
The time in which the machine gave no processor to the server, or to the honest client, is told beside each wait.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

from gateway.client.testing.server import GatewayServer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame

MIB: Final = 1 << 20
TOPIC: Final = "unread"
GROUP: Final = "attack"
LARGE_BYTES: Final = 4_000_000
LARGE_MESSAGES: Final = 8
SETTLE_S: Final = 6.0
"""Time that the server has after the peers left, before its memory is looked at.

A server whose size does not change looks for free memory after four seconds only, and these may begin just before the
peers leave.
"""
SETTINGS: Final = {"mappedFileSizeCommitLog": "67108864", "messageIndexEnable": "false"}
"""The index of keys would grow with what the honest producer sends: by up to 4 KiB for each message."""
HONEST_EVERY_S: Final = 0.01
SPAWN: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Longest:
    """The longest waits of an honest client for one answer."""

    wait_s: float = 0.0
    own_s: float = 0.0
    """The longest wait less the time in which its client or the server's main thread waited for a processor."""

    def with_wait(self, wait_s: float, machine_s: float) -> Longest:
        """Return the longest waits with one more wait.

        :param machine_s: the time in which the two threads waited for a processor, during this wait.
        """
        return Longest(max(self.wait_s, wait_s), max(self.own_s, wait_s - machine_s))

    def __str__(self) -> str:
        return f"{self.wait_s:.2f} ({self.own_s:.2f})"


@dataclass(frozen=True)
class Round:
    """The result of one round. Memory is above that of the idle server."""

    peak_bytes: int
    after_bytes: int
    closed_peers: int
    send: Longest
    pull: Longest


def pause(seconds: float) -> None:
    """Let the server do what it does in this time."""
    threading.Event().wait(seconds)


class Caller:
    """A client that asks one thing after the other and reads its answers."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=60)
        self._frames = Connection()
        self._opaque = 0

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        """Send one request and wait for its answer."""
        self._opaque += 1
        self._socket.sendall(build_frame(RemotingCommand(code, opaque=self._opaque, ext_fields=fields, body=body)))
        while True:
            data = self._socket.recv(MIB)
            if not data:
                raise ConnectionError("the server closed the connection")
            if answers := self._frames.receive_data(data):
                return answers[0]

    def close(self) -> None:
        """Leave."""
        self._socket.close()


class Honest(SpawnProcess):
    """A process that asks again and again, and remembers the longest wait.

    A thread beside the attack would wait for the attacking threads, too.
    """

    def __init__(
        self, server_id: int, address: tuple[str, int], code: int, fields: dict[str, str], body: bytes
    ) -> None:
        super().__init__(daemon=True)
        self._server_id = server_id
        self._address = address
        self._request = (code, fields, body)
        self._ended = SPAWN.Event()
        self._longest = SPAWN.Array("d", [0.0, 0.0])
        self._remarks = SPAWN.SimpleQueue()

    def run(self) -> None:
        """Ask until the end."""
        caller = Caller(self._address)
        while not self._ended.wait(HONEST_EVERY_S):
            before_s = self._machine_s()
            began_s = time.monotonic()
            answer = caller.ask(*self._request)
            wait_s = time.monotonic() - began_s
            machine_s = self._machine_s() - before_s
            with self._longest.get_lock():
                longest = Longest(self._longest[0], self._longest[1]).with_wait(wait_s, machine_s)
                self._longest[:] = [longest.wait_s, longest.own_s]
            if answer.code != ResponseCode.SUCCESS and self._remarks.empty():
                self._remarks.put(answer.remark)
        caller.close()

    def _machine_s(self) -> float:
        """Return how long this process and the server's main thread have waited for a processor so far."""
        return processor_wait_s(os.getpid()) + processor_wait_s(self._server_id)

    def take_longest(self) -> Longest:
        """Return the longest waits since the last call."""
        with self._longest.get_lock():
            longest = Longest(self._longest[0], self._longest[1])
            self._longest[:] = [0.0, 0.0]
        return longest

    def end(self) -> None:
        """Stop asking and leave.

        :raises RuntimeError: a request was refused, or the connection was closed.
        """
        self._ended.set()
        self.join()
        if not self._remarks.empty():
            raise RuntimeError(f"an honest client was refused: {self._remarks.get()}")
        if self.exitcode:
            raise RuntimeError("the connection of an honest client was closed")


def send_fields(topic: str) -> dict[str, str]:
    """Return the header of a send."""
    return {
        "producerGroup": GROUP,
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
    }


def pull_fields(topic: str, offset: int) -> dict[str, str]:
    """Return the header of a pull that carries its own subscription."""
    return {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def resident_bytes(process_id: int) -> int:
    """Return the resident memory of a process without pages of files: those belong to the system."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def processor_wait_s(process_id: int) -> float:
    """Return how long the main thread of a process was ready to run and had no processor, since its start."""
    _, waited_ns, _ = Path(f"/proc/{process_id}/task/{process_id}/schedstat").read_text().split()
    return int(waited_ns) / 1e9


class Watch(threading.Thread):
    """Remembers the largest memory of a process."""

    def __init__(self, process_id: int) -> None:
        super().__init__(daemon=True)
        self._process_id = process_id
        self._ended = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        """Look 50 times a second."""
        while not self._ended.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(self._process_id))

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()


def prepare(address: tuple[str, int]) -> None:
    """Send what is pulled: messages of 4 MB, and a small one for the honest consumer."""
    caller = Caller(address)
    group = {"groupName": GROUP, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
    for code, fields, body in (
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(group).encode()),
        *((RequestCode.SEND_MESSAGE, send_fields(TOPIC), bytes(LARGE_BYTES)) for _ in range(LARGE_MESSAGES)),
        (RequestCode.SEND_MESSAGE, send_fields(f"{TOPIC}_honest"), b"small"),
    ):
        answer = caller.ask(code, dict(fields), body)
        if answer.code != ResponseCode.SUCCESS:
            raise RuntimeError(f"{RequestCode(code).name} was refused: {answer.remark}")
    caller.close()


def attack(address: tuple[str, int], peers: int, pulls: int, hold_s: float) -> int:
    """Connect, ask, read nothing, leave; return how many peers the server had closed by then."""
    asked = b"".join(
        build_frame(
            RemotingCommand(
                RequestCode.PULL_MESSAGE, opaque=number, ext_fields=pull_fields(TOPIC, number % LARGE_MESSAGES)
            )
        )
        for number in range(pulls)
    )
    with ExitStack() as opened:
        connections = [opened.enter_context(socket.create_connection(address, timeout=60)) for _ in range(peers)]
        for connection in connections:
            connection.sendall(asked)
        pause(hold_s)
        closed = sum(map(is_reset, connections))
        for connection in connections:  # without a reset the system goes on sending what it has taken
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return closed


def is_reset(connection: socket.socket) -> bool:
    """Return whether the other side has ended this connection."""
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def run(rounds: int, peers: int, pulls: int, hold_s: float) -> tuple[int, list[Round]]:
    """Return the memory of the idle server and what each round showed.

    :param hold_s: how long the peers stay after they have asked.
    """
    shown: list[Round] = []
    with GatewayServer(settings=SETTINGS) as server:
        host, _, port = server.broker.partition(":")
        address = (host, int(port))
        prepare(address)
        pause(SETTLE_S)
        idle_bytes = resident_bytes(server.pid)
        producer = Honest(server.pid, address, RequestCode.SEND_MESSAGE, send_fields(f"{TOPIC}_beside"), b"x" * 100)
        consumer = Honest(server.pid, address, RequestCode.PULL_MESSAGE, pull_fields(f"{TOPIC}_honest", 0), b"")
        producer.start()
        consumer.start()
        pause(1)
        for _ in range(rounds):
            watch = Watch(server.pid)
            watch.start()
            closed = attack(address, peers, pulls, hold_s)
            pause(SETTLE_S)
            watch.end()
            shown.append(
                Round(
                    watch.peak_bytes - idle_bytes,
                    resident_bytes(server.pid) - idle_bytes,
                    closed,
                    producer.take_longest(),
                    consumer.take_longest(),
                )
            )
            print(described(len(shown), shown[-1]), flush=True)
        producer.end()
        consumer.end()
    return idle_bytes, shown


def described(number: int, seen: Round) -> str:
    """Return a line about one round."""
    return (
        f"round {number}: at most {seen.peak_bytes / MIB:+.0f} MiB, {seen.after_bytes / MIB:+.1f} MiB after it, "
        f"{seen.closed_peers} peers closed; longest send {seen.send} s, pull {seen.pull} s"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rounds and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--peers", type=int, default=60)
    parser.add_argument("--pulls", type=int, default=8, help="requests of each peer")
    parser.add_argument("--hold", type=float, default=3.0, help="seconds that the peers stay")
    given = parser.parse_args(arguments)
    idle_bytes, _ = run(given.rounds, given.peers, given.pulls, given.hold)
    print(f"idle: {idle_bytes / MIB:.0f} MiB")


if __name__ == "__main__":
    main()
