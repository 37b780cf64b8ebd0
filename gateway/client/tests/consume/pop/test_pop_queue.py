"""The state of a queue that is popped."""

from __future__ import annotations

from gateway.client.consume.pop.pop_handles import PoppedMessage, ReceiptWords
from gateway.client.consume.pop.pop_queue import POP_EXPIRES_S, PopQueue
from gateway.client.message import MessageQueue
from gateway.client.tests.test_message import received

RECEIPT = ReceiptWords("0", "1000", "60000", "3", "0", "broker-a", "0", "0")


def popped(until: float = 60.0) -> PoppedMessage:
    return PoppedMessage(received().record, "broker-a", RECEIPT, until, "")


def queue() -> PopQueue:
    return PopQueue(MessageQueue("t", "broker-a", -1), now=0.0)


def test_what_is_finished_and_not_given_back_is_acknowledged_once() -> None:
    state = queue()
    messages = [popped() for _ in range(3)]
    first, second = state.add(messages, 2)
    assert (state.waiting, first.lapses_at) == (3, 60.0)
    messages[1].given_back = True
    state.settle(first)
    state.settle(first)
    assert state.waiting == 1
    assert state.take_done(1.0) == ([messages[0]], [])
    state.keep(second, [])
    assert state.take_done(1.0) == ([messages[2]], [])
    assert state.take_done(1.0) == ([], [])


def test_what_others_may_have_by_now_is_told_apart() -> None:
    state = queue()
    early, late = popped(10.0), popped(60.0)
    (turn,) = state.add([early, late], 2)
    assert turn.lapses_at == 10.0
    state.settle(turn)
    assert state.take_done(10.0) == ([late], [early])


def test_results_count_after_it_is_given_up_and_a_loop_that_hangs_shows() -> None:
    state = queue()
    state.drop()
    assert (state.is_given_up, state.dropped) == (True, False)
    assert not state.is_pull_expired(POP_EXPIRES_S)
    assert state.is_pull_expired(POP_EXPIRES_S + 1)
