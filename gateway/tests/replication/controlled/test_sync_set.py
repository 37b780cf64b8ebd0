"""The sync state set of a master: who counts, who joins, who leaves, and that no answer runs ahead of a member."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.replication.controlled.sync_set import DOUBT_MS, InSyncMembers

BEHIND_MS = 15_000


def members(told: set[int], *, shown: int = 0, records: int = 0, end: int = 0) -> InSyncMembers:
    made = InSyncMembers(1, max_behind_ms=BEHIND_MS)
    made.begin(shown, records, max(records, end))
    made.tell(frozenset(told), 1, 0)
    return made


def test_a_master_alone_confirms_its_own_end() -> None:
    assert members({1}).confirmed(700) == 700


def test_the_least_report_of_the_set_is_confirmed() -> None:
    group = members({1, 2, 3})
    group.connect(2, 100, 700, 0)
    assert group.confirmed(700) == 0, "3 is not connected"
    group.connect(3, 300, 700, 0)
    assert group.confirmed(700) == 100
    group.report(2, 500, 700, 0)
    assert group.confirmed(700) == 300


def test_a_lost_member_freezes_what_is_confirmed_until_the_controller_lets_it_leave() -> None:
    group = members({1, 2})
    group.connect(2, 500, 700, 0)
    assert group.confirmed(700) == 500
    group.leave(2)
    assert (group.confirmed(900), group.missing()) == (500, frozenset({2}))
    wanted = group.wanted(900, 10)
    assert wanted == frozenset({1}), "at once"
    group.ask(wanted, 10)
    assert group.confirmed(900) == 500, "both sets count"
    assert group.wanted(900, 11) is None
    group.answer(wanted, 2, 12)
    assert group.confirmed(900) == 900


def test_a_slave_that_has_everything_confirmed_joins_and_counts_from_the_question_on() -> None:
    group = members({1})
    group.connect(2, 500, 700, 0)
    assert group.confirmed(700) == 700
    assert group.wanted(700, 0) is None
    group.report(2, 700, 700, 1)
    assert group.wanted(700, 1) == frozenset({1, 2})
    group.ask(frozenset({1, 2}), 1)
    assert group.confirmed(800) == 700, "the controller may have taken it already"
    group.lose()
    assert group.confirmed(800) == 700, "and that it did not answer proves nothing"


def test_a_slave_that_lacks_a_record_that_the_start_found_does_not_join() -> None:
    group = members({1, 3}, shown=200, records=600)
    assert group.confirmed(600) == 200, "member 3 is missing"
    group.connect(2, 500, 600, 0)
    assert group.wanted(600, 0) == frozenset({1})
    group.report(2, 600, 600, 1)
    assert group.wanted(600, 1) == frozenset({1, 2})


def test_a_filler_after_the_last_record_is_not_waited_for() -> None:
    group = members({1}, shown=600, records=600, end=1_000)
    group.connect(2, 500, 1_000, 0)
    assert group.confirmed(1_000) == 600
    assert group.wanted(1_000, 0) is None
    group.report(2, 600, 1_000, 1)
    assert group.wanted(1_000, 1) == frozenset({1, 2})
    group.tell(frozenset({1, 2}), 2, 2)
    assert group.wanted(1_000, 2 + 2 * BEHIND_MS) is None, "it has everything"
    assert group.confirmed(1_200) == 600


def test_a_start_in_the_same_epoch_keeps_what_is_in_doubt() -> None:
    group = members({1, 2})
    group.connect(2, 700, 700, 0)
    group.connect(3, 700, 700, 0)
    assert group.confirmed(700) == 700
    group.ask(frozenset({1, 2, 3}), 0)
    group.lose()
    group.begin(600, 700, 700)
    group.tell(frozenset({1, 2}), 1, 1)
    assert group.counting == frozenset({1, 2, 3}), "the controller may take it yet"
    assert group.missing() == frozenset({2, 3})
    assert group.confirmed(900) == 700


def test_a_member_that_does_not_catch_up_leaves() -> None:
    group = members({1, 2})
    group.connect(2, 100, 700, 0)
    assert group.wanted(700, BEHIND_MS - 1) is None
    group.report(2, 300, 900, 9_000)
    assert group.wanted(900, BEHIND_MS) == frozenset({1})
    group.report(2, 700, 900, BEHIND_MS)
    assert group.wanted(900, BEHIND_MS) is None, "it has what there was when it connected"


def test_a_member_of_an_idle_master_stays() -> None:
    group = members({1, 2})
    group.connect(2, 700, 700, 0)
    assert group.wanted(700, 10 * BEHIND_MS) is None
    assert group.wanted(900, 11 * BEHIND_MS - 1) is None, "it lacks the new bytes only since then"


def test_a_set_in_doubt_counts_until_a_later_set_or_long_enough() -> None:
    group = members({1})
    group.connect(2, 700, 700, 0)
    group.ask(frozenset({1, 2}), 0)
    group.lose()
    group.leave(2)
    group.tell(frozenset({1}), 1, DOUBT_MS)
    assert group.counting == frozenset({1, 2})
    group.tell(frozenset({1}), 1, DOUBT_MS + 1)
    assert group.counting == frozenset({1})
    group.ask(frozenset({1, 2}), 20_000)
    group.lose()
    group.tell(frozenset({1, 2}), 2, 20_001)
    assert (group.counting, group.doubted) == (frozenset({1, 2}), frozenset())


def test_an_earlier_set_is_none() -> None:
    group = members({1, 2})
    group.tell(frozenset({1}), 0, 1)
    assert group.told == frozenset({1, 2})


class Sets(RuleBasedStateMachine):
    """A controller that may answer, refuse, carry out late, or lose answers, beside a master with two slaves.

    What is confirmed has to be at every member of the controller's set, at any time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.group = members({1})
        self.set, self.epoch = frozenset({1}), 1
        self.now_ms = self.end = self.shown = 0
        self.ends = {2: 0, 3: 0}
        self.questions: list[tuple[frozenset[int], int, int]] = []
        self.is_asked = False

    def carried_out(self, question: tuple[frozenset[int], int, int]) -> bool:
        asked, epoch, at_ms = question
        if epoch != self.epoch or asked == self.set or self.now_ms - at_ms > DOUBT_MS:
            return False
        self.set, self.epoch = asked, self.epoch + 1
        return True

    @rule(more=st.integers(1, 100))
    def write(self, more: int) -> None:
        self.end += more

    @rule(slave=st.sampled_from([2, 3]), share=st.floats(0, 1))
    def copy(self, slave: int, share: float) -> None:
        self.ends[slave] += round((self.end - self.ends[slave]) * share)
        self.group.report(slave, self.ends[slave], self.end, self.now_ms)

    @rule(slave=st.sampled_from([2, 3]))
    def connect(self, slave: int) -> None:
        self.group.connect(slave, self.ends[slave], self.end, self.now_ms)

    @rule(slave=st.sampled_from([2, 3]))
    def leave(self, slave: int) -> None:
        self.group.leave(slave)

    @rule(share=st.floats(0, 1))
    def start_again(self, share: float) -> None:
        """The mark of what is shown may be behind after a power failure."""
        self.group.begin(round(self.shown * share), self.end, self.end)

    @rule(passed_ms=st.integers(1, 20_000))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @precondition(lambda self: not self.is_asked)
    @rule(fate=st.sampled_from(["answered", "lost", "late"]))
    def ask(self, fate: str) -> None:
        wanted = self.group.wanted(self.end, self.now_ms)
        if wanted is None:
            return
        question = wanted, self.group.set_epoch, self.now_ms
        self.group.ask(wanted, self.now_ms)
        if fate == "late":
            self.questions.append(question)
            self.group.lose()
        elif not self.carried_out(question):
            self.group.lose()
        elif fate == "answered":
            self.group.answer(self.set, self.epoch, self.now_ms)
        else:
            self.group.lose()

    @precondition(lambda self: self.questions)
    @rule()
    def carry_out_late(self) -> None:
        self.carried_out(self.questions.pop(0))

    @rule()
    def tell(self) -> None:
        self.group.tell(self.set, self.epoch, self.now_ms)

    @invariant()
    def everything_confirmed_is_at_every_member(self) -> None:
        confirmed = self.group.confirmed(self.end)
        assert confirmed >= self.shown
        self.shown = confirmed
        for member in self.set - {1}:
            assert self.ends[member] >= confirmed, (member, self.set)


TestSets = Sets.TestCase
TestSets.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
