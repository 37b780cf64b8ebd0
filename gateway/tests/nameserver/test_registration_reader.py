"""What waits to be read has a limit, and what was read makes room."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.nameserver.registration_reader import RegistrationReader
from gateway.remoting.turns import Turns
from gateway.tests.nameserver.registrations import topics
from gateway.tests.remoting.conversation import memory_reactor
from wire.bodies.registration import RegisterBrokerBody
from wire.codes import ResponseCode
from wire.errors import BodyError


def test_what_waits_has_a_limit() -> None:
    reactor = memory_reactor()
    raw = RegisterBrokerBody(topic_config_table=topics(*(f"topic-{at}" for at in range(2_000)))).build(compressed=False)
    reader = RegistrationReader(Turns(reactor), max_waiting_bytes=2 * len(raw))
    outcomes: list[Any] = []

    def read(address: str, body: bytes = raw) -> None:
        work = Deferred.fromCoroutine(reader.read(address, body, compressed=False, version=400))
        work.addCallbacks(outcomes.append, lambda failure: outcomes.append(failure.value))

    for address in ("a:1", "b:1", "c:1"):
        read(address)
    (refusal,) = outcomes
    assert isinstance(refusal, RequestRefused)
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    assert refusal.remark == f"registrations of {2 * len(raw)} bytes wait to be read, the limit is {2 * len(raw)}"
    while len(outcomes) < 3:
        reactor.advance(0)
    assert [len(told.topic_config_table) for told in outcomes[1:]] == [2_002, 2_002]
    read("d:1", b"malformed")
    assert isinstance(outcomes[3], BodyError)
    read("d:1", b"{}")
    assert outcomes[4] == RegisterBrokerBody()
    read("a:1")
    read("b:1")
    assert len(outcomes) == 5, "both have room again"


@pytest.mark.parametrize("count", [0, 10])
def test_a_small_registration_is_read_at_once(count: int) -> None:
    raw = RegisterBrokerBody(topic_config_table=topics(*(f"topic-{at}" for at in range(count)))).build(compressed=True)
    reader = RegistrationReader(Turns(memory_reactor()))
    reading = reader.read("a:1", raw, compressed=True, version=513)
    with pytest.raises(StopIteration) as end:
        reading.send(None)
    assert isinstance(end.value.value, RegisterBrokerBody)
