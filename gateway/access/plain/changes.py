"""Changes of accounts by request: which file has to change, the new text, and the entries that it must have then.

Upstream: ``PlainPermissionManager.updateAccessConfig``, ``deleteAccessConfig``, ``updateGlobalWhiteAddrsConfig``, which
write the file from objects.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from gateway.access.plain.accounts import SHORTEST_KEY, PlainAccount
from gateway.access.plain.addresses import parse_pattern
from gateway.access.plain.document import ACCOUNTS, GROUPS, TOPICS, VERSION, WHITE, Document
from gateway.access.plain.editing import Editing, member, written
from gateway.access.plain.permissions import parse_entry, parse_word
from gateway.settings.declare import MASK
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX
from wire.safe_text import UNSAFE

MAX_TEXT: Final = 1_024
"""The number of characters of a key, a pattern or an entry in a request."""
_PATTERN: Final = re.compile(r"[^,{}]+(?:\{[^{}]*\}?)?|\{[^{}]*\}?")
"""An address pattern in a list with commas; commas in braces belong to it."""
_UNSAFE: Final = re.compile(f"[{UNSAFE}]")


class NoSuchAccountError(ValueError):
    """A removal of an account that is in no file.

    :param name: the account, as the request named it.
    """

    def __init__(self, name: str) -> None:
        key = f"accesskey[{name[:MAX_TEXT]}]"
        super().__init__(f"The {key} corresponding to accessConfig has been deleted failed. There is no such account")
        self.name = name


class Change(Protocol):
    """One change. A ValueError says why it is refused, first in the words of upstream, and never contains a secret."""

    @property
    def resource(self) -> str:
        """The thing that changes, for the audit file."""

    def place(self, accounts: Mapping[str, PlainAccount], files: Collection[Path], main: Path) -> Path:
        """Return the file that has to change.

        :raises ValueError: there is none.
        """

    def edit(self, editing: Editing) -> None:
        """Change the text of the file.

        :raises ValueError: the file is written in a form that is not changed.
        """

    def expected(self, before: Document) -> Document:
        """Return the entries that the file must have afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChange:
    """Create an account, or set what is not None of an existing one.

    :param topics: entries of ``topicPerms``; they replace all earlier ones.
    """

    name: str
    secret: str | None = field(default=None, repr=False)
    white: str | None = None
    is_admin: bool | None = None
    default_topic: str | None = None
    default_group: str | None = None
    topics: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None

    @property
    def resource(self) -> str:
        """The name of the account."""
        return f"account {self.name}"

    def check(self) -> None:
        """Look at every part.

        :raises ValueError: a part is wrong.
        """
        texts = [self.name, self.secret, self.white, self.default_topic, self.default_group]
        texts += [*(self.topics or ()), *(self.groups or ())]
        for text in texts:
            if text is not None and (len(text) > MAX_TEXT or _UNSAFE.search(text)):
                raise ValueError(f"a text has control characters, or more than {MAX_TEXT} characters")
        for key, text in (("accessKey", self.name), ("secretKey", self.secret)):
            if text is not None and len(text) < SHORTEST_KEY:
                raise ValueError(
                    f"The accessKey={self.name} and secretKey={MASK} cannot be null and length should longer than "
                    f"{SHORTEST_KEY - 1}: {key} has {len(text)} characters; at least {SHORTEST_KEY} are needed"
                )
        for word in (self.default_topic, self.default_group):
            if word is not None:
                parse_word(word)
        _entries(self.topics or (), "")
        _entries(self.groups or (), "")
        try:
            parse_pattern(self.white or "")
        except ValueError as error:
            raise ValueError(f"Netaddress examine scope Exception netaddress is {self.white}: {error}") from None

    def place(self, accounts: Mapping[str, PlainAccount], files: Collection[Path], main: Path) -> Path:  # noqa: ARG002
        """Return the file that has the account, for a new one the main file."""
        self.check()
        known = accounts.get(self.name)
        if known is None and self.secret is None:
            raise ValueError(f"account {self.name} is new and has no secretKey")
        return main if known is None else known.file

    def edit(self, editing: Editing) -> None:
        """Change the lines of the account, or add them after the last account."""
        listed = member(editing.root, ACCOUNTS)
        account = _account(listed, self.name)
        if account is not None:
            for line in self._lines():
                editing.put(account, [line])
            for key, entries in ((TOPICS, self.topics), (GROUPS, self.groups)):
                if entries is not None:
                    editing.put_list(account, key, entries, _resource)
            return
        lines = [f"accessKey: {written(self.name)}", *self._lines()]
        for key, entries in ((TOPICS, self.topics), (GROUPS, self.groups)):
            if entries is not None:
                lines += [f"{key}:", *(f"- {written(entry)}" for entry in entries)]
        lines = [f"- {lines[0]}", *(f"  {line}" for line in lines[1:])]
        if listed is not None and listed.value and not isinstance(listed.value, str):
            editing.append(listed, lines)
        else:
            editing.put(editing.root, [f"{ACCOUNTS}:", *lines])

    def expected(self, before: Document) -> Document:
        """Return the entries with the account as it must be."""
        old = before.accounts.get(self.name) or PlainAccount(name=self.name, secret=b"")
        changes = {
            "secret": None if self.secret is None else self.secret.encode(),
            "white": None if self.white is None else parse_pattern(self.white),
            "is_admin": self.is_admin,
            "default_topic": None if self.default_topic is None else parse_word(self.default_topic),
            "default_group": None if self.default_group is None else parse_word(self.default_group),
        }
        entries = {
            name: word
            for name, word in old.entries.items()
            if (self.groups if name.startswith(RETRY_TOPIC_PREFIX) else self.topics) is None
        }
        entries |= _entries(self.topics or (), "") | _entries(self.groups or (), RETRY_TOPIC_PREFIX)
        known = {key: value for key, value in changes.items() if value is not None}
        account = replace(old, entries=entries, **known)  # type: ignore[arg-type]
        return replace(before, accounts={**before.accounts, self.name: account})

    def _lines(self) -> list[str]:
        """Return the keys with a single value."""
        values = {
            "secretKey": self.secret,
            "whiteRemoteAddress": self.white,
            "admin": None if self.is_admin is None else str(self.is_admin).lower(),
            "defaultTopicPerm": self.default_topic,
            "defaultGroupPerm": self.default_group,
        }
        return [
            f"{key}: {value if key == 'admin' else written(value)}"
            for key, value in values.items()
            if value is not None
        ]


@dataclass(frozen=True, slots=True)
class AccountRemoval:
    """Delete an account."""

    name: str

    @property
    def resource(self) -> str:
        """The name of the account."""
        return f"account {self.name}"

    def place(self, accounts: Mapping[str, PlainAccount], files: Collection[Path], main: Path) -> Path:  # noqa: ARG002
        """Return the file that has the account.

        :raises NoSuchAccountError: no file has it.
        """
        if self.name not in accounts:
            raise NoSuchAccountError(self.name)
        return accounts[self.name].file

    def edit(self, editing: Editing) -> None:
        """Remove the lines of the account."""
        account = _account(member(editing.root, ACCOUNTS), self.name)
        if account is not None:
            editing.remove(account)

    def expected(self, before: Document) -> Document:
        """Return the entries without the account."""
        return replace(before, accounts={name: old for name, old in before.accounts.items() if name != self.name})


@dataclass(frozen=True, slots=True)
class WhiteListChange:
    """Set the white list of all accounts in one file.

    :param file: the file; empty for the main one. Only files that are read already may be named.
    """

    texts: tuple[str, ...]
    file: str = ""

    @property
    def resource(self) -> str:
        """The key of the white list, and the file if one is named."""
        return f"{WHITE} {self.file}".rstrip()

    def place(self, accounts: Mapping[str, PlainAccount], files: Collection[Path], main: Path) -> Path:  # noqa: ARG002
        """Return the file that was named."""
        for text in self.texts:
            if len(text) > MAX_TEXT or _UNSAFE.search(text):
                raise ValueError(f"a pattern has control characters, or more than {MAX_TEXT} characters")
            parse_pattern(text)
        if self.file and Path(self.file) not in (*files, main):
            raise ValueError(f"{self.file[:MAX_TEXT]!r} is none of the files of accounts of this server")
        return Path(self.file) if self.file else main

    def edit(self, editing: Editing) -> None:
        """Change the lines of the white list."""
        editing.put_list(editing.root, WHITE, self.texts, str)

    def expected(self, before: Document) -> Document:
        """Return the entries with the new white list."""
        return replace(before, white=tuple(map(parse_pattern, dict.fromkeys(self.texts))))


def patterns_in(text: str) -> tuple[str, ...]:
    """Return the patterns of a list with commas; commas in braces belong to their pattern."""
    return tuple(found for found in _PATTERN.findall(text) if found.strip())


def put_version(editing: Editing, counter: int, timestamp: int) -> None:
    """Write the version of the file."""
    editing.put(editing.root, [f"{VERSION}:", f"- counter: {counter}", f"  timestamp: {timestamp}"])


def _account(listed: object, name: str) -> object:
    """Return the node of an account in the list of accounts, None if there is none."""
    for node in getattr(listed, "value", None) or ():
        key = member(node, "accessKey")
        if key is not None and key.value == name:
            return node
    return None


def _entries(texts: Collection[str], prefix: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for text in texts:
        resource, word = parse_entry(text)
        if entries.setdefault(prefix + resource, word) != word:
            raise ValueError(f"{resource} has two permissions")
    return entries


def _resource(entry: str) -> str:
    return entry.partition("=")[0].strip()
