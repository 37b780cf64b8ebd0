"""A short form of `python -m compat_tests.transactions_load`: each half message has one outcome, whoever is killed."""

from __future__ import annotations

from pathlib import Path

from compat_tests.transactions_load.account import End
from compat_tests.transactions_load.command import table
from compat_tests.transactions_load.load import Wanted, run

_TRANSACTIONS = 3000


def test_every_half_message_has_one_outcome_when_broker_and_producers_are_killed(tmp_path: Path) -> None:
    wanted = Wanted(transactions=_TRANSACTIONS, kills=2, producer_kills=1, seed=7, directory=tmp_path)
    report = run(wanted, print)
    account = report.account
    assert account.is_clean, "\n".join(["something is wrong", *table([report])])
    assert account.stored >= _TRANSACTIONS
    assert account.checks > _TRANSACTIONS // 10
    assert (report.kills, report.producer_kills) == (2, 1)
    assert account.ends[End.PENDING] == 0, "everybody was asked until an outcome was there"
    assert account.ends[End.DISCARDED] > 0, "one of a hundred is never decided"
    assert account.ends.total() >= account.stored
