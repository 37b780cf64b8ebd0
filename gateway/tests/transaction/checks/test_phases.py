"""The phases of the check service: the table is complete, and every phase wakes when there is work."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.transaction.checks.phases import (
    CHECK_TRANSITIONS,
    LONGEST_SLEEP_MS,
    WATCH_MS,
    CheckEvent,
    CheckPhase,
    CheckWork,
    next_wake_ms,
)

STOPPED, ASLEEP, IN_TURN, READING = CheckPhase
START, STOP, WAKE, COLD, READ, REST = CheckEvent

EXPECTED = {
    (STOPPED, START): ASLEEP,
    (STOPPED, STOP): STOPPED,
    (STOPPED, COLD): STOPPED,
    (STOPPED, READ): STOPPED,
    (STOPPED, REST): STOPPED,
    (ASLEEP, STOP): STOPPED,
    (ASLEEP, WAKE): IN_TURN,
    (IN_TURN, STOP): STOPPED,
    (IN_TURN, COLD): READING,
    (IN_TURN, REST): ASLEEP,
    (READING, STOP): STOPPED,
    (READING, WAKE): READING,
    (READING, READ): IN_TURN,
    (READING, REST): READING,
}


@pytest.mark.parametrize(("phase", "event"), list(product(CheckPhase, CheckEvent)))
def test_every_pair_of_phase_and_event_leads_where_the_table_says_or_nowhere(
    phase: CheckPhase, event: CheckEvent
) -> None:
    assert CHECK_TRANSITIONS[phase].get(event) is EXPECTED.get((phase, event))


def test_a_stop_is_possible_in_every_phase_and_only_a_start_ends_it() -> None:
    assert {row[STOP] for row in CHECK_TRANSITIONS.values()} == {STOPPED}
    assert {event for event, after in CHECK_TRANSITIONS[STOPPED].items() if after is not STOPPED} == {START}


NOTHING = CheckWork(is_any_pending=False, is_turn_waiting=False, is_watching=False, due_in_ms=None)
PENDING = NOTHING._replace(is_any_pending=True)
WATCHING = PENDING._replace(is_watching=True)
WAITING = WATCHING._replace(is_turn_waiting=True)


@pytest.mark.parametrize(
    ("work", "asleep", "reading"),
    [
        (NOTHING, None, None),
        (NOTHING._replace(due_in_ms=5), None, None),
        (PENDING, LONGEST_SLEEP_MS, LONGEST_SLEEP_MS),
        (PENDING._replace(due_in_ms=6_000), 6_000, 6_000),
        (PENDING._replace(due_in_ms=LONGEST_SLEEP_MS + 1), LONGEST_SLEEP_MS, LONGEST_SLEEP_MS),
        (PENDING._replace(due_in_ms=-7), 0, 0),
        (WATCHING, WATCH_MS, WATCH_MS),
        (WATCHING._replace(due_in_ms=6_000), WATCH_MS, WATCH_MS),
        (WATCHING._replace(due_in_ms=300), 300, 300),
        (WAITING, 0, WATCH_MS),
        (WAITING._replace(due_in_ms=300), 0, 300),
    ],
)
def test_the_service_wakes_for_work_and_does_not_spin_while_the_disk_is_read(
    work: CheckWork, asleep: int | None, reading: int | None
) -> None:
    assert next_wake_ms(ASLEEP, work) == asleep
    assert next_wake_ms(READING, work) == reading
    assert next_wake_ms(STOPPED, work) is None
    assert next_wake_ms(IN_TURN, work) is None, "the end of the turn asks"
