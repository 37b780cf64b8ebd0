"""Requests of the fuzzer to both servers, without sockets: no error in the log, and good requests still work."""

from __future__ import annotations

import gc
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from twisted.python.failure import Failure

from gateway.remoting.dispatch import Request
from gateway.settings.transaction import OperatorAccess
from gateway.telemetry.logs import EventLines
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.fuzz.requests.frames import frame_of, spoiled
from gateway.tests.fuzz.requests.grammar import Asked, Grammar, Server
from gateway.tests.fuzz.requests.sequences import a_sequence
from gateway.tests.fuzz.watch import WRONG_LINE
from gateway.tests.nameserver.running import RunningNameServer
from gateway.tests.remoting.conversation import Peer
from wire.codes import ResponseCode
from wire.command import RemotingCommand

REQUESTS = 1_200
EVERYTHING: dict[str, Any] = {
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "enable_property_filter": True,
    "operator_access": OperatorAccess.EVERYWHERE,
}
"""Settings that switch on what requests can reach."""
LEAST_SUCCESSES = 45
"""Codes that must have been carried out at least once: a grammar that is only refused tests nothing."""


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EventLines())
    logger = logging.getLogger("gateway")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


class Attacked:
    """Both servers, and the connections of whoever attacks them."""

    def __init__(self, directory: Path, seed: int) -> None:
        for name in ("broker", "nameserver"):
            (directory / name).mkdir()
        self.broker = WholeBroker(directory / "broker", **EVERYTHING)
        self.name_server = RunningNameServer(directory / "nameserver")
        self.random = Random(seed)
        self.grammar = Grammar(self.random, self.broker.clock)
        self.successes: set[int] = set()
        self.requests = 0
        self._peers: dict[Server, Peer] = {}

    def session(self) -> None:
        """Play some requests of one client."""
        is_binary = self.random.random() < 0.3
        if self.random.random() < 0.5:
            for _ in range(self.random.randint(1, 10)):
                self._ask(self.grammar.any_request(), is_binary)
        else:
            requests = a_sequence(self.grammar)
            with suppress(StopIteration):
                asked = next(requests)
                while True:
                    asked = requests.send(self._ask(asked, is_binary))
        if self.random.random() < 0.3:
            self.broker.reactor.advance(0.25)
            self.name_server.advance(0.25)
        for peer in self._peers.values():
            peer.transport.loseConnection()
        self._peers.clear()

    def _ask(self, asked: Asked, is_binary: bool) -> RemotingCommand | None:
        asked.is_binary = is_binary
        frame = frame_of(asked)
        if self.random.random() < 0.05:
            frame = spoiled(frame, self.random)
        peer = self._peers.get(asked.server)
        if peer is None or peer.channel.closed:
            server = self.broker if asked.server is Server.BROKER else self.name_server
            peer = self._peers[asked.server] = server.connect()
        peer.send_bytes(frame)
        self.broker.turn()
        self.requests += 1
        answers = [command for command in peer.received() if command.is_response]
        if answers and answers[-1].code == ResponseCode.SUCCESS:
            self.successes.add(asked.code)
        return answers[-1] if answers else None


@pytest.mark.parametrize("seed", [1, 2])
def test_no_request_brings_an_error(tmp_path: Path, log: io.StringIO, seed: int) -> None:
    attacked = Attacked(tmp_path, seed)
    broker = attacked.broker
    honest = broker.connect()
    texts: list[bytes] = []
    while attacked.requests < REQUESTS:
        attacked.session()
        texts.append(f"honest {len(texts)}".encode())
        assert broker.send(honest, "honest", texts[-1]).code == ResponseCode.SUCCESS
    assert [message.body for message in broker.messages("honest")] == texts
    assert [line for line in log.getvalue().splitlines() if WRONG_LINE.search(line)] == []
    assert len(attacked.successes) >= LEAST_SUCCESSES
    broker.stop()


@contextmanager
def garbage() -> Iterator[list[object]]:
    """Return the garbage of a block, without the collector's own, at its end; the garbage collector rests meanwhile."""
    found: list[object] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("seed", [3, 4])
def test_no_request_is_left_to_the_garbage_collector(tmp_path: Path, seed: int) -> None:
    attacked = Attacked(tmp_path, seed)
    with garbage() as left:
        while attacked.requests < REQUESTS:
            attacked.session()
    assert [each for each in left if isinstance(each, Request | Failure)] == []
    assert attacked.successes
    attacked.broker.stop()
