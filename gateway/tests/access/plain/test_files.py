"""The files of accounts: where they are, when a change counts, and what stays when a file cannot be used."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.access.plain.changes import AccountChange
from gateway.access.plain.files import EMPTY, MAX_FILES, MOST_UNREST, PlainFiles, main_file
from gateway.access.plain.parsing import AccountsFileError
from gateway.errors import SettingsError

Write = Callable[..., Path]


def accounts(*names: str) -> str:
    return "accounts:\n" + "".join(f"- accessKey: {name}\n  secretKey: '12345678'\n" for name in names)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the directory of the configuration, in another nanosecond than before."""
    moment = iter(range(1_000_000_000, 2_000_000_000, 1_000_000))

    def written(name: str, *names: str, text: str | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(accounts(*names) if text is None else text)
        now = next(moment)
        os.utime(path, ns=(now, now))
        return path

    return written


@pytest.fixture
def files(tmp_path: Path, write: Write) -> PlainFiles:
    """The files, with one account in the main one."""
    write("plain_acl.yml", "account1")
    return PlainFiles(tmp_path / "plain_acl.yml", lambda: 1_000)


def seen(files: PlainFiles) -> list[str] | None:
    """The accounts after a change has been seen twice; None if nothing changed."""
    first, second = files.look(), files.look()
    assert first is None, "a change counts from the second look on"
    return None if second is None else sorted(second.accounts)


def faults(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    facts = [vars(record)["facts"] for record in caplog.records if record.levelno == logging.ERROR]
    return [(fact["file"].name, fact["line"], fact["reason"]) for fact in facts if "reason" in fact]


def test_the_place_of_the_file() -> None:
    assert main_file("/a/b.yml", "/home/r") == Path("/a/b.yml")
    assert main_file("", "/home/r") == Path("/home/r/conf/plain_acl.yml")
    assert main_file("~/b.yml", "") == Path.home() / "b.yml"
    with pytest.raises(SettingsError, match=r"set gateway\.aclFile, rocketmqHome or ROCKETMQ_HOME"):
        main_file("", "")


def test_all_files_below_the_directory_are_read(files: PlainFiles, write: Write) -> None:
    write("acl/a.yml", "account2")
    write("acl/shops/b.yaml", "account3")
    write("acl/.hidden.yml", "account4")
    write("acl/..2026_01/c.yml", "account5")
    write("acl/readme.txt", "account6")
    write("tools.yml", text="accessKey: rocketmq2\n")
    assert sorted(files.load().accounts) == ["account1", "account2", "account3"]
    assert [path.name for path in files.versions()] == ["plain_acl.yml", "a.yml", "b.yaml"]


def test_the_main_file_may_be_missing(tmp_path: Path, write: Write) -> None:
    write("acl/a.yml", "account2")
    assert list(PlainFiles(tmp_path / "plain_acl.yml", lambda: 0).load().accounts) == ["account2"]


@pytest.mark.parametrize("text", [None, "", "accounts: []\n"])
def test_a_start_without_any_account_is_refused(tmp_path: Path, write: Write, text: str | None) -> None:
    if text is not None:
        write("plain_acl.yml", text=text)
    with pytest.raises(SettingsError, match="no account is in"):
        PlainFiles(tmp_path / "plain_acl.yml", lambda: 0).load()


def test_a_start_with_a_broken_file_is_refused(files: PlainFiles, write: Write) -> None:
    path = write("acl/a.yml", text="accounts:\n- accessKey: short\n")
    with pytest.raises(AccountsFileError) as raised:
        files.load()
    assert str(raised.value).startswith(f"{path}, line 2: accessKey has 5 characters")


def test_a_start_with_an_account_in_two_files_is_refused(files: PlainFiles, write: Write) -> None:
    write("acl/a.yml", "account1")
    with pytest.raises(AccountsFileError, match=r"account account1 is also in .*plain_acl.yml, line 2"):
        files.load()


def test_a_file_that_may_not_be_read_is_named(files: PlainFiles, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, mode: str = "r") -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(AccountsFileError, match="cannot be read: Permission denied; give the user"):
        files.load()


def test_a_changed_file_counts_when_it_has_stayed_so(files: PlainFiles, write: Write) -> None:
    files.load()
    assert seen(files) is None
    write("plain_acl.yml", "account1", "account2")
    assert seen(files) == ["account1", "account2"]
    assert seen(files) is None


def test_a_file_that_still_changes_does_not_count(files: PlainFiles, write: Write) -> None:
    files.load()
    for text in ("", "accounts:\n", "accounts:\n- accessKey: acc"):
        write("plain_acl.yml", text=text)
        assert files.look() is None
    write("plain_acl.yml", "account2")
    assert seen(files) == ["account2"]


def test_a_file_that_never_rests_is_used_after_a_few_looks(files: PlainFiles, write: Write) -> None:
    files.load()
    found = []
    for number in range(2 * MOST_UNREST + 2):
        write("plain_acl.yml", f"account1{number}")
        found.append(files.look())
    assert [list(each.accounts) for each in found if each is not None] == [["account15"], ["account111"]]


def test_files_come_and_go(files: PlainFiles, write: Write) -> None:
    files.load()
    path = write("acl/a.yml", "account2")
    assert seen(files) == ["account1", "account2"]
    path.unlink()
    assert seen(files) == ["account1"]


def test_the_last_file_takes_all_accounts_with_it(files: PlainFiles, caplog: pytest.LogCaptureFixture) -> None:
    files.load()
    files.main.unlink()
    assert seen(files) == []
    assert "all files of accounts are gone: every request is refused" in caplog.text


def test_a_broken_file_keeps_its_last_good_state_and_is_reported_once(
    files: PlainFiles, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("acl/a.yml", "account2")
    files.load()
    write("plain_acl.yml", text="accounts:\n- accessKey: account3\n  secretKey: short\n")
    write("acl/a.yml", "account4")
    assert seen(files) == ["account1", "account4"]
    assert [seen(files) for _ in range(3)] == [None] * 3
    assert faults(caplog) == [("plain_acl.yml", 3, "secretKey has 5 characters; at least 7 are needed")]
    write("plain_acl.yml", "account3")
    assert seen(files) == ["account3", "account4"]


def test_an_emptied_file_keeps_its_accounts_and_the_log_says_how_to_remove_them(
    files: PlainFiles, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    files.load()
    for text in ("", "# later\n"):
        write("plain_acl.yml", text=text)
        assert seen(files) == ["account1"]
    assert faults(caplog) == [("plain_acl.yml", 0, EMPTY)] * 2
    write("plain_acl.yml", text="accounts: []\n")
    assert seen(files) == []


def test_a_new_file_that_is_broken_is_left_out(
    files: PlainFiles, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    files.load()
    write("acl/a.yml", text="[")
    assert seen(files) == ["account1"]
    assert [name for name, _, _ in faults(caplog)] == ["a.yml"]


def test_an_account_that_moves_to_another_file_is_never_in_two(
    files: PlainFiles, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("plain_acl.yml", "account1", "account2")
    files.load()
    write("acl/a.yml", "account2", "account3")
    assert seen(files) == ["account1", "account2"]
    assert [(name, line) for name, line, _ in faults(caplog)] == [("a.yml", 2)]
    write("plain_acl.yml", "account1")
    assert seen(files) == ["account1", "account2", "account3"], "the refused file is read again with the next change"


def test_a_directory_that_cannot_be_read_changes_nothing(
    files: PlainFiles, write: Write, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files.load()

    def walk(directory: Path, onerror: Callable[[OSError], None]) -> list[tuple[str, list[str], list[str]]]:
        onerror(PermissionError(13, "Permission denied", str(directory)))
        return []

    write("plain_acl.yml", "account2")
    with monkeypatch.context() as patched:
        patched.setattr("gateway.access.plain.files.os.walk", walk)
        assert [files.look() for _ in range(4)] == [None] * 4
    assert caplog.text.count("files of accounts not looked at") == 1
    assert seen(files) == ["account2"]


def test_too_many_files_are_refused(files: PlainFiles, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_FILES == 1_000
    monkeypatch.setattr("gateway.access.plain.files.MAX_FILES", 2)
    for number in range(2):
        write(f"acl/{number}.yml", f"account0{number}")
    with pytest.raises(SettingsError, match="more than 2 files of accounts"):
        files.load()


def test_a_request_makes_no_file_that_is_one_too_many(
    files: PlainFiles, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.access.plain.files.MAX_FILES", 2)
    for number in range(2):
        write(f"acl/{number}.yml", f"account0{number}")
    files.main.unlink(missing_ok=True)
    files.load()
    with pytest.raises(ValueError, match="one more than 2 files of accounts"):
        files.change(AccountChange(name="account2", secret="12345678"))
    assert not files.main.exists()
    files.change(AccountChange(name="account00", is_admin=True))
    assert len(files.load().accounts) == 2


def test_too_many_accounts_in_all_files_are_refused(
    files: PlainFiles, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.access.plain.files.MAX_ACCOUNTS", 2)
    write("acl/a.yml", "account2", "account3")
    with pytest.raises(AccountsFileError, match="more than 2 accounts in all files"):
        files.load()
