"""Calls that wait for answers: paired by opaque, bounded, timed out on the reactor's clock."""

from __future__ import annotations

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from gateway.remoting.pending import (
    MAX_OPAQUE,
    CallTimeout,
    ChannelClosed,
    PendingCalls,
    TooManyCalls,
)
from wire.command import RemotingCommand


def outcome(deferred: Deferred[RemotingCommand]) -> list[object]:
    seen: list[object] = []
    deferred.addCallbacks(seen.append, lambda failure: seen.append(failure.value))
    return seen


def test_an_answer_reaches_the_call_with_its_opaque() -> None:
    pending = PendingCalls(Clock(), limit=8)
    first, second = outcome(pending.expect(1, 3)), outcome(pending.expect(2, 3))
    response = RemotingCommand(0, opaque=2, flag=1)
    assert pending.answered(response)
    assert second == [response]
    assert first == []
    assert len(pending) == 1


def test_a_call_times_out_and_its_late_answer_is_ignored() -> None:
    clock = Clock()
    pending = PendingCalls(clock, limit=8)
    seen = outcome(pending.expect(7, 3))
    clock.advance(2.9)
    assert seen == []
    clock.advance(0.1)
    assert isinstance(seen[0], CallTimeout)
    assert str(seen[0]) == "no answer within 3 s"
    assert not pending.answered(RemotingCommand(0, opaque=7, flag=1))


def test_a_closed_connection_fails_every_call_and_leaves_no_timer() -> None:
    clock = Clock()
    pending = PendingCalls(clock, limit=8)
    seen = [outcome(pending.expect(opaque, 3)) for opaque in (1, 2)]
    pending.fail_all("the peer left")
    assert [type(answers[0]) for answers in seen] == [ChannelClosed, ChannelClosed]
    assert clock.getDelayedCalls() == []


def test_more_calls_than_the_limit_are_refused() -> None:
    pending = PendingCalls(Clock(), limit=1)
    outcome(pending.expect(1, 3))
    with pytest.raises(TooManyCalls, match="1 calls already wait"):
        pending.expect(2, 3)


def test_numbers_start_again_at_one_and_skip_those_in_use() -> None:
    pending = PendingCalls(Clock(), limit=8)
    assert pending.next_opaque() == 1
    outcome(pending.expect(1, 3))
    pending._last_opaque = MAX_OPAQUE
    assert pending.next_opaque() == 2


def test_a_cancelled_call_is_forgotten() -> None:
    clock = Clock()
    pending = PendingCalls(clock, limit=8)
    call = pending.expect(1, 3)
    seen = outcome(call)
    call.cancel()
    assert isinstance(seen[0], CancelledError)
    assert len(pending) == 0
    assert clock.getDelayedCalls() == []
