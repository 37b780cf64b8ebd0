"""What waits to be read has a limit, and what was read makes room."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.nameserver.registration_reader import REQUEST_BYTES, RegistrationReader
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.turns import Turns, Work
from gateway.tests.nameserver.registrations import topics
from gateway.tests.nameserver.running import RunningNameServer
from wire.bodies.registration import RegisterBrokerBody
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import BodyError

LARGE = RegisterBrokerBody(topic_config_table=topics(*(f"topic-{at}" for at in range(2_000)))).build(compressed=False)
SIZE = len(LARGE) + REQUEST_BYTES


def _kept(told: RegisterBrokerBody) -> Work[RegisterBrokerBody]:
    yield from ()
    return told


class Readings:
    """Requests from any host to one reader, and what came of those that are at their end."""

    def __init__(self, directory: Path, max_waiting_bytes: int) -> None:
        self._server = RunningNameServer(directory)
        self.reader = RegistrationReader(Turns(self._server.reactor), max_waiting_bytes)
        self.outcomes: list[Any] = []

    def request(self, host: str, body: bytes) -> Request:
        command = RemotingCommand(RequestCode.REGISTER_BROKER, body=body)
        return Request(self._server.connect(host).channel, command)

    def read(self, host: str, body: bytes = LARGE) -> None:
        self._note(self.reader.read(self.request(host, body), f"{host}:10911", compressed=False, take_in=_kept))

    def change(self, host: str) -> None:
        outcome = self.reader.in_order(self.request(host, b""), Answer)
        if isinstance(outcome, Answer):
            self.outcomes.append(outcome)
        else:
            self._note(outcome)

    def finish(self) -> None:
        """Let turns pass until nothing is left to do."""
        for _ in range(100):
            self._server.advance(0)

    def _note(self, reading: Awaitable[Any]) -> None:
        work = Deferred.fromCoroutine(cast(Any, reading))
        work.addCallbacks(self.outcomes.append, lambda failure: self.outcomes.append(failure.value))


def test_what_waits_has_a_limit(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 4 * SIZE)
    outcomes = readings.outcomes
    for host in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"):
        readings.read(host)
    (refusal,) = outcomes
    assert isinstance(refusal, RequestRefused)
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    assert str(refusal.remark).startswith(
        f"bytes of registrations from 192.0.2.3 that wait to be read: 0, of all: {3 * SIZE}, the limit is {4 * SIZE};"
    )
    readings.finish()
    assert [len(told.topic_config_table) for told in outcomes[1:]] == [2_002] * 3
    readings.read("192.0.2.4", b"malformed")
    assert isinstance(outcomes[4], BodyError)
    readings.read("192.0.2.4", b"{}")
    assert outcomes[5] == RegisterBrokerBody()
    for host in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        readings.read(host)
    assert len(outcomes) == 6, "there is room again"


def test_one_host_leaves_room_for_others(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 100 * SIZE)
    for _ in range(80):
        readings.read("192.0.2.1")
    assert [type(outcome) for outcome in readings.outcomes] == [RequestRefused] * 5
    for number in range(15):
        readings.read(f"192.0.2.{number + 2}")
    assert len(readings.outcomes) == 5


def test_changes_that_wait_count_too(tmp_path: Path) -> None:
    readings = Readings(tmp_path, SIZE + 100 * REQUEST_BYTES)
    readings.change("192.0.2.1")
    assert readings.outcomes == [Answer()], "nothing is read"
    readings.read("192.0.2.2", LARGE)
    for _ in range(200):
        readings.change("192.0.2.1")
    refusals = readings.outcomes[1:]
    assert 100 < len(refusals) < 150
    assert {type(refusal) for refusal in refusals} == {RequestRefused}
    readings.finish()
    readings.finish()
    readings.finish()
    told, *answers = readings.outcomes[1 + len(refusals) :]
    assert len(told.topic_config_table) == 2_002
    assert answers == [Answer()] * (200 - len(refusals))


@pytest.mark.parametrize("count", [0, 10])
def test_a_small_registration_is_read_at_once(tmp_path: Path, count: int) -> None:
    readings = Readings(tmp_path, SIZE)
    table = topics(*(f"topic-{at}" for at in range(count)))
    readings.read("192.0.2.1", RegisterBrokerBody(topic_config_table=table).build(compressed=False))
    (told,) = readings.outcomes
    assert set(told.topic_config_table) == set(table)
