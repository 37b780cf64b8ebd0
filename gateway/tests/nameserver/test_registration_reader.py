"""The limit of registrations that wait to be read, and the room that a finished reading makes."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.nameserver.registration_reader import (
    MAX_LARGE_PER_CHANNEL,
    REQUEST_BYTES,
    SMALL_BYTES,
    RegistrationReader,
)
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
        self.taken: list[str] = []

    def request(self, host: str, body: bytes) -> Request:
        command = RemotingCommand(RequestCode.REGISTER_BROKER, body=body)
        return Request(self._server.connect(host).channel, command)

    def read(self, host: str, body: bytes = LARGE) -> None:
        self.note(self.reader.read(self.request(host, body), f"{host}:10911", compressed=False, take_in=_kept))

    def register(self, host: str, broker: str, body: bytes, *, is_known: bool = False) -> None:
        """Read a registration whose outcome is the broker's name."""

        def named(_: RegisterBrokerBody) -> Work[str]:
            yield from ()
            self.taken.append(broker)
            return broker

        request, address = self.request(host, body), broker.partition(".")[0]
        compressed = not body.startswith(b"{")
        reader = self.reader
        self.note(reader.read(request, address, compressed=compressed, take_in=named, is_known=is_known))

    def change(self, host: str) -> None:
        outcome = self.reader.in_order(self.request(host, b""), Answer)
        if isinstance(outcome, Answer):
            self.outcomes.append(outcome)
        else:
            self.note(outcome)

    def finish(self, turns: int = 100) -> None:
        """Let turns pass until nothing is left to do."""
        for _ in range(turns):
            self._server.advance(0)

    def finish_one(self) -> None:
        """Let turns pass until one more registration is at its end."""
        count = len(self.outcomes)
        for _ in range(1_000):
            if len(self.outcomes) > count:
                break
            self._server.advance(0)

    def note(self, reading: Awaitable[Any]) -> None:
        """Keep the outcome."""
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


def test_the_addresses_of_one_ipv6_network_are_one_host_whose_registrations_wait(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 100 * SIZE)
    for number in range(80):
        readings.read(f"2001:db8::{number + 1:x}")
    assert [type(outcome) for outcome in readings.outcomes] == [RequestRefused] * 5


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


HUGE = RegisterBrokerBody(topic_config_table=topics(*(f"topic-{at}" for at in range(10_000)))).build(compressed=True)
SMALL = RegisterBrokerBody(topic_config_table=topics("orders")).build(compressed=True)
PLAIN = b'{"filterServerList":["' + b"x" * SMALL_BYTES + b'"]}'


def test_a_small_registration_does_not_wait_for_large_ones_that_unpack_to_megabytes(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 1 << 28)
    assert len(HUGE) < SMALL_BYTES
    for number in range(20):
        readings.register("192.0.2.66", f"made-up-{number}", HUGE)
    readings.register("192.0.2.66", "orders", SMALL)
    assert readings.outcomes == ["orders"]


def test_a_large_registration_of_another_host_waits_for_one_of_an_attacker(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 1 << 28)
    for number in range(10):
        readings.register("192.0.2.66", f"made-up-{number}", HUGE)
    readings.register("192.0.2.1", "orders", HUGE)
    for _ in range(2):
        readings.finish_one()
    assert "orders" in readings.outcomes


def test_a_broker_that_is_known_does_not_wait_for_those_of_its_host_that_are_not(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 1 << 28)
    for number in range(10):
        readings.register("192.0.2.66", f"made-up-{number}", HUGE)
    readings.register("192.0.2.66", "orders", HUGE, is_known=True)
    for _ in range(2):
        readings.finish_one()
    assert "orders" in readings.outcomes


def test_what_one_broker_tells_is_taken_in_its_order(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 1 << 28)
    told = [f"orders.{number}" for number in range(6)]
    for name, body in zip(told, (HUGE, SMALL, PLAIN, SMALL, SMALL, HUGE), strict=True):
        readings.register("192.0.2.1" if body is SMALL else "192.0.2.2", name, body)
    readings.register("192.0.2.1", "other", SMALL)
    for _ in range(7):
        readings.finish_one()
    assert readings.taken == ["other", *told]
    assert len(readings.outcomes) == 7


def test_a_change_waits_for_what_came_before_it_and_for_nothing_else(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 1 << 28)
    readings.register("192.0.2.1", "before", HUGE)
    readings.register("192.0.2.2", "too", HUGE)
    readings.change("192.0.2.3")
    readings.register("192.0.2.3", "later", HUGE)
    readings.register("192.0.2.3", "small", SMALL)
    for _ in range(4):
        readings.finish_one()
    assert set(readings.outcomes[: readings.outcomes.index(Answer())]) >= {"before", "too"}
    assert readings.outcomes.index(Answer()) <= 4
    readings.finish(2_000)
    assert len(readings.outcomes) == 5


def test_one_connection_has_few_large_registrations_that_wait(tmp_path: Path) -> None:
    readings = Readings(tmp_path, 1 << 28)
    one = readings.request("192.0.2.1", PLAIN)
    for number in range(MAX_LARGE_PER_CHANNEL + 1):
        request = Request(one.channel, one.command)
        readings.note(readings.reader.read(request, f"{number}", compressed=False, take_in=_kept))
    (refusal,) = readings.outcomes
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    assert "large registrations of this connection" in refusal.remark
    readings.register("192.0.2.1", "orders", SMALL)
    assert readings.outcomes[1:] == ["orders"]
    readings.finish(1_000)
    assert len(readings.outcomes) == MAX_LARGE_PER_CHANNEL + 2
    readings.read("192.0.2.1", PLAIN)
    assert not isinstance(readings.outcomes[-1], RequestRefused), "there is room again"


@pytest.mark.parametrize("count", [0, 10])
def test_a_small_registration_is_read_at_once(tmp_path: Path, count: int) -> None:
    readings = Readings(tmp_path, SIZE)
    table = topics(*(f"topic-{at}" for at in range(count)))
    readings.read("192.0.2.1", RegisterBrokerBody(topic_config_table=table).build(compressed=False))
    (told,) = readings.outcomes
    assert set(told.topic_config_table) == set(table)
