"""The state table is complete, and the documented picture is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

import gateway
from gateway.transaction.states import OPEN_STATES, TRANSITIONS, Event, State, next_state

EXPECTED = {
    (State.PENDING, Event.COMMIT): State.COMMITTING,
    (State.PENDING, Event.ROLLBACK): State.ROLLING_BACK,
    (State.PENDING, Event.DISCARD): State.DISCARDING,
    (State.COMMITTING, Event.COMMIT): State.COMMITTING,
    (State.COMMITTING, Event.STORED): State.COMMITTED,
    (State.COMMITTING, Event.FAILED): State.PENDING,
    (State.ROLLING_BACK, Event.ROLLBACK): State.ROLLING_BACK,
    (State.ROLLING_BACK, Event.STORED): State.ROLLED_BACK,
    (State.ROLLING_BACK, Event.FAILED): State.PENDING,
    (State.DISCARDING, Event.STORED): State.DISCARDED,
    (State.DISCARDING, Event.FAILED): State.PENDING,
    (State.COMMITTED, Event.COMMIT): State.COMMITTED,
    (State.ROLLED_BACK, Event.ROLLBACK): State.ROLLED_BACK,
}


FOUND = frozenset({State.NONE, State.REPLACED, State.SETTLED})
"""The states that no event leads to. A half message only gets such a state from what a start finds."""


def diagram() -> str:
    """Return the table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> PENDING: half message stored"]
    for state, row in TRANSITIONS.items():
        lines += [f"    {state.name} --> {after.name}: {event.value}" for event, after in row.items()]
    lines += [f"    {state.name} --> [*]" for state in TRANSITIONS if state not in OPEN_STATES | FOUND]
    return "\n".join(lines)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_pair_of_state_and_event_leads_where_the_table_says_or_nowhere(state: State, event: Event) -> None:
    assert next_state(state, event) is EXPECTED.get((state, event))


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(State)


def test_nothing_leaves_a_settled_state() -> None:
    for state in set(State) - OPEN_STATES - {State.NONE}:
        assert set(TRANSITIONS[state].values()) <= {state}


def test_an_outcome_on_its_way_ends_stored_or_pending_again() -> None:
    for state in OPEN_STATES - {State.PENDING}:
        assert TRANSITIONS[state][Event.FAILED] is State.PENDING
        assert TRANSITIONS[state][Event.STORED] not in OPEN_STATES


def test_the_documented_picture_is_the_table() -> None:
    document = Path(gateway.__file__).parent.parent / "docs" / "transactions.md"
    assert f"```mermaid\n{diagram()}\n```" in document.read_text("utf-8")
