"""Changes by request: the text around them stays, comments and order included, and the file is replaced as a whole."""

from __future__ import annotations

import os
import re
import stat
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.access.plain.changes import (
    MAX_TEXT,
    AccountChange,
    AccountRemoval,
    Change,
    WhiteListChange,
    patterns_in,
)
from gateway.access.plain.files import PlainFiles
from gateway.access.private_disk import NameNotOnDiskError

NOW_MS = 1_700_000_000_000
FILE = """# who may do what; ask the platform team
globalWhiteRemoteAddresses:
  - 10.10.103.*   # the office
  # the cluster
  - 192.168.0.*

accounts:
  # the shop
  - accessKey: shopshop
    secretKey: "12345678"   # since May
    whiteRemoteAddress:
    admin: false
    topicPerms:
      # never without a test
      - orders=PUB|SUB
      - refunds=DENY   # see the ticket
    groupPerms: [shop=SUB]

  # operators
  - accessKey: operator
    secretKey: 12345678
    admin: true

dataVersion:
- counter: 4
  timestamp: 5
"""
_VERSION = re.compile(r"[-+](- counter|  timestamp): \d+")


@pytest.fixture
def files(tmp_path: Path) -> PlainFiles:
    return files_of(tmp_path, FILE)


def files_of(directory: Path, text: str) -> PlainFiles:
    path = directory / "plain_acl.yml"
    path.write_bytes(text.encode())
    other = directory / "acl" / "other.yml"
    other.parent.mkdir(exist_ok=True)
    other.write_text("accounts:\n- accessKey: othershop\n  secretKey: '12345678'\n")
    found = PlainFiles(path, lambda: NOW_MS)
    found.load()
    return found


def changed(files: PlainFiles, change: Change) -> list[str]:
    """The lines that a change removes (-) and adds (+), without those of the version."""
    before = files.main.read_text().splitlines()
    files.change(change)
    lines = list(unified_diff(before, files.main.read_text().splitlines(), n=0, lineterm=""))
    return [line for line in lines[2:] if not line.startswith("@@") and not _VERSION.match(line)]


def test_values_change_and_every_other_character_stays(files: PlainFiles) -> None:
    change = AccountChange(name="shopshop", secret="new key: #1", is_admin=True, white="10.1.2.{1,2}")
    assert changed(files, change) == [
        '-    secretKey: "12345678"   # since May',
        "-    whiteRemoteAddress:",
        "-    admin: false",
        '+    secretKey: "new key: #1"   # since May',
        '+    whiteRemoteAddress: "10.1.2.{1,2}"',
        "+    admin: true",
    ]
    assert files.main.read_text().endswith(f"dataVersion:\n- counter: 5\n  timestamp: {NOW_MS}\n")
    assert files.look() is None


def test_a_value_that_stays_keeps_its_spelling(files: PlainFiles) -> None:
    assert changed(files, AccountChange(name="operator", secret="12345678", white="", is_admin=True)) == [
        '+    whiteRemoteAddress: ""',
    ]
    assert changed(files, AccountChange(name="shopshop", secret="12345678", white="")) == []


def test_missing_keys_are_added_after_the_last_one(files: PlainFiles) -> None:
    change = AccountChange(name="operator", default_topic="PUB|SUB", default_group="SUB", topics=("a=DENY",))
    assert changed(files, change) == [
        "+    defaultTopicPerm: PUB|SUB",
        "+    defaultGroupPerm: SUB",
        "+    topicPerms:",
        "+    - a=DENY",
    ]


def test_entries_of_a_list_keep_their_lines_and_comments(files: PlainFiles) -> None:
    change = AccountChange(name="shopshop", topics=("new=SUB", "orders=SUB", "refunds=DENY"), groups=("shop=DENY",))
    assert changed(files, change) == [
        "-      - orders=PUB|SUB",
        "+      - orders=SUB",
        "-    groupPerms: [shop=SUB]",
        "+      - new=SUB",
        "+    groupPerms:",
        "+    - shop=DENY",
    ]
    change = AccountChange(name="shopshop", topics=("last=PUB",))
    assert changed(files, change)[-1] == "+      - last=PUB"
    assert "# never without a test" in files.main.read_text()


def test_new_keys_come_after_the_new_entries_of_a_list(tmp_path: Path) -> None:
    head = "accounts:\n- accessKey: shopshop\n  secretKey: '12345678'\n"
    files = files_of(tmp_path, f"{head}  groupPerms:\n  - shop=SUB\n")
    files.change(AccountChange(name="shopshop", is_admin=True, topics=("a=PUB",), groups=("shop=SUB", "b=SUB")))
    assert files.main.read_text() == (
        f"{head}  groupPerms:\n  - shop=SUB\n  - b=SUB\n  admin: true\n  topicPerms:\n  - a=PUB\n"
        f"dataVersion:\n- counter: 1\n  timestamp: {NOW_MS}\n"
    )


def test_a_new_account_comes_after_the_others(files: PlainFiles) -> None:
    change = AccountChange(
        name="newcomer",
        secret="87654321",
        white="",
        is_admin=False,
        default_topic="DENY",
        default_group="SUB",
        topics=("a=PUB", "%DLQ%b=SUB"),
        groups=(),
    )
    assert changed(files, change) == [
        "+  - accessKey: newcomer",
        '+    secretKey: "87654321"',
        '+    whiteRemoteAddress: ""',
        "+    admin: false",
        "+    defaultTopicPerm: DENY",
        "+    defaultGroupPerm: SUB",
        "+    topicPerms:",
        "+    - a=PUB",
        '+    - "%DLQ%b=SUB"',
        "+    groupPerms:",
    ]
    account = files.change(AccountRemoval("operator")).find("newcomer")
    assert account is not None
    assert account.entries == {"a": "PUB", "%DLQ%b": "SUB"}


def test_a_removed_account_takes_its_lines_only(files: PlainFiles) -> None:
    lines = changed(files, AccountRemoval("shopshop"))
    assert [line for line in lines if line.startswith("+")] == []
    assert files.main.read_text().splitlines()[6:12] == [
        *("accounts:", "  # the shop", "", "  # operators", "  - accessKey: operator", "    secretKey: 12345678"),
    ]
    assert list(files.change(AccountRemoval("operator")).accounts) == ["othershop"]
    assert "accounts:\n  # the shop\n\n  # operators\n\ndataVersion:" in files.main.read_text()
    assert list(files.change(AccountChange(name="shopshop", secret="12345678")).accounts) == ["othershop", "shopshop"]


def test_the_white_list_changes_line_by_line(files: PlainFiles) -> None:
    assert changed(files, WhiteListChange(("192.168.0.*", "10.0.0.1", "*"))) == [
        "-  - 10.10.103.*   # the office",
        '+  - "10.0.0.1"',
        '+  - "*"',
    ]


def test_an_account_changes_in_the_file_that_has_it(files: PlainFiles) -> None:
    other = files.main.parent / "acl" / "other.yml"
    files.change(AccountChange(name="othershop", is_admin=True))
    assert "    admin: true" not in files.main.read_text().split("operator")[0]
    assert other.read_text() == (
        "accounts:\n- accessKey: othershop\n  secretKey: '12345678'\n  admin: true\n"
        f"dataVersion:\n- counter: 1\n  timestamp: {NOW_MS}\n"
    )
    files.change(WhiteListChange(("10.0.0.1",), str(other)))
    assert other.read_text().endswith('globalWhiteRemoteAddresses:\n- "10.0.0.1"\n')
    assert [version.counter for version in files.versions().values()] == [4, 2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        "---\n",
        "accounts:\n",
        "accounts: []",
        "accounts: # none yet\n",
        "globalWhiteRemoteAddresses: ['*']\r\naccounts:\r\n- accessKey: someone\r\n  secretKey: '12345678'",
        "accounts:\n-\n  accessKey: someone\n  secretKey: '12345678'\n",
        "accounts:\n- {accessKey: someone, secretKey: '12345678'}\n",
        "\ufeffaccounts:\n- accessKey: someone\n  secretKey: |-\n    12345678\n\n\n# the end\n",
        "accounts:\n    -   secretKey: >\n            12345678\n        accessKey: someone",
    ],
)
def test_files_of_many_forms_take_a_new_account_and_lose_it_again(tmp_path: Path, text: str) -> None:
    files = files_of(tmp_path, text)
    found = files.change(AccountChange(name="newcomer", secret="12345678", topics=("a=PUB",)))
    assert "newcomer" in found.accounts
    found = files.change(AccountRemoval("newcomer"))
    assert "newcomer" not in found.accounts
    if "someone" in text:
        assert list(files.change(AccountRemoval("someone")).accounts) == ["othershop"]
    assert "# the end" not in text or "# the end" in files.main.read_text()
    assert ("\r\n" in text) == (b"\r\n" in files.main.read_bytes())
    assert b"\n" not in files.main.read_bytes().replace(b"\r\n", b"") or "\r\n" not in text


def test_the_main_file_is_made_for_its_owner_only(files: PlainFiles) -> None:
    files.main.unlink()
    files.change(AccountChange(name="newcomer", secret="12345678"))
    assert stat.S_IMODE(files.main.stat().st_mode) == 0o600


def test_the_mode_stays_and_a_link_leads_to_the_new_file(tmp_path: Path) -> None:
    files = files_of(tmp_path, FILE)
    target = tmp_path / "shared.yml"
    files.main.rename(target)
    target.chmod(0o640)
    files.main.symlink_to(target)
    files.change(AccountRemoval("operator"))
    assert files.main.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    names = [".shared.yml.lock", "acl", "plain_acl.yml", "shared.yml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_the_old_accounts(
    files: PlainFiles, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full) if step == "fsync" else patched.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            files.change(AccountRemoval("operator"))
    assert files.main.read_text() == FILE
    assert sorted(path.name for path in files.main.parent.iterdir()) == [".plain_acl.yml.lock", "acl", "plain_acl.yml"]
    assert "operator" in files.change(AccountChange(name="shopshop", is_admin=True)).accounts


def test_a_change_whose_name_cannot_be_brought_to_the_disk_is_in_force(
    files: PlainFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken_for_directories(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken_for_directories)
        assert "operator" not in files.change(AccountRemoval("operator")).accounts
        assert "accessKey: operator" not in files.main.read_text()
        for _ in range(2):
            with pytest.raises(NameNotOnDiskError, match="Input/output error"):
                files.disk.sync_names()
        files.disk.try_names_again()
    caplog.set_level("INFO")
    for _ in range(2):
        files.disk.try_names_again()
    assert caplog.messages == ["the names of files of accounts are on disk"]
    files.disk.sync_names()


@pytest.mark.parametrize("between", ["nothing", "a look", "another change"])
def test_a_removal_that_another_process_has_done_already_is_done_here_as_well(tmp_path: Path, between: str) -> None:
    brokers = [files_of(tmp_path, FILE) for _ in range(2)]
    removal = AccountRemoval("operator")
    brokers[0].change(removal)
    if between == "a look":
        assert brokers[1].look() is None
        assert brokers[1].look() is not None
    elif between == "another change":
        brokers[1].change(AccountChange(name="shopshop", is_admin=True))
    assert "operator" not in brokers[1].change(removal).accounts
    for broker in brokers:
        with pytest.raises(ValueError, match="There is no such account"):
            broker.change(removal)
    brokers[0].change(AccountChange(name="operator", secret="12345678"))
    assert [brokers[1].look() is None for _ in range(3)] == [True, False, True]
    assert "operator" not in brokers[1].change(removal).accounts
    with pytest.raises(ValueError, match="There is no such account"):
        brokers[1].change(removal)


REFUSED: tuple[tuple[Change, str], ...] = (
    (AccountChange(name="newcomer"), "newcomer is new and has no secretKey"),
    (AccountChange(name="short1", secret="12345678"), "accessKey has 6 characters; at least 7"),
    (AccountChange(name="newcomer", secret="secret"), "secretKey has 6 characters; at least 7"),
    (AccountChange(name="new\ncomer", secret="12345678"), "control characters"),
    (AccountChange(name="x" * (MAX_TEXT + 1), secret="12345678"), f"more than {MAX_TEXT} characters"),
    (AccountChange(name="shopshop", topics=("a",)), "has not the form name=PERM"),
    (AccountChange(name="shopshop", topics=("a=PUB", "a=SUB")), "a has two permissions"),
    (AccountChange(name="shopshop", groups=("a=ANY",)), "'ANY' is no permission"),
    (AccountChange(name="shopshop", default_topic="pub"), "'pub' is no permission"),
    (AccountChange(name="shopshop", white="10.1.*"), "four parts"),
    (AccountRemoval("nobody"), r"The accesskey\[nobody\] .* failed. There is no such account"),
    (WhiteListChange(("10.0.0.0/8",)), "no address"),
    (WhiteListChange(("10.0.0.1",), "/etc/passwd"), "none of the files of accounts"),
    (WhiteListChange(("10.0.0.1",), "../plain_acl.yml"), "none of the files of accounts"),
)


@pytest.mark.parametrize(("change", "reason"), REFUSED)
def test_a_wrong_change_is_refused_and_changes_nothing(files: PlainFiles, change: Change, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        files.change(change)
    assert files.main.read_text() == FILE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("accounts: [{accessKey: shopshop, secretKey: '12345678'}]\n", "line 1 is written in braces or brackets"),
        ("accounts:\n- {accessKey: shopshop, secretKey: '12345678'}\n", "line 2 is written in braces or brackets"),
        ("{accounts: [{accessKey: shopshop, secretKey: '12345678'}]}\n", "line 1 is written in braces or brackets"),
        ("accounts:\n- accessKey: shopshop\n  secretKey: &k 12345678\n", "it names values with &"),
        ("accounts:\n- ? accessKey\n  : shopshop\n  ? secretKey\n  : '12345678'\n", "change the file by hand"),
        ("accounts:\n- accessKey: shopshop\n  secretKey: short\n", "mend the file first"),
    ],
)
def test_a_form_that_is_not_changed_is_refused_and_stays(tmp_path: Path, text: str, reason: str) -> None:
    files = files_of(tmp_path, FILE)
    files.main.write_text(text)
    with pytest.raises(ValueError, match=reason):
        files.change(AccountChange(name="shopshop", secret="87654321", topics=("a=PUB",)))
    assert files.main.read_text() == text


def test_no_refusal_and_no_text_of_a_change_has_a_secret(files: PlainFiles) -> None:
    change = AccountChange(name="newcomer", secret="\x00hidden hidden")
    assert "hidden" not in repr(change)
    with pytest.raises(ValueError, match="control characters") as raised:
        files.change(change)
    assert "hidden" not in str(raised.value)


def test_commas_in_braces_belong_to_their_pattern() -> None:
    assert patterns_in("10.1.2.{1,2},10.0.0.1,,1::{a,b}") == ("10.1.2.{1,2}", "10.0.0.1", "1::{a,b}")
    assert patterns_in(" ") == ()


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=7, max_size=12)
words = st.sampled_from(["DENY", "PUB", "SUB", "PUB|SUB"])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_row_of_changes_leaves_what_was_asked(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    files = files_of(tmp_path_factory.mktemp("acl"), FILE)
    known = {"shopshop", "operator", "othershop"}
    resources = st.sampled_from(["orders", "refunds", "shop"]) | names.filter(lambda name: "=" not in name)
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.one_of(st.sampled_from(sorted(known)), names)) if known else data.draw(names)
        if name in known and data.draw(st.booleans()):
            known.discard(name)
            assert set(files.change(AccountRemoval(name)).accounts) == known
            continue
        lists = st.none() | st.dictionaries(resources, words, min_size=1, max_size=3)
        topics, groups = data.draw(lists), data.draw(lists)
        change = AccountChange(
            name=name,
            secret=data.draw(names),
            white=data.draw(st.sampled_from([None, "", "10.1.2.{1,2}"])),
            is_admin=data.draw(st.none() | st.booleans()),
            default_topic=data.draw(st.none() | words),
            topics=None if topics is None else tuple(f"{resource}={word}" for resource, word in topics.items()),
            groups=None if groups is None else tuple(f"{resource}={word}" for resource, word in groups.items()),
        )
        known.add(name)
        found = files.change(change)
        assert set(found.accounts) == known
        entries = {**(topics or {}), **{f"%RETRY%{group}": word for group, word in (groups or {}).items()}}
        assert entries.items() <= found.accounts[name].entries.items()
