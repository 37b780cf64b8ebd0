"""The account of the transaction load turns red for each kind of harm, and not without it (no Docker)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from compat_tests.transactions_load.account import CROSSING_MS, Account, End, Event, Wrong
from compat_tests.transactions_load.fate import Fate, fate

_INTERVAL_MS = 1000


def numbers(wanted: Fate) -> list[int]:
    """The first few of a fate."""
    return list(itertools.islice((n for n in itertools.count() if fate(n) is wanted), 3))


COMMITTED = numbers(Fate.COMMIT)
ROLLED_BACK = numbers(Fate.ROLLBACK)
NEVER = numbers(Fate.NEVER)


def run(delivered: Sequence[int] = COMMITTED, discarded: Sequence[int] = NEVER) -> Account:
    """A few of each kind, by default as they should be; not yet settled."""
    account = Account(_INTERVAL_MS)
    for number in [*COMMITTED, *ROLLED_BACK, *NEVER]:
        account.note([(number, Event.STORED, 0), (number, Event.UNKNOWN_SENT, 0)])
        account.note([(number, Event.CHECKED, 1000), (number, Event.CHECKED, 2000)])
    account.note((number, Event.COMMIT_SENT, 2000) for number in COMMITTED)
    account.note((number, Event.ROLLBACK_SENT, 2000) for number in ROLLED_BACK)
    account.deliver(delivered)
    account.discard(discarded)
    return account


def test_a_good_run_is_clean_and_every_half_message_has_one_end() -> None:
    account = run()
    account.settle()
    assert account.is_clean
    assert account.stored == 9
    assert account.ends == {End.DELIVERED: 3, End.ROLLED_BACK: 3, End.DISCARDED: 3}
    assert account.checks == 18


def test_a_half_message_that_nobody_decided_is_pending() -> None:
    account = Account(_INTERVAL_MS)
    account.note([(COMMITTED[0], Event.STORED, 0)])
    account.settle()
    assert account.is_clean
    assert account.ends == {End.PENDING: 1}


@pytest.mark.parametrize(("killed_ms", "end"), [(500, End.PENDING), (2100, End.ROLLED_BACK)])
def test_a_killed_producer_may_have_rolled_back_without_telling(killed_ms: int, end: End) -> None:
    account = Account(_INTERVAL_MS)
    account.note([(ROLLED_BACK[0], Event.CHECKED, 2000), (ROLLED_BACK[0], Event.UNKNOWN_SENT, 2000)])
    account.note([(ROLLED_BACK[0], Event.STORED, 0)])
    account.uncertain(killed_ms - 100, killed_ms)
    account.settle()
    assert account.ends == {end: 1}


def test_a_number_whose_send_was_not_answered_may_be_there_or_not() -> None:
    account = Account(_INTERVAL_MS)
    account.deliver(COMMITTED[:1])
    account.settle()
    assert account.is_clean


@pytest.mark.parametrize(
    ("delivered", "discarded", "kind"),
    [
        (COMMITTED[1:], NEVER, Wrong.LOST),
        ([*COMMITTED, COMMITTED[0]], NEVER, Wrong.DOUBLED),
        (COMMITTED, [*NEVER, NEVER[0]], Wrong.DOUBLED),
        ([*COMMITTED, ROLLED_BACK[0]], NEVER, Wrong.FLIPPED),
        ([*COMMITTED, NEVER[0]], NEVER[1:], Wrong.FLIPPED),
        (COMMITTED, [*NEVER, COMMITTED[0]], Wrong.BOTH),
    ],
)
def test_what_is_stored_must_agree_with_what_was_sent(delivered: list[int], discarded: list[int], kind: Wrong) -> None:
    account = run(delivered, discarded)
    account.settle()
    assert account.wrong == {kind: 1}
    assert account.sentences


@pytest.mark.parametrize(
    ("event", "at_ms", "kind"),
    [
        (Event.CHECKED, 2001 + CROSSING_MS, Wrong.UNEXPECTED),
        (Event.CHECKED, 2499, Wrong.DUPLICATED),
        (Event.CHECKED, 2000 + CROSSING_MS, None),
        (Event.CHECKED, 2500, None),
    ],
)
def test_checks_that_nobody_needs_are_counted(event: Event, at_ms: int, kind: Wrong | None) -> None:
    account = run()
    account.note([(COMMITTED[0], event, at_ms)])
    account.settle()
    assert account.wrong == ({} if kind is None else {kind: 1})


def test_an_outcome_sent_while_something_was_killed_may_have_to_be_asked_for_again() -> None:
    account = run()
    account.uncertain(1900, 2100)
    account.note([(COMMITTED[0], Event.CHECKED, 2400), (COMMITTED[0], Event.COMMIT_SENT, 2400)])
    account.note([(ROLLED_BACK[0], Event.CHECKED, 9000)])
    account.settle()
    assert account.is_clean


def test_who_stands_still_cannot_say_when_a_check_came() -> None:
    account = run()
    account.note([(700, Event.STALLED, 2600)])
    account.note([(COMMITTED[0], Event.CHECKED, 2499), (COMMITTED[1], Event.CHECKED, 2001 + CROSSING_MS)])
    account.stall(2500, 3000)
    account.settle()
    assert account.is_clean
    assert (account.excused, account.stalled_ms) == (2, 1100)


def test_a_stall_long_before_or_after_excuses_nothing() -> None:
    account = run()
    account.stall(300, 900)
    account.stall(2600, 3000)
    account.note([(COMMITTED[0], Event.CHECKED, 2499)])
    account.settle()
    assert account.wrong == {Wrong.DUPLICATED: 1}


def test_a_stall_does_not_excuse_what_is_stored() -> None:
    account = run(COMMITTED[1:])
    account.stall(0, 10_000)
    account.settle()
    assert account.wrong == {Wrong.LOST: 1}
