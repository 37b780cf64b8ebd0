"""Timer messages over several lives of a broker, however they begin and end: each is delivered once, none early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.schedule import timer_service
from gateway.schedule.timer_message import placed_timed
from gateway.tests.crash.disk.recording import RecordingFiles
from gateway.tests.crash.exploration import FRESH
from gateway.tests.crash.messages import message
from gateway.tests.crash.oracle import read_all
from gateway.tests.crash.small_broker import START_MS, TIMERS, Clock, SmallBroker
from gateway.tests.crash.workload import SMALL, WORKLOADS
from wire.message.properties import PropertyName

WORKLOAD = WORKLOADS["timer"]
SETTINGS = replace(SMALL, mapped_file_size_commit_log=1 << 16)
"""An index of the ordinary size would be 420 MB of memory for each life."""
QUEUE = ("A", 0)
STEP_MS = 50
LONGEST_MS = 6_000
"""More than a turn of the wheel: some are rolled on their way."""


class Lives:
    """One broker after the other on the same disk."""

    def __init__(self) -> None:
        self.clock = Clock(START_MS)
        self.files = RecordingFiles(FRESH, self.clock)
        self.due: dict[bytes, int] = {}
        self.start()

    def start(self) -> None:
        """A broker begins; one that was there and did not stop is killed by that."""
        self.broker = SmallBroker(self.files, self.clock, SETTINGS)
        self.broker.open()
        self.broker.start()

    def stop(self) -> None:
        """A proper stop, and the next start."""
        self.broker.close()
        self.start()

    def send(self, delay_ms: int) -> None:
        timed = message(WORKLOAD, QUEUE, len(self.due), self.clock(), Random(len(self.due)))
        self.due[timed.body] = due_ms = self.clock() + delay_ms
        timed.property_map = {**timed.property_map, PropertyName.TIMER_DELIVER_MS: str(due_ms)}
        waiting = placed_timed(timed, self.clock(), TIMERS, waiting_in=lambda _: 0, random_below=lambda _: 0)
        self.broker.store.append(waiting, lambda _: None)
        self.broker.threads.run()

    def save(self) -> None:
        self.broker.save_timers()
        self.broker.threads.run()

    def run(self, milliseconds: int) -> None:
        """Time passes, and the broker does what is due."""
        for _ in range(milliseconds // STEP_MS):
            self.clock.now_ms += STEP_MS
            self.broker.reactor.advance(STEP_MS / 1_000)
            self.broker.threads.run()

    def pause(self, milliseconds: int) -> None:
        """Time passes, and the machine sleeps."""
        self.clock.now_ms += milliseconds

    def delivered(self) -> Iterator[tuple[bytes, int]]:
        """Bodies and times."""
        for found in read_all(self.broker.store).get(QUEUE, []):
            yield found.body, found.stored_at_ms


def test_a_stop_passes_over_no_second_that_nobody_has_read_yet() -> None:
    """Each of two stops carries a second that is partly done over into the next one; the third broker stops after a
    sleep of the machine, before it has read the second in which it begins.
    """
    lives = Lives()
    lives.send(200)
    lives.send(900)
    lives.run(500)
    lives.stop()
    lives.send(100)
    lives.run(200)
    lives.stop()
    lives.pause(5_000)
    lives.stop()
    lives.run(2_000)
    assert Counter(body for body, _ in lives.delivered()) == dict.fromkeys(lives.due, 1)


def test_a_stop_soon_after_a_start_delivers_nothing_again_of_the_time_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_service, "BATCH_COUNT", 2)
    lives = Lives()
    for delay_ms in (400, 1_500, 2_500):
        lives.send(delay_ms)
    lives.save()
    lives.pause(6_000)
    lives.start()
    lives.stop()
    lives.run(2_000)
    assert Counter(body for body, _ in lives.delivered()) == dict.fromkeys(lives.due, 1)


steps_of_time = (st.integers(1, 10) | st.integers(10, 60)).map(lambda count: count * STEP_MS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 400) | st.integers(1, LONGEST_MS)),
        st.tuples(st.sampled_from(("run", "pause")), steps_of_time),
        st.tuples(st.sampled_from(("stop", "start", "save"))),
    ),
    max_size=24,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_each_message_is_delivered_once_over_stops_and_kills(
    monkeypatch: pytest.MonkeyPatch, script: list[tuple[str, int] | tuple[str]]
) -> None:
    monkeypatch.setattr(timer_service, "BATCH_COUNT", 2)
    lives = Lives()
    for name, *arguments in script:
        getattr(lives, name)(*arguments)
    lives.run(LONGEST_MS + 5_000)
    delivered = list(lives.delivered())
    assert Counter(body for body, _ in delivered) == dict.fromkeys(lives.due, 1)
    assert all(at_ms >= lives.due[body] for body, at_ms in delivered)
