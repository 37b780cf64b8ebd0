from __future__ import annotations

from gateway.client.transact.transactions import AskedCheck, TransactionChecks


def test_a_transaction_is_asked_about_once_at_a_time_and_the_newest_question_is_answered() -> None:
    checks: TransactionChecks[str] = TransactionChecks(10)
    assert checks.ask("a", "first place") is AskedCheck.NEW
    assert checks.ask("a", "second place") is AskedCheck.JOINED
    assert checks.ask("b", "elsewhere") is AskedCheck.NEW
    assert checks.answer("a") == "second place"
    assert checks.ask("a", "third place") is AskedCheck.NEW
    assert (len(checks), checks.joined, checks.refused) == (2, 1, 0)


def test_more_than_the_limit_are_refused_but_a_known_one_still_joins() -> None:
    checks: TransactionChecks[int] = TransactionChecks(2)
    assert [checks.ask(name, 1) for name in "abc"] == [AskedCheck.NEW, AskedCheck.NEW, AskedCheck.REFUSED]
    assert checks.ask("b", 2) is AskedCheck.JOINED
    assert checks.refused == 1
    assert checks.answer("a") == 1
    assert checks.ask("c", 1) is AskedCheck.NEW
