"""The steps of a controller's member: each as a row of state, event and time, and whole ways to a role."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.replication.controlled.identity import AppliedIdentity, BrokerIdentity
from gateway.replication.controlled.machine import (
    NOTICE_EVERY_MS,
    Ask,
    Fence,
    GroupTold,
    GroupView,
    HeldRole,
    IdOffered,
    IdRefused,
    IdTaken,
    KeepApplied,
    KeepIdentity,
    LeaderNamed,
    MemberAction,
    MemberEvent,
    MemberPhase,
    MemberState,
    NotAnswered,
    NotKnown,
    Question,
    RoleChanged,
    RoleFailed,
    RoleTaken,
    SetChanged,
    TakeRole,
    Tick,
    step,
)

ONE = BrokerIdentity("c", "b", 1)
APPLIED = AppliedIdentity(ONE, "h:1;5")
NEW = MemberState(cluster="c", broker_name="b")
KNOWN = replace(NEW, identity=ONE)
OWN = GroupView(1, "h:1", 3, frozenset({1}), 4)
OTHERS = GroupView(2, "h:2", 3, frozenset({1, 2}), 4)
NOBODY = GroupView(None, "", 3, frozenset({1}), 4)
MASTER = HeldRole(True, 3, 1, "h:1")
SLAVE = HeldRole(False, 3, 2, "h:2")
LATER = 10**9
"""A time at which no question is due in ``SETTLED``."""
LED = replace(KNOWN, leader="k:1", leader_due_ms=LATER, ask_due_ms=LATER)
RUNNING = replace(LED, phase=MemberPhase.RUNNING, view=OWN, held=MASTER, heard_at_ms=900)


def asking(state: MemberState, question: Question, at_ms: int = 950) -> MemberState:
    """The state in which a question waits for its answer."""
    return replace(state, asked=question, asked_at_ms=at_ms)


def phased(phase: MemberPhase, question: Question, **fields: object) -> MemberState:
    return asking(replace(LED, phase=phase, **fields), question)  # type: ignore[arg-type]


ROWS: list[tuple[str, MemberState, MemberEvent, MemberPhase, list[MemberAction]]] = [
    ("a new member looks for the leader", NEW, Tick(), MemberPhase.SEARCHING, [Ask(Question.LEADER)]),
    (
        "a member without an id asks for one",
        asking(NEW, Question.LEADER),
        LeaderNamed("k:1"),
        MemberPhase.NUMBERING,
        [Ask(Question.NEXT_ID)],
    ),
    (
        "an id that was asked for before the last stop is asked for again",
        asking(replace(NEW, applied=APPLIED), Question.LEADER),
        LeaderNamed("k:1"),
        MemberPhase.APPLYING,
        [Ask(Question.APPLY_ID)],
    ),
    (
        "a member with an id registers",
        asking(KNOWN, Question.LEADER),
        LeaderNamed("k:1"),
        MemberPhase.REGISTERING,
        [Ask(Question.REGISTER)],
    ),
    (
        "an id is on disk before it is asked for",
        phased(MemberPhase.NUMBERING, Question.NEXT_ID, identity=None),
        IdOffered(1, "h:1;5"),
        MemberPhase.APPLYING,
        [KeepApplied(APPLIED), Ask(Question.APPLY_ID)],
    ),
    (
        "an id is on disk before it is registered",
        phased(MemberPhase.APPLYING, Question.APPLY_ID, identity=None, applied=APPLIED),
        IdTaken(),
        MemberPhase.REGISTERING,
        [KeepIdentity(ONE), Ask(Question.REGISTER)],
    ),
    (
        "an id that another broker took first is not asked for again",
        phased(MemberPhase.APPLYING, Question.APPLY_ID, identity=None, applied=APPLIED),
        IdRefused(),
        MemberPhase.NUMBERING,
        [],
    ),
    (
        "a living master is followed",
        phased(MemberPhase.REGISTERING, Question.REGISTER),
        GroupTold(OTHERS),
        MemberPhase.RUNNING,
        [TakeRole(SLAVE)],
    ),
    (
        "without a master an election is asked for at once",
        phased(MemberPhase.REGISTERING, Question.REGISTER),
        GroupTold(NOBODY),
        MemberPhase.ELECTING,
        [Ask(Question.ELECT)],
    ),
    (
        "an election without result is asked for again later",
        phased(MemberPhase.ELECTING, Question.ELECT),
        GroupTold(NOBODY),
        MemberPhase.ELECTING,
        [],
    ),
    (
        "an elected member is the master",
        phased(MemberPhase.ELECTING, Question.ELECT),
        GroupTold(OWN),
        MemberPhase.RUNNING,
        [TakeRole(MASTER)],
    ),
    (
        "a member that the controller forgot registers again, later",
        asking(RUNNING, Question.GROUP),
        NotKnown(),
        MemberPhase.REGISTERING,
        [],
    ),
    (
        "a notice of a later master is asked about at once",
        RUNNING,
        RoleChanged(4),
        MemberPhase.RUNNING,
        [Ask(Question.GROUP)],
    ),
    (
        "a notice without a known leader lets the leader be looked for at once",
        replace(RUNNING, leader=None),
        RoleChanged(4),
        MemberPhase.RUNNING,
        [Ask(Question.LEADER)],
    ),
    (
        "a notice while an election is asked for brings the next question forward",
        replace(RUNNING, phase=MemberPhase.ELECTING),
        RoleChanged(4),
        MemberPhase.ELECTING,
        [Ask(Question.ELECT)],
    ),
    (
        "a notice while a question waits for its answer waits, too",
        asking(RUNNING, Question.GROUP),
        RoleChanged(4),
        MemberPhase.RUNNING,
        [],
    ),
    ("a notice of the same epoch is none", RUNNING, RoleChanged(3), MemberPhase.RUNNING, []),
    (
        "a notice of an earlier epoch is none",
        RUNNING,
        RoleChanged(2),
        MemberPhase.RUNNING,
        [],
    ),
    (
        "a notice before there is an id is none",
        replace(NEW, leader_due_ms=LATER),
        RoleChanged(3),
        MemberPhase.SEARCHING,
        [],
    ),
    (
        "an answer that was overtaken is none",
        asking(RUNNING, Question.GROUP),
        GroupTold(replace(OTHERS, epoch=2)),
        MemberPhase.RUNNING,
        [],
    ),
    (
        "a master without a living master in the controller's eyes asks for an election, and keeps its role",
        asking(RUNNING, Question.GROUP),
        GroupTold(NOBODY),
        MemberPhase.ELECTING,
        [Ask(Question.ELECT)],
    ),
    (
        "another sync state set changes no role",
        asking(RUNNING, Question.GROUP),
        GroupTold(replace(OWN, set_epoch=5)),
        MemberPhase.RUNNING,
        [],
    ),
    (
        "a role that could not be taken is tried again",
        replace(RUNNING, held=None, taking=MASTER),
        RoleFailed(),
        MemberPhase.RUNNING,
        [TakeRole(MASTER)],
    ),
    (
        "one role is taken at a time",
        asking(replace(RUNNING, taking=MASTER, held=None), Question.GROUP),
        GroupTold(replace(OTHERS, epoch=4)),
        MemberPhase.RUNNING,
        [],
    ),
    (
        "a role that was overtaken while it was taken is changed",
        replace(RUNNING, taking=MASTER, held=None, view=replace(OTHERS, epoch=4)),
        RoleTaken(MASTER),
        MemberPhase.RUNNING,
        [TakeRole(replace(SLAVE, epoch=4))],
    ),
]


@pytest.mark.parametrize(
    ("state", "event", "phase", "actions"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_step(state: MemberState, event: MemberEvent, phase: MemberPhase, actions: list[MemberAction]) -> None:
    after, found = step(state, event, 1_000)
    assert (after.phase, list(found)) == (phase, actions)


def test_a_group_is_asked_about_again_and_again() -> None:
    state, actions = step(asking(RUNNING, Question.GROUP), GroupTold(OWN), 1_000)
    assert list(actions) == []
    state, actions = step(state, Tick(), 3_499)
    assert list(actions) == []
    _, actions = step(state, Tick(), 3_500)
    assert list(actions) == [Ask(Question.GROUP)]


def test_the_leader_is_looked_for_every_ten_seconds_and_after_a_lost_answer() -> None:
    state, _ = step(asking(NEW, Question.LEADER), LeaderNamed("k:1"), 1_000)
    state, _ = step(state, NotAnswered(), 1_100)
    assert state.leader is None
    state, actions = step(state, Tick(), 2_100)
    assert list(actions) == [Ask(Question.LEADER)]
    state, actions = step(state, LeaderNamed("k:2"), 2_200)
    assert (state.leader, list(actions)) == ("k:2", [Ask(Question.NEXT_ID)])
    state = replace(RUNNING, leader_due_ms=11_000, ask_due_ms=LATER)
    assert list(step(state, Tick(), 10_999)[1]) == [Fence(10_099)]
    assert Ask(Question.LEADER) in step(state, Tick(), 11_000)[1]


def test_one_question_waits_at_a_time() -> None:
    state = asking(replace(RUNNING, leader_due_ms=0, ask_due_ms=0), Question.GROUP)
    assert list(step(state, Tick(), 1_000)[1]) == []


def test_a_master_is_fenced_when_no_answer_was_asked_for_within_its_lifetime() -> None:
    state, actions = step(RUNNING, Tick(), 10_900)
    assert list(actions) == []
    state, actions = step(state, Tick(), 10_901)
    assert list(actions) == [Fence(10_001)]
    state, actions = step(state, Tick(), 11_500)
    assert list(actions) == [], "it is said once"
    state = asking(state, Question.LEADER, 11_500)
    state, actions = step(state, LeaderNamed("k:1"), 11_600)
    assert not any(isinstance(action, TakeRole) for action in actions), "any controller is not the leader"
    state, actions = step(asking(state, Question.GROUP, 11_700), GroupTold(OWN), 11_800)
    assert list(actions) == [TakeRole(MASTER)]


def test_the_lifetime_begins_when_the_answered_question_was_asked() -> None:
    state, _ = step(asking(RUNNING, Question.GROUP, 5_000), GroupTold(OWN), 8_000)
    assert state.heard_at_ms == 5_000
    assert Fence(10_001) in step(state, Tick(), 15_001)[1]


def test_nobody_becomes_the_master_by_an_old_word() -> None:
    state, actions = step(replace(RUNNING, held=None, heard_at_ms=-1), RoleChanged(4), 20_000)
    assert list(actions) == [Ask(Question.GROUP)]
    state, actions = step(state, GroupTold(replace(OWN, epoch=4)), 30_001)
    assert list(actions) == [], "the answer is as old as its question"
    _, actions = step(asking(state, Question.GROUP, 30_100), GroupTold(replace(OWN, epoch=4)), 30_200)
    assert list(actions) == [TakeRole(replace(MASTER, epoch=4))]


@pytest.mark.parametrize("told", [replace(OTHERS, epoch=4), OWN])
def test_after_a_notice_only_the_answer_of_the_leader_counts(told: GroupView) -> None:
    state, actions = step(RUNNING, RoleChanged(2**31 - 1), 1_000)
    assert list(actions) == [Ask(Question.GROUP)]
    assert (state.view, state.held) == (OWN, MASTER)
    state, actions = step(state, GroupTold(told), 1_010)
    assert state.view == told
    assert list(actions) == ([] if told is OWN else [TakeRole(replace(SLAVE, epoch=4))])


def test_a_burst_of_notices_is_one_question_and_one_more_after_it() -> None:
    state, asked = RUNNING, 0
    for at_ms in range(1_000, 1_010):
        state, actions = step(state, RoleChanged(at_ms), at_ms)
        asked += len(actions)
    assert asked == 1
    state, actions = step(state, GroupTold(OWN), 1_010)
    assert list(actions) == [], "the second question has to wait"
    state, actions = step(state, Tick(), 1_000 + NOTICE_EVERY_MS - 1)
    assert list(actions) == []
    state, actions = step(state, Tick(), 1_000 + NOTICE_EVERY_MS)
    assert list(actions) == [Ask(Question.GROUP)]
    state, actions = step(state, GroupTold(OWN), 1_110)
    state, actions = step(state, Tick(), 1_500)
    assert list(actions) == [], "two questions for the whole burst"


def test_a_notice_whose_leader_is_lost_finds_the_next_leader_without_a_pause() -> None:
    state, _ = step(asking(RUNNING, Question.GROUP), RoleChanged(4), 1_000)
    state, actions = step(state, NotAnswered(), 1_010)
    assert list(actions) == [Ask(Question.LEADER)]
    state, actions = step(state, LeaderNamed("k:2"), 1_020)
    assert list(actions) == [Ask(Question.GROUP)]
    state, actions = step(state, GroupTold(replace(OTHERS, epoch=4)), 1_030)
    assert list(actions) == [TakeRole(replace(SLAVE, epoch=4))]


def test_notices_do_not_let_a_lost_controller_be_asked_without_a_pause() -> None:
    state, asked = RUNNING, 0
    for at_ms in range(1_000, 3_000, 10):
        state, actions = step(state, RoleChanged(4), at_ms)
        asked += sum(isinstance(action, Ask) for action in actions)
        if state.asked is not None:
            state, actions = step(state, NotAnswered(), at_ms)
            asked += sum(isinstance(action, Ask) for action in actions)
    assert asked <= 2 * (2_000 // NOTICE_EVERY_MS + 1)


def test_a_slave_is_not_fenced() -> None:
    assert list(step(replace(RUNNING, view=OTHERS, held=SLAVE), Tick(), 50_000)[1]) == []


def test_a_changed_set_is_taken_once() -> None:
    state, _ = step(RUNNING, SetChanged(frozenset({1, 2}), 5), 1_000)
    assert state.view == replace(OWN, sync_state_set=frozenset({1, 2}), set_epoch=5)
    state, _ = step(state, SetChanged(frozenset({1}), 5), 1_000)
    assert state.view is not None
    assert state.view.sync_state_set == {1, 2}


VIEWS = st.builds(
    GroupView,
    st.none() | st.integers(1, 3),
    st.just("h:1"),
    st.integers(0, 5),
    st.frozensets(st.integers(1, 3)),
    st.integers(0, 5),
)
EVENTS = st.one_of(
    st.builds(LeaderNamed, st.just("k:1")),
    st.builds(IdOffered, st.integers(1, 3), st.just("x")),
    st.builds(IdRefused),
    st.builds(NotKnown),
    st.builds(NotAnswered, st.booleans()),
    st.builds(GroupTold, VIEWS),
    st.builds(RoleChanged, st.integers(0, 2**31 - 1)),
    st.builds(SetChanged, st.frozensets(st.integers(1, 3)), st.integers(0, 5)),
    st.builds(Tick),
)


@given(st.lists(st.tuples(EVENTS, st.integers(0, 20_000))))
def test_whatever_happens_the_epoch_never_falls_and_one_role_is_taken_at_a_time(
    history: list[tuple[MemberEvent, int]],
) -> None:
    state, now_ms, epoch = KNOWN, 0, 0
    for event, passed_ms in history:
        now_ms += passed_ms
        before = state
        state, actions = step(state, event, now_ms)
        assert sum(isinstance(action, Ask) for action in actions) <= 1
        assert before.taking is None or not any(isinstance(action, TakeRole) for action in actions)
        if state.view is not None:
            assert state.view.epoch >= epoch
            epoch = state.view.epoch
        if state.taking is not None and passed_ms % 2:
            state, _ = step(state, RoleTaken(state.taking), now_ms)
