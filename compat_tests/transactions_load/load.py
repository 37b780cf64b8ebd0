"""One run from the first transaction to the verdict."""

from __future__ import annotations

import base64
import itertools
import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from compat_tests.java_client import CLIENT_VERSIONS, Answer, java_client
from compat_tests.peers import APACHE_ONLY, QUICK, ApacheContainer, GatewayProcess, Peer
from compat_tests.postgresql_server import PostgresServer
from compat_tests.soak.broker import steady_ports
from compat_tests.transactions_load.account import Account
from compat_tests.transactions_load.producers import NUMBERS_EACH, Producer, Work
from compat_tests.transactions_load.pulse import Pulse
from compat_tests.transactions_load.python_producers import PythonProducer

DISCARDED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SETTINGS = {**QUICK, "transactionCheckMax": "5"}
PEERS = ("gateway-host", "rocketmq-5.5.0")
STORES = ("queue", "table", "sqlite", "postgresql")
"""Where the gateway keeps what is pending."""
CLIENTS = ("java", "python")
"""In what the producers are written."""
_ENTRY = struct.Struct(">iii")
_PRODUCERS = 2
_LOOK_S = 0.25
_STUCK_S = 120.0
_DRAIN_S = 300.0
_UNANSWERED_S = 5.0
"""So long a broker waits for the answer to a check before it asks again."""
_BEFORE_KILL_MS = 1000
"""An outcome sent shortly before something is killed may not have arrived."""
_AFTER_START_MS = 4000
"""Until the clients have found the broker again."""


class NoProgress(Exception):  # noqa: N818 - a fact, told to the user
    """The producers did not get on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wanted run."""

    transactions: int
    kills: int
    producer_kills: int
    seed: int
    directory: Path
    peer: str = PEERS[0]
    threads: int = 4
    store: str = STORES[0]
    client: str = CLIENTS[0]


@dataclass(slots=True)
class Report:
    """The report of a run."""

    wanted: Wanted
    account: Account
    kills: int = 0
    producer_kills: int = 0
    sending_s: float = 0.0
    seconds: float = 0.0
    start_s: float = 0.0
    """The longest of the broker's starts."""


def run(wanted: Wanted, say: Callable[[str], None]) -> Report:
    """Run one.

    :raises NoProgress: the producers did not get on for two minutes.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        peer, interval_ms = _peer(wanted, stack)
        report = Report(wanted, Account(interval_ms))
        reader = stack.enter_context(java_client(CLIENT_VERSIONS[-1]))
        stack.callback(peer.stop)
        peer.start()
        topic = f"load_{wanted.seed}_{int(begun)}"
        made = reader.run("create-topic", ns=peer.nameserver, topic=topic, queues=4)
        assert made["queues"] == 4, str(made)
        epoch_ms = _now_ms()
        longest_s = 600 + wanted.transactions // 50 + 60 * wanted.kills
        work = Work(peer.nameserver, topic, f"l{wanted.seed}", epoch_ms, wanted.threads, longest_s)
        numbers = itertools.count(0, NUMBERS_EACH)
        kind = Producer if wanted.client == CLIENTS[0] else PythonProducer
        producers = [kind(work, numbers) for _ in range(_PRODUCERS)]
        for producer in producers:
            stack.callback(producer.close)
            producer.start()
        scene = _Scene(report, peer, producers, epoch_ms, say)
        stack.callback(Pulse(scene.stalled).stop)
        scene.send()
        scene.drain(quiet_s=_UNANSWERED_S + 3 * interval_ms / 1000)
        for producer in producers:
            producer.stop()
        scene.look()
        read = reader.run(
            "read-queues",
            ns=peer.nameserver,
            group=f"reader_{topic}",
            topics=f"{topic},{DISCARDED_TOPIC}",
            runs=f"{work.run},{work.run}",
            timeout_s=600,
        )
        assert (read["corrupt"], read.text("stuck")) == (0, ""), str(read)
        report.account.deliver(_numbers(read, topic))
        report.account.discard(_numbers(read, DISCARDED_TOPIC))
    report.account.settle()
    report.seconds = time.monotonic() - begun
    return report


class _Scene:
    """The clients and the broker while they are being killed."""

    def __init__(
        self,
        report: Report,
        peer: Peer,
        producers: Sequence[Producer | PythonProducer],
        epoch_ms: int,
        say: Callable[[str], None],
    ) -> None:
        self._report = report
        self._peer = peer
        self._producers = producers
        self._epoch_ms = epoch_ms
        self._say = say

    def look(self) -> None:
        for producer in self._producers:
            self._report.account.note(producer.look())

    def send(self) -> None:
        """Until there are enough transactions; the kills come spread over them."""
        report, begun = self._report, time.monotonic()
        moments = list(_moments(report.wanted))
        changed, before = begun, -1
        while report.account.stored < report.wanted.transactions or moments:
            self.look()
            stored = report.account.stored
            if stored != before:
                changed, before = time.monotonic(), stored
            if time.monotonic() - changed > _STUCK_S:
                raise NoProgress(f"after {stored:,} transactions nothing was acknowledged for {_STUCK_S:g} s")
            if moments and stored >= moments[0][0]:
                moments.pop(0)[1](self)
                self._say(
                    f"{stored:,} transactions, {report.kills} kills of the broker, {report.producer_kills} of producers"
                )
            else:
                _pause(_LOOK_S)
        for producer in self._producers:
            producer.stop_sending()
        report.sending_s = time.monotonic() - begun

    def stalled(self, seconds: float) -> None:
        """The machine did not let us run: most likely it did not let the broker run either."""
        now_ms = self._elapsed_ms()
        self._report.account.stall(now_ms - round(seconds * 1000), now_ms)

    def kill_broker(self) -> None:
        killed_ms = self._elapsed_ms()
        self._peer.kill()
        started = time.monotonic()
        self._peer.start()
        self._report.start_s = max(self._report.start_s, time.monotonic() - started)
        self._report.kills += 1
        self._report.account.uncertain(killed_ms - _BEFORE_KILL_MS, self._elapsed_ms() + _AFTER_START_MS)

    def kill_producer(self) -> None:
        producer = min(self._producers, key=lambda producer: producer.kills)
        killed_ms = self._elapsed_ms()
        self._report.account.note(producer.kill())
        self._report.account.uncertain(killed_ms - _BEFORE_KILL_MS, self._elapsed_ms())
        self._report.producer_kills += 1
        producer.start()

    def drain(self, quiet_s: float) -> None:
        """Until no check has come for a while: what is left then is not being checked."""
        begun = last = time.monotonic()
        checks = -1
        while time.monotonic() - last < quiet_s and time.monotonic() - begun < _DRAIN_S:
            self.look()
            if self._report.account.checks != checks:
                checks, last = self._report.account.checks, time.monotonic()
            _pause(_LOOK_S)

    def _elapsed_ms(self) -> int:
        return _now_ms() - self._epoch_ms


def _moments(wanted: Wanted) -> Iterator[tuple[int, Callable[[_Scene], None]]]:
    """Return what is killed when: after how many transactions."""
    draw = random.Random(wanted.seed)
    deeds = [_Scene.kill_broker] * wanted.kills + [_Scene.kill_producer] * wanted.producer_kills
    draw.shuffle(deeds)
    step = wanted.transactions / (len(deeds) + 1)
    for index, deed in enumerate(deeds):
        yield int((index + draw.uniform(0.5, 1.0)) * step), deed


def _peer(wanted: Wanted, stack: ExitStack) -> tuple[Peer, int]:
    """The broker, not yet started, and its shortest time between two checks."""
    if wanted.peer == PEERS[0]:
        settings = {**SETTINGS, **_state_store(wanted.store, stack)}
        wanted.directory.mkdir(parents=True, exist_ok=True)
        peer: Peer = GatewayProcess(wanted.directory / "data", settings, ports=steady_ports())
    else:
        settings = {**SETTINGS, **APACHE_ONLY}
        peer = ApacheContainer(settings, version=wanted.peer.removeprefix("rocketmq-"))
    return peer, int(settings["transactionCheckInterval"])


def _state_store(name: str, stack: ExitStack) -> dict[str, str]:
    """The settings that choose it; a PostgreSQL server is there until the end."""
    if name not in ("sqlite", "postgresql"):
        return {"transactionStateStore": name}
    settings = {"transactionStateStore": "database"}
    if name == "postgresql":
        settings["gateway.transactionDatabase"] = stack.enter_context(PostgresServer()).dsn()
    return settings


def _numbers(read: Answer, topic: str) -> list[int]:
    """The numbers found in a topic; those of other runs are -1."""
    entries = base64.b64decode(read.json("entries")[topic])
    return [number for number, _, _ in _ENTRY.iter_unpack(entries) if number >= 0]


def _now_ms() -> int:
    return int(time.time() * 1000)  # noqa: TID251 - the producers' clock is the machine's


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251 - other processes are under way
