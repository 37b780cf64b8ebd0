"""A gateway process with each transaction state store, killed while half messages, checks and outcomes are under way.

Every half message that was answered has one outcome afterwards: delivered once, or never, or it is still pending, is
checked by the next process and takes the next outcome. What is settled is never checked again. The requests are made
of raw frames, so that a kill finds many of them on their way.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from compat_tests.frames import END_TRANSACTION, Frame, read, request
from compat_tests.postgresql_server import PostgresServer

SEND = 10
HEART_BEAT = 34
CHECK = 39
UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12
SUCCESS, ILLEGAL_OPERATION = 0, 604
LIVES = 4
HALVES = 150
"""Half messages of one life."""
CHECKED = 40
"""Checks of one life that are waited for before outcomes are sent."""
READY_S = 20.0
SILENCE_S = 10.0
SETTINGS = {
    "brokerFastFailureEnable": "false",
    "transactionTimeOut": "200",
    "transactionCheckInterval": "500",
    "transactionCheckMax": "1000",
}


@dataclass(slots=True)
class Half:
    """A half message that was answered; ``asked`` and ``told`` are outcomes."""

    key: str
    place: int
    offset: int
    asked: int = 0
    told: int = 0


class Gateway:
    """One life of a process."""

    def __init__(self, directory: Path, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "gateway.cli", "serve", "--data", str(directory), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--nameserver-port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), line
        host, _, port = line.split()[2].removeprefix("broker=").rpartition(":")
        self.connection = socket.create_connection((host, int(port)), timeout=SILENCE_S)
        self.checks: dict[str, Frame] = {}
        """The last check of each half message, by key."""
        producer = {"clientID": "c", "producerDataSet": [{"groupName": "g"}], "consumerDataSet": []}
        self.ask([request(HEART_BEAT, body=json.dumps(producer).encode())])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.connection.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(READY_S) == 0
        if self.process.stdout is not None:
            self.process.stdout.close()

    def ask(self, frames: list[Frame]) -> list[Frame]:
        """The answers of requests that are sent at once, as far as there are any."""
        self.connection.sendall(b"".join(frame.pack() for frame in frames))
        answers: list[Frame] = []
        while len(answers) < len(frames):
            answer = self.next_answer()
            if answer is None:
                break
            answers.append(answer)
        return answers

    def next_answer(self) -> Frame | None:
        """The next one; the checks before it are kept, and answered with unknown."""
        while (frame := read(self.connection)) is not None and not int(frame.header["flag"]) & 1:
            self._keep(frame)
        return frame

    def wait_for_checks(self, wanted: Callable[[], bool]) -> None:
        """Read checks until there are those."""
        end = time.monotonic() + READY_S
        while not wanted():
            assert time.monotonic() < end, f"only {len(self.checks)} half messages were checked"
            frame = read(self.connection)
            assert frame is not None, "the broker closed the connection"
            self._keep(frame)

    def _keep(self, frame: Frame) -> None:
        assert frame.code == CHECK, frame.header
        self.checks[frame.fields["msgId"]] = frame
        place = int(frame.fields["commitLogOffset"])
        half = Half(frame.fields["msgId"], place, int(frame.fields["tranStateTableOffset"]))
        self.connection.sendall(outcome(half, UNKNOWN, 0, from_check=True).pack())  # which is not answered


@contextmanager
def running(directory: Path, arguments: list[str]) -> Iterator[Gateway]:
    gateway = Gateway(directory, arguments)
    try:
        yield gateway
    finally:
        gateway.stop()


def half_message(key: str, opaque: int) -> Frame:
    fields = {
        "producerGroup": "g",
        "topic": "orders",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "4",
        "bornTimestamp": str(int(time.time() * 1_000)),  # noqa: TID251 - a client's clock
        "flag": "0",
        "properties": f"TRAN_MSG\1true\2PGROUP\1g\2UNIQ_KEY\1{key}\2",
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    return request(SEND, fields, key.encode(), opaque=opaque)


def outcome(half: Half, kind: int, opaque: int, *, from_check: bool) -> Frame:
    fields = {
        "producerGroup": "g",
        "tranStateTableOffset": str(half.offset),
        "commitLogOffset": str(half.place),
        "commitOrRollback": str(kind),
        "fromTransactionCheck": "true" if from_check else "false",
        "msgId": half.key,
    }
    return request(END_TRANSACTION, fields, opaque=opaque)


def live(gateway: Gateway, life: int, halves: list[Half], random: Random) -> None:
    """Half messages, checks of them, then outcomes for some of all that are open, and a kill among these."""
    keys = [f"k{life}-{number}" for number in range(HALVES)]
    answers = gateway.ask([half_message(key, number) for number, key in enumerate(keys)])
    for answer in answers:
        assert answer.code == SUCCESS, answer.remark
        place = int(answer.fields["msgId"][16:], 16)
        halves.append(Half(keys[answer.header["opaque"]], place, int(answer.fields["queueOffset"])))
    open_ones = [half for half in halves if not half.asked]
    random.shuffle(open_ones)
    chosen = open_ones[: len(open_ones) * 2 // 3]
    for half in chosen:
        half.asked = random.choice((COMMIT, ROLLBACK))
    # The state store follows meanwhile, or does not.
    enough = random.randrange(CHECKED)
    gateway.wait_for_checks(lambda: len(gateway.checks) >= enough)
    frames = [
        outcome(half, half.asked, number, from_check=half.key in gateway.checks) for number, half in enumerate(chosen)
    ]
    gateway.connection.sendall(b"".join(frame.pack() for frame in frames))
    for _ in range(random.randrange(len(frames))):
        told = gateway.next_answer()
        assert told is not None
        assert told.code == SUCCESS, told.remark
        half = chosen[told.header["opaque"]]
        half.told = half.asked
    gateway.kill()


def settle(gateway: Gateway, halves: list[Half]) -> set[str]:
    """Let the pending ones be checked, and ask for a commit of all; the keys that must have been delivered then."""
    open_keys = {half.key for half in halves if not half.asked}
    assert open_keys
    gateway.wait_for_checks(lambda: open_keys <= gateway.checks.keys())
    assert not [half for half in halves if half.told and half.key in gateway.checks], "settled, and checked again"
    answers = gateway.ask([outcome(half, COMMIT, number, from_check=True) for number, half in enumerate(halves)])
    assert len(answers) == len(halves)
    delivered = set()
    for answer in answers:
        half = halves[answer.header["opaque"]]
        if half.told == COMMIT or not half.asked:
            assert answer.code == SUCCESS, (half, answer.remark)
        if half.told == ROLLBACK:
            assert answer.code == ILLEGAL_OPERATION, (half, answer.remark)
        if answer.code == SUCCESS:
            assert half.asked != ROLLBACK or not half.told, half
            delivered.add(half.key)
    return delivered


def delivered_keys(directory: Path) -> Counter[str]:
    command = [sys.executable, "-m", "gateway.cli", "store", "dump", str(directory), "--topic", "orders"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Counter(json.loads(line)["body"] for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.mark.parametrize("store", ["queue", "table", "sqlite", "postgresql"])
def test_every_half_message_has_one_outcome_after_kills(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    seed = int(os.environ.get("COMPAT_SEED", "1"))
    random = Random(f"{seed} {store}")
    name = store if store in ("queue", "table") else "database"
    settings = {**SETTINGS, "transactionStateStore": name}
    server: PostgresServer | None = None
    if store == "postgresql":
        server = request.getfixturevalue("postgresql")
        assert server is not None
        settings["gateway.transactionDatabase"] = server.dsn()
    arguments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    halves: list[Half] = []
    for life in range(LIVES):
        with running(tmp_path, arguments) as gateway:
            if server is not None and life == 1:
                server.kill()
            live(gateway, life, halves, random)
        if server is not None and life == 2:
            server.start()
    with running(tmp_path, arguments) as gateway:
        expected = settle(gateway, halves)
    found = delivered_keys(tmp_path)
    assert max(found.values()) == 1, "something was delivered twice"
    known = {half.key for half in halves}
    assert {key for key in found if key in known} == expected
    assert all(half.key in found for half in halves if half.told == COMMIT)
