"""The next steps of a controller's member, from what it is told. Pure: nothing is sent, and the time is an argument.

    SEARCHING → (no id yet: NUMBERING → APPLYING) → REGISTERING → ELECTING → RUNNING
        the leader of the controllers   an id, in two steps      a master: found, or elected     a role is held

One question is asked at a time. A controller that does not answer is asked again, and its leader is looked for again.
A member acts on a master only if its epoch is not below the last one: answers may overtake each other. A notice of a
new master is a hint only: anybody at a controller's host can send one, so the leader is asked at once. Until it has
a role a member serves nothing, and a master serves nothing after the leader was silent for its lifetime.
Upstream: ``ReplicasManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from gateway.replication.controlled.identity import AppliedIdentity, BrokerIdentity

RETRY_MS = 1_000
"""The time between two questions that had no useful answer."""
NOTICE_EVERY_MS = 100
"""The time between two questions that notices cause: a burst of notices is one question, and one more after it."""
NOT_YET = -1


class MemberPhase(Enum):
    """The way of a member to its role."""

    SEARCHING = "the leader of the controllers is not known"
    NUMBERING = "the controller is asked for a broker id"
    APPLYING = "the broker id is taken"
    REGISTERING = "the address is registered at the controller"
    ELECTING = "no master lives, and an election is asked for"
    RUNNING = "a master is known"


class Question(Enum):
    """The questions to a controller."""

    LEADER = "who leads"
    NEXT_ID = "which id is free"
    APPLY_ID = "take this id"
    REGISTER = "take this address"
    ELECT = "elect"
    GROUP = "who is the master"


@dataclass(frozen=True, slots=True)
class GroupView:
    """The brokers of one name as the controller sees them; the master is None if none lives."""

    master_id: int | None
    master_address: str
    epoch: int
    """The master's epoch."""
    sync_state_set: frozenset[int] = frozenset()
    set_epoch: int = 0


@dataclass(frozen=True, slots=True)
class HeldRole:
    """The part of a member: the master in its own epoch, or a slave of the master with this id and address."""

    is_master: bool
    epoch: int
    master_id: int
    master_address: str


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a member in milliseconds."""

    leader_every_ms: int = 10_000
    group_every_ms: int = 2_500
    """The time between two questions for the master; a fourth of the lifetime, so that one may remain unanswered."""
    lifetime_ms: int = 10_000
    """The time without an answer of the leader after which a role is fenced."""


# -- what happens -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderNamed:
    """An answer: the address of the controllers' leader."""

    address: str


@dataclass(frozen=True, slots=True)
class IdOffered:
    """An answer: a free id; the caller adds the code with which it asks for the id."""

    broker_id: int
    check_code: str


@dataclass(frozen=True, slots=True)
class IdTaken:
    """An answer: the id is the member's."""


@dataclass(frozen=True, slots=True)
class IdRefused:
    """An answer: another broker took the id."""


@dataclass(frozen=True, slots=True)
class GroupTold:
    """An answer to REGISTER, ELECT or GROUP."""

    view: GroupView


@dataclass(frozen=True, slots=True)
class NotKnown:
    """An answer: the controller does not know this member, or its group."""


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """An absent or useless answer; ``is_lost`` if the leader has to be looked for again."""

    is_lost: bool = True


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """A notice that a master was elected in an epoch; anybody at a controller's host can send it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SetChanged:
    """The answer of the controller to a change of the sync state set that this master asked for."""

    sync_state_set: frozenset[int]
    set_epoch: int


@dataclass(frozen=True, slots=True)
class RoleTaken:
    """A role is held from now on."""

    role: HeldRole


@dataclass(frozen=True, slots=True)
class RoleFailed:
    """The broker could not take its role, and will try again."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


MemberEvent: TypeAlias = (
    LeaderNamed
    | IdOffered
    | IdTaken
    | IdRefused
    | GroupTold
    | NotKnown
    | NotAnswered
    | RoleChanged
    | SetChanged
    | RoleTaken
    | RoleFailed
    | Tick
)


# -- what has to be done ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the leader; for LEADER, any controller."""

    question: Question


@dataclass(frozen=True, slots=True)
class KeepApplied:
    """Write the id that is asked for to the disk, before it is asked for."""

    applied: AppliedIdentity


@dataclass(frozen=True, slots=True)
class KeepIdentity:
    """Write the id to the disk for good."""

    identity: BrokerIdentity


@dataclass(frozen=True, slots=True)
class TakeRole:
    """Stop what runs, and serve in this role; ``RoleTaken`` or ``RoleFailed`` follows."""

    role: HeldRole


@dataclass(frozen=True, slots=True)
class Fence:
    """Serve nothing any more: the leader has been silent for too long. ``TakeRole`` follows when it answers again."""

    silent_ms: int


MemberAction: TypeAlias = Ask | KeepApplied | KeepIdentity | TakeRole | Fence
Stepped: TypeAlias = "tuple[MemberState, Sequence[MemberAction]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Everything that a member knows."""

    cluster: str
    broker_name: str
    timing: Timing = Timing()
    phase: MemberPhase = MemberPhase.SEARCHING
    identity: BrokerIdentity | None = None
    applied: AppliedIdentity | None = None
    leader: str | None = None
    view: GroupView | None = None
    held: HeldRole | None = None
    """The role that is held."""
    taking: HeldRole | None = None
    """The role that is being taken."""
    asked: Question | None = None
    """The question that waits for its answer."""
    asked_at_ms: int = NOT_YET
    heard_at_ms: int = NOT_YET
    """The time at which the last question was asked that the leader answered."""
    leader_due_ms: int = 0
    ask_due_ms: int = 0
    noticed_due_ms: int | None = None
    """The time at which the question that a notice causes may be asked; None if no notice waits for one."""
    next_notice_ms: int = 0
    """The time before which no further notice causes a question."""

    @property
    def broker_id(self) -> int | None:
        """The id of the member; None as long as it has none."""
        return None if self.identity is None else self.identity.broker_id

    @property
    def wanted(self) -> HeldRole | None:
        """The role that the controller gave to the member; None if no master is known."""
        view, own = self.view, self.broker_id
        if view is None or view.master_id is None or own is None:
            return None
        return HeldRole(view.master_id == own, view.epoch, view.master_id, view.master_address)

    def silent_ms(self, now_ms: int) -> int:
        """Return the milliseconds since the controller's leader last answered."""
        return now_ms - self.heard_at_ms


def step(state: MemberState, event: MemberEvent, now_ms: int) -> Stepped:
    """Return the state after an event, and what has to be done."""
    is_answer = not isinstance(event, RoleChanged | SetChanged | RoleTaken | RoleFailed | Tick)
    if is_answer:
        state = _answered(state, event)
    actions: list[MemberAction] = []
    state = _noted(state, event, now_ms, actions)
    state = _with_fence(_with_role(state, now_ms, actions), now_ms, actions)
    return _asking(state, now_ms, actions)


def _answered(state: MemberState, event: MemberEvent) -> MemberState:
    """Note that the question was answered; an answer of the leader is a sign that it can be reached."""
    of_leader = state.asked is not Question.LEADER and not isinstance(event, NotAnswered)
    heard_at_ms = state.asked_at_ms if of_leader else state.heard_at_ms
    return replace(state, asked=None, heard_at_ms=heard_at_ms)


def _noted(state: MemberState, event: MemberEvent, now_ms: int, actions: list[MemberAction]) -> MemberState:
    """Return the state with what the event says."""
    match event:
        case LeaderNamed() | NotKnown() | NotAnswered():
            return _with_controller(state, event, now_ms)
        case IdOffered() | IdTaken() | IdRefused():
            return _with_id(state, event, now_ms, actions)
        case GroupTold(view):
            return _with_view(replace(state, ask_due_ms=now_ms + state.timing.group_every_ms), view, now_ms)
        case RoleChanged(epoch):
            return _with_notice(state, epoch, now_ms)
        case _:
            return _with_result(state, event)


def _with_notice(state: MemberState, epoch: int, now_ms: int) -> MemberState:
    """Return the state in which the question about a notice is due, if it tells of a later epoch."""
    is_known = state.view is not None and epoch <= state.view.epoch
    if is_known or state.identity is None or state.noticed_due_ms is not None:
        return state
    return replace(state, noticed_due_ms=max(now_ms, state.next_notice_ms))


def _with_controller(state: MemberState, event: LeaderNamed | NotKnown | NotAnswered, now_ms: int) -> MemberState:
    """Return the state with what an answer, or its absence, says about the controllers."""
    match event:
        case LeaderNamed(address):
            is_found = state.phase is MemberPhase.SEARCHING
            return replace(
                state,
                leader=address,
                leader_due_ms=now_ms + state.timing.leader_every_ms,
                phase=_first_phase(state) if is_found else state.phase,
                ask_due_ms=now_ms if is_found else state.ask_due_ms,
            )
        case NotKnown():
            return replace(state, phase=MemberPhase.REGISTERING, ask_due_ms=now_ms + RETRY_MS)
        case NotAnswered(is_lost):
            return replace(
                state,
                leader=None if is_lost else state.leader,
                leader_due_ms=now_ms + RETRY_MS if is_lost else state.leader_due_ms,
                ask_due_ms=now_ms + RETRY_MS,
            )


def _with_id(
    state: MemberState, event: IdOffered | IdTaken | IdRefused, now_ms: int, actions: list[MemberAction]
) -> MemberState:
    """Return the state with the next step to an id."""
    match event:
        case IdOffered(broker_id, check_code):
            identity = BrokerIdentity(state.cluster, state.broker_name, broker_id)
            applied = AppliedIdentity(identity, check_code)
            actions.append(KeepApplied(applied))
            return replace(state, applied=applied, phase=MemberPhase.APPLYING, ask_due_ms=now_ms)
        case IdTaken():
            assert state.applied is not None, "an id was asked for"
            own = state.applied.identity
            actions.append(KeepIdentity(own))
            return replace(state, identity=own, applied=None, phase=MemberPhase.REGISTERING, ask_due_ms=now_ms)
        case IdRefused():
            return replace(state, applied=None, phase=MemberPhase.NUMBERING, ask_due_ms=now_ms + RETRY_MS)


def _with_result(state: MemberState, event: MemberEvent) -> MemberState:
    """Return the state with the result of what the member did itself."""
    match event:
        case SetChanged(members, set_epoch) if state.view is not None and set_epoch > state.view.set_epoch:
            return replace(state, view=replace(state.view, sync_state_set=members, set_epoch=set_epoch))
        case RoleTaken(role):
            return replace(state, held=role, taking=None)
        case RoleFailed():
            return replace(state, held=None, taking=None)
        case _:
            return state


def _first_phase(state: MemberState) -> MemberPhase:
    """Return the phase after a leader was found."""
    if state.identity is not None:
        return MemberPhase.REGISTERING
    return MemberPhase.NUMBERING if state.applied is None else MemberPhase.APPLYING


def _with_view(state: MemberState, view: GroupView, now_ms: int) -> MemberState:
    """Return the state with another view of the group, unless the view is older than the known one.

    A member without a living master asks for an election: at once, because its group cannot be written to.
    """
    if view.master_id is None:  # without a master some answers have no epochs
        is_waiting = state.phase is MemberPhase.ELECTING
        due_ms = now_ms + RETRY_MS if is_waiting else now_ms
        return replace(state, phase=MemberPhase.ELECTING, ask_due_ms=due_ms)
    state = replace(state, phase=MemberPhase.RUNNING)
    known = state.view
    if known is not None and (view.epoch, view.set_epoch) < (known.epoch, known.set_epoch):
        return state
    return replace(state, view=view)


def _with_role(state: MemberState, now_ms: int, actions: list[MemberAction]) -> MemberState:
    """Take the role that the controller gave, one change at a time; nobody becomes the master by an old word."""
    wanted = state.wanted
    if wanted is None or state.taking is not None or wanted == state.held:
        return state
    if wanted.is_master and state.silent_ms(now_ms) > state.timing.lifetime_ms:
        return state
    actions.append(TakeRole(wanted))
    return replace(state, taking=wanted)


def _with_fence(state: MemberState, now_ms: int, actions: list[MemberAction]) -> MemberState:
    """Take the role from a master whose leader is silent."""
    held, silent_ms = state.held, state.silent_ms(now_ms)
    if held is None or not held.is_master or state.taking is not None or silent_ms <= state.timing.lifetime_ms:
        return state
    actions.append(Fence(silent_ms))
    return replace(state, held=None)


_QUESTIONS = {
    MemberPhase.NUMBERING: Question.NEXT_ID,
    MemberPhase.APPLYING: Question.APPLY_ID,
    MemberPhase.REGISTERING: Question.REGISTER,
    MemberPhase.ELECTING: Question.ELECT,
    MemberPhase.RUNNING: Question.GROUP,
}


def _hurried(state: MemberState, now_ms: int) -> MemberState:
    """Return the state in which the next question is due now, because of a notice."""
    return replace(
        state,
        leader_due_ms=now_ms if state.leader is None else state.leader_due_ms,
        ask_due_ms=now_ms,
        noticed_due_ms=None,
        next_notice_ms=now_ms + NOTICE_EVERY_MS,
    )


def _asking(state: MemberState, now_ms: int, actions: list[MemberAction]) -> Stepped:
    """Ask the question that is due, unless another one waits for its answer."""
    if state.asked is not None:
        return state, actions
    if state.noticed_due_ms is not None and now_ms >= state.noticed_due_ms:
        state = _hurried(state, now_ms)
    if now_ms >= state.leader_due_ms:
        question = Question.LEADER
        state = replace(state, leader_due_ms=now_ms + RETRY_MS)
    elif state.leader is not None and state.phase in _QUESTIONS and now_ms >= state.ask_due_ms:
        question = _QUESTIONS[state.phase]
    else:
        return state, actions
    actions.append(Ask(question))
    return replace(state, asked=question, asked_at_ms=now_ms), actions
