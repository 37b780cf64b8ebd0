"""A short form of the transaction load with Python producers that are killed.

The long form: ``python -m compat_tests.transactions_load --client python --transactions 20000 --kills 0
--producer-kills 20``.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.transactions_load.account import End
from compat_tests.transactions_load.command import table
from compat_tests.transactions_load.load import Wanted, run


def test_every_half_message_has_one_outcome_when_python_producers_are_killed(tmp_path: Path) -> None:
    wanted = Wanted(
        transactions=1000, kills=0, producer_kills=4, seed=11, directory=tmp_path, client="python", threads=4
    )
    report = run(wanted, print)
    account = report.account
    assert account.is_clean, "\n".join(["something is wrong", *table([report])])
    assert report.producer_kills == 4
    assert account.ends[End.PENDING] == 0, "everybody was asked until an outcome was there"
    assert account.ends.total() >= account.stored >= 1000
