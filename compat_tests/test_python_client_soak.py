"""The account and the judgement of the soak; and a short one, in which nothing may be lost."""

from __future__ import annotations

from pathlib import Path

from compat_tests.python_client_soak import command, memory
from compat_tests.python_client_soak.account import Account, Fate


def settled(*fates: Fate, remembered: int = 8) -> Account:
    account = Account("stream", ["a", "b"], remembered)
    for fate in fates:
        account.settle(account.begin(), fate)
    return account


def test_what_every_reader_got_once_is_well() -> None:
    account = settled(Fate.WANTED, Fate.WANTED)
    for number in range(2):
        for reader in ("a", "b"):
            account.receive(reader, number)
    assert account.unread == 0
    account.close()
    assert account.is_clean
    assert (account.sent, account.failed, account.received["a"]) == (2, 0, 2)


def test_what_a_reader_lacks_is_lost_to_that_reader() -> None:
    account = settled(Fate.WANTED)
    account.receive("a", 0)
    assert account.unread == 1
    account.close()
    assert dict(account.lost) == {"b": 1}
    assert not account.is_clean


def test_a_lost_message_is_noticed_when_its_place_is_needed() -> None:
    account = settled(*[Fate.WANTED] * 9, remembered=8)
    assert dict(account.lost) == {"a": 1, "b": 1}


def test_copies_and_messages_that_were_rolled_back_are_counted() -> None:
    account = settled(Fate.WANTED, Fate.UNWANTED, Fate.UNCERTAIN)
    for number in (0, 0, 1):
        account.receive("a", number)
    account.receive("b", 0)
    account.close()
    assert (dict(account.doubled), dict(account.flipped), dict(account.lost)) == ({"a": 1}, {"a": 1}, {})
    assert account.failed == 1


def test_a_copy_that_comes_very_late_is_a_copy() -> None:
    account = settled(*[Fate.UNCERTAIN] * 20, remembered=8)
    account.receive("a", 3)
    assert dict(account.doubled) == {"a": 1}


def test_a_reader_that_cannot_read_is_not_waited_for() -> None:
    account = settled(Fate.WANTED)
    account.receive("a", 0)
    account.forget("b")
    assert account.unread == 0
    assert account.readers == ("a",)


def test_growth_is_that_after_the_warm_up() -> None:
    flat = [(float(second), 1000.0 + min(second, 100) * 10) for second in range(600)]
    leaking = [(float(second), 1000.0 + second * 2) for second in range(600)]
    assert abs(memory.growth_kib_per_minute(flat)) < 1.0
    assert abs(memory.growth_kib_per_minute(leaking) - 120.0) < 1.0
    assert memory.growth_kib_per_minute([]) == memory.growth_kib_per_minute([(0.0, 1.0)]) == 0.0


def test_a_short_soak_with_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    report = command.run(6.0, 1, 100.0, tmp_path, least_sent=21)
    assert report.is_clean, "\n".join(report.lines())
    assert report.kills == 1
    assert all(account.sent > 20 for account in report.accounts), "\n".join(report.lines())
