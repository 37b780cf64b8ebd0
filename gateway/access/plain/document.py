"""One file of accounts: its entries, read from YAML and checked.

What upstream refuses at load is refused, and also what can only be a mistake and would permit or forbid something else
than was meant: unknown permission words, two entries for one name, misspelt keys. Every fault names file and line, and
no fault contains a secret key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from gateway.access.plain.accounts import SHORTEST_KEY, PlainAccount
from gateway.access.plain.addresses import AddressPattern, listed_in, parse_pattern
from gateway.access.plain.parsing import Node, Parsing
from gateway.access.plain.permissions import DENY, parse_entry, parse_word
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

T = TypeVar("T")

MAX_ACCOUNTS: Final = 20_000
"""The number of accounts in all files."""
WHITE: Final = "globalWhiteRemoteAddresses"
ACCOUNTS: Final = "accounts"
VERSION: Final = "dataVersion"
FILE_KEYS: Final = (ACCOUNTS, WHITE, VERSION)
VERSION_KEYS: Final = ("counter", "timestamp", "stateVersion")
TOPICS: Final = "topicPerms"
GROUPS: Final = "groupPerms"
ACCOUNT_KEYS: Final = (
    *("accessKey", "secretKey", "whiteRemoteAddress", "admin"),
    *("defaultTopicPerm", "defaultGroupPerm", TOPICS, GROUPS),
)


@dataclass(frozen=True, slots=True)
class Version:
    """The version that requests write into a file; a file without one has the number 0 and its own time."""

    counter: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The entries of a file.

    :param is_empty: nothing is written in the file but comments: it was emptied, or is being written.
    """

    path: Path
    accounts: Mapping[str, PlainAccount]
    white: tuple[AddressPattern, ...]
    version: Version
    is_empty: bool = False


def read_document(parsing: Parsing, changed_ms: int = 0) -> Document:
    """Return the entries of a file.

    :param changed_ms: the time of the file's last change.
    :raises AccountsFileError: the nodes are no file of accounts.
    """
    return _Reading(parsing).document(changed_ms)


class _Reading:
    def __init__(self, parsing: Parsing) -> None:
        self._parsing = parsing

    def document(self, changed_ms: int) -> Document:
        members = self._parsing.members(self._parsing.root, FILE_KEYS, "a file of accounts")
        accounts: dict[str, PlainAccount] = {}
        for node in self._parsing.items(members.get(ACCOUNTS), ACCOUNTS):
            account = self._account(node)
            if (other := accounts.get(account.name)) is not None:
                raise self._parsing.broken(
                    node, f"account {account.name} is written twice, first in line {other.line}; keep one of the two"
                )
            if len(accounts) == MAX_ACCOUNTS:
                raise self._parsing.broken(node, f"more than {MAX_ACCOUNTS} accounts")
            accounts[account.name] = account
        return Document(
            path=self._parsing.path,
            accounts=accounts,
            white=tuple(
                self._pattern(node, f"a value of {WHITE}") for node in self._parsing.items(members.get(WHITE), WHITE)
            ),
            version=self._version(members.get(VERSION)) or Version(0, changed_ms),
            is_empty=self._parsing.root is None,
        )

    def _account(self, node: Node) -> PlainAccount:
        parsing = self._parsing
        members = parsing.members(node, ACCOUNT_KEYS, "an account")
        name, secret = (self._key(node, members, key) for key in ACCOUNT_KEYS[:2])
        entries: dict[str, str] = {}
        for key, prefix in ((TOPICS, ""), (GROUPS, RETRY_TOPIC_PREFIX)):
            for item in parsing.items(members.get(key), key):
                resource, word = self._parsed(parse_entry, item, parsing.text_of(item, f"a value of {key}"))
                if entries.setdefault(prefix + resource, word) != word:
                    raise parsing.broken(item, f"{resource} has two permissions in {key}; keep one of the two")
        return PlainAccount(
            name=name,
            secret=secret.encode(),
            is_admin=parsing.flag(members.get("admin"), "admin"),
            white=self._pattern(members.get("whiteRemoteAddress"), "whiteRemoteAddress"),
            default_topic=self._word(members, "defaultTopicPerm"),
            default_group=self._word(members, "defaultGroupPerm"),
            entries=entries,
            file=parsing.path,
            line=node.start_mark.line + 1,
        )

    def _key(self, account: Node, members: Mapping[str, Node], key: str) -> str:
        node = members.get(key)
        text = self._parsing.text_of(node, key)
        if len(text) < SHORTEST_KEY:
            fault = f"{key} has {len(text)} characters" if text else f"an account without {key}"
            place = account if node is None else node
            raise self._parsing.broken(place, f"{fault}; at least {SHORTEST_KEY} are needed")
        return text

    def _word(self, members: Mapping[str, Node], key: str) -> str:
        node = members.get(key)
        text = self._parsing.text_of(node, key)
        return self._parsed(parse_word, node, text, f"{key}: ") if text else DENY

    def _pattern(self, node: Node, what: str) -> AddressPattern:
        text = "" if node is None else self._parsing.written(node, what)
        self._parsing.count_addresses(node, listed_in(text))
        return self._parsed(parse_pattern, node, "" if text in ("~", "null") else text, f"{what}: ")

    def _parsed(self, parse: Callable[[str], T], node: Node, text: str, before: str = "") -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise self._parsing.broken(node, f"{before}{error}") from None

    def _version(self, node: Node) -> Version | None:
        for item in self._parsing.items(node, VERSION):
            members = self._parsing.members(item, VERSION_KEYS, VERSION)
            found = {key: self._parsing.number(value, key) for key, value in members.items()}
            return Version(found.get("counter", 0), found.get("timestamp", 0))
        return None
