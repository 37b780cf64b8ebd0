"""Files of accounts: the shipped one, every shape that upstream reads, and the error of everything else."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.access.plain import addresses
from gateway.access.plain.document import MAX_ACCOUNTS, WHITE, Document, Version, read_document
from gateway.access.plain.parsing import (
    MAX_ADDRESSES,
    MAX_FILE_BYTES,
    MAX_VALUES,
    VALUE_CHARACTERS,
    AccountsFileError,
    Parsing,
    has_names,
)

PATH = Path("/conf/plain_acl.yml")
SHIPPED = """# as shipped with Apache RocketMQ
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
KEYS = "accessKey: someone\n  secretKey: 12345678"


def read(text: str | bytes, changed_ms: int = 0) -> Document:
    content = text.encode() if isinstance(text, str) else text
    return read_document(Parsing(PATH, content), changed_ms)


def account(lines: str) -> str:
    """A file with one account that has these keys besides its names."""
    return f"accounts:\n- {KEYS}\n  " + lines.replace("\n", "\n  ") + "\n"


def test_the_shipped_file_is_read() -> None:
    found = read(SHIPPED, 7)
    first, second = found.accounts.values()
    assert [pattern.text for pattern in found.white] == ["10.10.103.*", "192.168.0.*"]
    assert (first.name, first.secret, first.is_admin, first.line) == ("RocketMQ", b"12345678", False, 7)
    assert (first.default_topic, first.default_group, first.white.text) == ("DENY", "SUB", "")
    assert first.entries == {"topicA": "DENY", "topicB": "PUB|SUB", "%RETRY%groupA": "DENY"}
    assert (second.name, second.is_admin, second.white.text, second.entries) == (
        *("rocketmq2", True, "192.168.1.*"),
        {},
    )
    assert (found.version, found.path, found.is_empty) == (Version(0, 7), PATH, False)


def test_the_same_in_other_spellings_of_yaml_is_read() -> None:
    text = (
        '\ufeffaccounts: [{accessKey: "some\\u006fne", secretKey: !!str 0123456, admin: yes, '
        "topicPerms: &same [a=PUB], groupPerms: *same}]\r\n"
        "globalWhiteRemoteAddresses: ['*', null, 1:2:3:4:5:6:7:8]\r\n"
        "dataVersion: [{counter: 3, timestamp: 1700000000000, stateVersion: 0}]\r\n"
    )
    found = read(text)
    only = found.accounts["someone"]
    assert (only.secret, only.is_admin, only.entries) == (b"0123456", True, {"a": "PUB", "%RETRY%a": "PUB"})
    assert [pattern.text for pattern in found.white] == ["*", "", "1:2:3:4:5:6:7:8"]
    assert found.version == Version(3, 1_700_000_000_000)


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "\n\n", "---\n# begun\n"])
def test_a_file_in_which_nothing_is_written_is_told_from_one_without_accounts(text: str) -> None:
    assert read(text).is_empty is not text.startswith("---")
    assert not read("accounts: []").is_empty
    assert not read("accounts:\n").is_empty


BROKEN = (
    ("accounts:\n- accessKey: someone\n  secretKey: short\n", 3, "secretKey has 5 characters; at least 7"),
    ("accounts:\n- accessKey: short1\n  secretKey: 12345678\n", 2, "accessKey has 6 characters"),
    ("accounts:\n- accessKey: someone\n", 2, "without secretKey"),
    ("accounts:\n-\n", 2, "without accessKey"),
    ("accounts:\n- secretKey: 12345678\n", 2, "without accessKey"),
    ("accounts:\n- someone\n", 2, "must be written as keys with values"),
    ("accounts:\n  someone: 1\n", 2, "must be a list"),
    ("- a\n", 1, "must be written as keys with values"),
    (f"accounts:\n- {KEYS}\n- {KEYS}\n", 4, "someone is written twice, first in line 2"),
    (account("secretKey: 87654321"), 4, "secretKey appears twice"),
    (account("topicPerms:\n- a=PUB\n- a=SUB"), 6, "a has two permissions in topicPerms"),
    (account("topicPerms:\n- a"), 5, "has not the form name=PERM"),
    (account("topicPerms:\n- a: PUB"), 5, "must be a single value"),
    (account("topicPerms: a=PUB"), 4, "must be a list"),
    (account("groupPerms:\n- a=pub"), 5, "'pub' is no permission: expected DENY, PUB, SUB.*is PUB meant"),
    (account("defaultTopicPerm: PUP"), 4, "defaultTopicPerm: 'PUP' is no permission"),
    (account("whiteRemoteAddress: 10.1.*"), 4, "whiteRemoteAddress: .*four parts"),
    ("globalWhiteRemoteAddresses:\n- 10.0.0.0/8\n", 2, "a value of globalWhiteRemoteAddresses: .*no address"),
    ("globalWhiteRemoteAddresses:\n- *\n", 2, "written in quotes"),
    ("globalWhiteRemoteAddresses:\n- - 1.2.3.4\n", 2, "must be a single value"),
    (account("admin: maybe"), 4, "admin must be true or false"),
    (account("admin: [true]"), 4, "admin must be true or false"),
    (account("topicPerm:\n- a=PUB"), 4, "'topicPerm' is no key of an account, or is topicPerms meant"),
    (account("<<: {admin: true}"), 4, "<< is not supported"),
    (account("? [a]\n: b"), 4, "is no key"),
    ("globalWhiteRemoteAddress:\n- 10.1.2.3\n", 1, "is globalWhiteRemoteAddresses meant"),
    ("accounts:\n- accessKey: 0123456701\n  secretKey: 12345678\n", 2, "accessKey is not a text.*'int': write it in q"),
    ("accounts:\n- accessKey: 1234_5678\n  secretKey: 12345678\n", 2, "write it in quotes"),
    ("accounts:\n- accessKey: 12345678.5\n  secretKey: 12345678\n", 2, "'float': write it in quotes"),
    ("accounts:\n- accessKey: 2024-01-01\n  secretKey: 12345678\n", 2, "'timestamp': write it in quotes"),
    ("accounts:\n- accessKey: someone\n  secretKey: !!javax.script {}\n", 3, "must be a single value"),
    ("accounts:\n- accessKey: someone\n  secretKey: !!binary aGVsbG8gaGVsbG8=\n", 3, "'binary': write it in quotes"),
    ("accounts:\n\t- accessKey: someone\n", 2, "indent with spaces: the line has a tab"),
    ("a: b: c\n", 1, "no YAML text: mapping values are not allowed"),
    ("accounts: [\n", 2, "no YAML text"),
    ("accounts: []\n---\naccounts: []\n", 2, "no YAML text: but found another document"),
    ("accounts: *nobody\n", 1, "no YAML text: found undefined alias"),
    ("accounts: \x01\n", 0, "no YAML text: .*control characters"),
    (b"accounts: []\n# \xff\n", 2, "no UTF-8 text"),
    ("[" * 5_000, 1, "no YAML text: exceeded maximum nesting depth"),
    ("dataVersion:\n- counter: many\n", 2, "counter must be a whole number"),
    ("dataVersion:\n- counter: 99999999999999999999\n", 2, "counter must be a whole number"),
)


@pytest.mark.parametrize(("text", "line", "reason"), BROKEN)
def test_a_broken_file_is_refused_with_line_and_reason(text: str | bytes, line: int, reason: str) -> None:
    with pytest.raises(AccountsFileError, match=reason) as raised:
        read(text)
    assert raised.value.line == line
    assert str(raised.value).startswith(f"{PATH}, line {line}: " if line else f"{PATH}: ")
    assert "\n" not in str(raised.value)


def test_no_error_contains_a_secret() -> None:
    for value in ("0x5ec2e7000", "[5ec2e7000]", "5ec2e7", "1_000_5"):
        with pytest.raises(AccountsFileError) as raised:
            read(f"accounts:\n- accessKey: someone\n  secretKey: {value}\n")
        assert value.strip("[]") not in str(raised.value)


def test_a_key_that_no_known_key_resembles_is_reported_and_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert list(read(account("owner: the shop team")).accounts) == ["someone"]
    (record,) = caplog.records
    assert vars(record)["facts"] == {"file": PATH, "line": 4, "key": "owner"}


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(AccountsFileError, match="larger than"):
        read(b"#" * (MAX_FILE_BYTES + 1))


def test_too_many_accounts_are_refused() -> None:
    entries = "".join(
        f"- {{accessKey: account{number}, secretKey: '12345678'}}\n" for number in range(MAX_ACCOUNTS + 1)
    )
    with pytest.raises(AccountsFileError, match=f"more than {MAX_ACCOUNTS} accounts"):
        read("accounts:\n" + entries)


def test_repeated_values_count_each_time() -> None:
    listed = "".join(f"- topic{number}=PUB\n" for number in range(1_000))
    repeated = "".join(
        f"- {{accessKey: account{number}, secretKey: '12345678', topicPerms: *all, groupPerms: *all}}\n"
        for number in range(MAX_VALUES // 2_000)
    )
    first = "- accessKey: accountX\n  secretKey: '12345678'\n  topicPerms: &all\n  " + listed.replace("\n", "\n  ")
    with pytest.raises(AccountsFileError, match=f"more than {MAX_VALUES} values"):
        read("accounts:\n" + first.rstrip(" ") + repeated)


@pytest.mark.parametrize("braces", [True, False])
def test_lists_of_addresses_are_limited_in_all_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch, braces: bool
) -> None:
    made: list[str] = []
    address_of = addresses.address_of

    def noted(host: str) -> addresses.Parts | None:
        made.append(host)
        return address_of(host)

    monkeypatch.setattr(addresses, "address_of", noted)
    fill = f"1::{{{','.join('0' * 1000)}}}" if braces else ",".join(["::1"] * 1000)
    fits = MAX_ADDRESSES // 1000
    assert len(read(f"{WHITE}:\n- &a '{fill}'\n" + "- *a\n" * (fits - 1)).white) == fits
    del made[:]
    lines = [f"accounts:\n- {KEYS}\n  whiteRemoteAddress: &a '{fill}'\n{WHITE}:\n", *["- *a\n"] * 400]
    with pytest.raises(AccountsFileError, match=f"line 4: more than {MAX_ADDRESSES} addresses in the lists"):
        read("".join(lines))
    assert len(made) == MAX_ADDRESSES


def test_patterns_without_a_list_do_not_count_as_addresses() -> None:
    many = MAX_ADDRESSES // 2 + 1
    assert len(read(f"{WHITE}:\n- &a 10.1.3-5.*\n- &b 10.1.2.3\n" + "- *a\n- *b\n" * many).white) == 2 * many + 2


@pytest.mark.parametrize("key", ["secretKey: *long", "secretKey: 12345678\n  topicPerms: [*long]"])
def test_long_texts_that_are_repeated_count_as_many_values(key: str) -> None:
    long = "x" * (VALUE_CHARACTERS * 10_000) + "=PUB"
    text = f"accounts:\n- accessKey: firstone\n  secretKey: &long {long}\n" + "".join(
        f"- accessKey: someone{number}\n  {key}\n" for number in range(MAX_VALUES // 10_000)
    )
    with pytest.raises(AccountsFileError, match=f"line 3: more than {MAX_VALUES} values"):
        read(text)


def test_a_value_within_itself_is_read_to_the_depth_of_a_file_of_accounts() -> None:
    with pytest.raises(AccountsFileError, match="must be written as keys with values"):
        read("accounts: &all\n- *all\n")


def test_names_of_values_are_seen() -> None:
    assert has_names("a: &b c\n")
    assert not has_names("a: 'b & *c'\n")
