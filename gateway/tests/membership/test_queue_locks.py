"""Queue locks of orderly consumers."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from gateway.errors import RequestRefused
from gateway.membership import queue_locks
from gateway.membership.queue_locks import LOCK_MAX_LIVE_MS, SEARCH_MS, QueueLocks
from gateway.remoting.turns import ENTRIES_PER_TURN, finish
from wire.bodies.message_queue import MessageQueue

QUEUES = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(3)]


class Locked:
    """Locks at a time moved by hand."""

    def __init__(self, max_locks: int = 100) -> None:
        self.now_ms = 1_000_000
        self.locks = QueueLocks(lambda: self.now_ms, max_locks=max_locks)


def test_a_free_queue_is_granted_and_another_client_does_not_get_it() -> None:
    locks = Locked().locks
    assert locks.lock("g", "c1", QUEUES[:2]) == QUEUES[:2]
    assert locks.lock("g", "c2", QUEUES) == QUEUES[2:]
    assert locks.lock("g", "c1", QUEUES) == QUEUES[:2]


def test_groups_do_not_mind_each_other() -> None:
    locks = Locked().locks
    locks.lock("g", "c1", QUEUES)
    assert locks.lock("h", "c2", QUEUES) == QUEUES


def test_a_lock_runs_out_a_minute_after_its_last_refresh() -> None:
    locked = Locked()
    locked.locks.lock("g", "c1", QUEUES[:1])
    locked.now_ms += 40_000
    locked.locks.lock("g", "c1", QUEUES[:1])
    locked.now_ms += LOCK_MAX_LIVE_MS
    assert locked.locks.lock("g", "c2", QUEUES[:1]) == []
    assert locked.locks.group_is_orderly("g")
    locked.now_ms += 1
    assert not locked.locks.group_is_orderly("g")
    assert locked.locks.lock("g", "c2", QUEUES[:1]) == QUEUES[:1]


def test_only_the_owner_gives_a_lock_back() -> None:
    locks = Locked().locks
    locks.lock("g", "c1", QUEUES[:1])
    locks.unlock("g", "c2", QUEUES)
    assert locks.lock("g", "c2", QUEUES[:1]) == []
    locks.unlock("g", "c1", QUEUES)
    assert not locks.group_is_orderly("g")
    assert locks.lock("g", "c2", QUEUES[:1]) == QUEUES[:1]
    locks.unlock("nobody", "c1", QUEUES)


def test_the_limit_counts_living_locks_only() -> None:
    locked = Locked(max_locks=2)
    locked.locks.lock("g", "c1", QUEUES[:2])
    with pytest.raises(RequestRefused, match="queues locked by group g: 2, of all: 2, the limit is 2"):
        locked.locks.lock("g", "c1", QUEUES)
    locked.now_ms += LOCK_MAX_LIVE_MS + 1
    assert locked.locks.lock("g", "c1", QUEUES[2:]) == QUEUES[2:]


def test_requests_that_find_no_room_do_not_each_look_at_all_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request beyond a million locks looked at all of them, and so did the next one."""
    locked, looked_at = Locked(max_locks=20), list[int]()

    def counted(lock: queue_locks._Lock, now_ms: int) -> bool:
        looked_at.append(now_ms)
        return now_ms - lock.refreshed_ms > LOCK_MAX_LIVE_MS

    many = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(20)]
    with pytest.raises(RequestRefused):
        locked.locks.lock("g", "c1", many)
    monkeypatch.setattr(queue_locks, "_has_run_out", counted)
    for _ in range(50):
        with pytest.raises(RequestRefused):
            locked.locks.lock("g", "c1", many[-1:])
    assert looked_at == []
    locked.now_ms += SEARCH_MS
    with pytest.raises(RequestRefused):
        locked.locks.lock("g", "c1", many[-1:])
    assert 10 <= len(looked_at) <= 20


def test_expired_locks_are_forgotten_in_turns_and_refreshed_ones_stay() -> None:
    locked = Locked(max_locks=10 * ENTRIES_PER_TURN)
    queues = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(2 * ENTRIES_PER_TURN)]
    locked.locks.lock("g", "c1", queues)
    locked.now_ms += LOCK_MAX_LIVE_MS + 1
    work = locked.locks.forget_run_out()
    next(work)
    locked.locks.lock("g", "c2", queues[:1] + queues[-1:])
    finish(work)
    assert locked.locks.lock("g", "c3", queues[:2] + queues[-2:]) == [queues[1], queues[-2]]


class LocksAgainstModel(RuleBasedStateMachine):
    """A model of locks: a queue has at most one living owner, whatever clients do and whenever memory is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.locked = Locked()
        self.model: dict[tuple[str, MessageQueue], tuple[str, int]] = {}

    groups = st.sampled_from(["g", "h"])
    clients = st.sampled_from(["c1", "c2"])
    queues = st.lists(st.sampled_from(QUEUES), unique=True)

    @rule(group=groups, client=clients, queues=queues)
    def lock(self, group: str, client: str, queues: list[MessageQueue]) -> None:
        expected = []
        for queue in queues:
            owner, refreshed_ms = self.model.get((group, queue), (client, 0))
            if owner == client or self.locked.now_ms - refreshed_ms > LOCK_MAX_LIVE_MS:
                self.model[group, queue] = (client, self.locked.now_ms)
                expected.append(queue)
        assert self.locked.locks.lock(group, client, queues) == expected

    @rule(group=groups, client=clients, queues=queues)
    def unlock(self, group: str, client: str, queues: list[MessageQueue]) -> None:
        self.locked.locks.unlock(group, client, queues)
        for queue in queues:
            if self.model.get((group, queue), ("", 0))[0] == client:
                del self.model[group, queue]

    @rule(milliseconds=st.sampled_from([1, 20_000, LOCK_MAX_LIVE_MS]))
    def wait(self, milliseconds: int) -> None:
        self.locked.now_ms += milliseconds

    @rule()
    def forget(self) -> None:
        finish(self.locked.locks.forget_run_out())


TestLocksAgainstModel = LocksAgainstModel.TestCase
