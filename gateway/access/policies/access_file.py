"""The JSON text of all users and their policies, which people may write by hand as well.

    {"users": [{"username": "anna", "password": "...", "userType": "Normal", "userStatus": "enable",
                "policies": [{"policyType": "Custom",
                              "entries": [{"resource": "Topic:orders", "actions": ["Pub"],
                                           "sourceIps": ["10.0.0.0/8"], "decision": "Allow"}]}]}]}

The words are those of the tools. Members that are left out mean what they mean there; unknown members are refused,
because one of them may be a misspelt restriction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from gateway.access.policies.policy import EntryError, PolicyEntry, PolicyType, W, word_of
from gateway.access.policies.resources import is_name
from gateway.access.policies.users import TooManyError, User, Users, UserStatus, UserType, password_fault
from gateway.errors import GatewayError

_STEP = re.compile(r"\.([A-Za-z]+)|\[(\d+)\]")
_PLACE, _BYTE = " - at `$", " (byte "
"""The texts before a place in messages of msgspec."""


class _Text(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class _EntryText(_Text):
    resource: str
    actions: Sequence[str]
    decision: str
    source_ips: Sequence[str] = ()


class _PolicyText(_Text):
    entries: Sequence[_EntryText]
    policy_type: str = ""


class _UserText(_Text):
    username: str
    password: str
    user_type: str = ""
    user_status: str = ""
    policies: Sequence[_PolicyText] = ()


class _FileText(_Text):
    users: list[msgspec.Raw]


class AccessFileError(GatewayError):
    """A text that names no users; says in which line, and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class _WrongError(Exception):
    """A wrong value, with its place as msgspec writes places: ``.users[0].password``."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def parse_users(content: bytes) -> Users:
    """Return the users of a text.

    :raises AccessFileError: the text is no such JSON, or something in it is wrong; no part of a password is told.
    """
    try:
        return Users(dict(_users(msgspec.json.decode(content, type=_FileText))))
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(_PLACE)
        raise AccessFileError(_line_of(content, place), reason) from None
    except msgspec.DecodeError as error:
        reason, _, at = str(error).partition(_BYTE)
        raise AccessFileError(_line_at(content, int(at[:-1]) if at else len(content)), reason) from None
    except UnicodeDecodeError as error:
        raise AccessFileError(_line_at(content, error.start), "the text is not UTF-8") from None
    except RecursionError:
        raise AccessFileError(1, "the text is nested too deeply") from None
    except TooManyError as error:
        raise AccessFileError(1, str(error)) from None
    except _WrongError as error:
        raise AccessFileError(_line_of(content, error.place), str(error)) from None


def build_users(users: Users) -> bytes:
    """Return the text of all users.

    Each user is a text of its own, here and in ``parse_users``: other threads go on between two of them.
    """
    texts = (msgspec.json.format(msgspec.json.encode(_user_text(user)), indent=2) for user in users.values())
    text = b",\n    ".join(text.replace(b"\n", b"\n    ") for text in texts)
    return b'{\n  "users": [\n    ' + text + b"\n  ]\n}\n" if text else b'{\n  "users": []\n}\n'


def _users(text: _FileText) -> Iterator[tuple[str, User]]:
    known: set[str] = set()
    for number, raw in enumerate(text.users):
        place = f".users[{number}]"
        wanted = _user(raw, place)
        name = wanted.username
        if not is_name(name):
            raise _WrongError(f"{place}.username", "a username is blank, too long, or has characters nobody can see")
        if name in known:
            raise _WrongError(f"{place}.username", f"user {name} is there twice")
        fault = password_fault(wanted.password)
        if fault is not None:
            raise _WrongError(f"{place}.password", f"user {name}: {fault}")
        known.add(name)
        kind = _word(UserType, wanted.user_type or UserType.NORMAL, f"{place}.userType")
        status = _word(UserStatus, wanted.user_status or UserStatus.ENABLE, f"{place}.userStatus")
        yield name, User(name, wanted.password, kind, status).with_policies(dict(_policies(wanted, place)))


def _user(raw: msgspec.Raw, place: str) -> _UserText:
    try:
        return msgspec.json.decode(raw, type=_UserText)
    except UnicodeDecodeError:
        raise _WrongError(place, "the text is not UTF-8") from None
    except msgspec.ValidationError as error:
        reason, _, inner = str(error).partition(_PLACE)
        raise _WrongError(place + inner, reason) from None


def _policies(user: _UserText, place: str) -> Iterator[tuple[PolicyType, tuple[PolicyEntry, ...]]]:
    known: set[PolicyType] = set()
    for number, policy in enumerate(user.policies):
        at = f"{place}.policies[{number}]"
        kind = _word(PolicyType, policy.policy_type or PolicyType.CUSTOM, f"{at}.policyType")
        if kind in known:
            raise _WrongError(at, f"user {user.username} has two {kind} policies")
        known.add(kind)
        yield kind, tuple(_entry(entry, f"{at}.entries[{index}]") for index, entry in enumerate(policy.entries))


def _entry(text: _EntryText, place: str) -> PolicyEntry:
    try:
        return PolicyEntry.of(text.resource, text.actions, text.source_ips, text.decision)
    except EntryError as error:
        raise _WrongError(place, str(error)) from None


def _word(words: type[W], text: str, place: str) -> W:
    found = word_of(words, text)
    if found is None:
        raise _WrongError(place, f"{text[:64]!r} is not {' or '.join(words)}")
    return found


def _user_text(user: User) -> _UserText:
    policies = [
        _PolicyText(
            [_EntryText(str(entry.resource), entry.actions, entry.decision, entry.sources) for entry in entries], kind
        )
        for kind, entries in user.policies.items()
    ]
    return _UserText(user.name, user.password, user.type, user.status, policies)


def _line_at(content: bytes, offset: int) -> int:
    return content.count(b"\n", 0, offset) + 1


def _line_of(content: bytes, place: str) -> int:
    """Return the line of a place such as ``.users[3].policies[0]``, or of what holds it if it is not there."""
    offset, part = 0, content
    for name, index in _STEP.findall(place):
        try:
            members: dict[Any, Any] = _raw_members(part)
        except RecursionError:  # nested too deeply to be looked into
            break
        wanted = int(index) if index else name
        if wanted not in members:
            break
        at = 0
        for key, value in members.items():
            at = part.find(value, at)
            if key == wanted:
                break
            at += len(value)
        offset, part = offset + at, members[wanted]
    return _line_at(content, offset)


def _raw_members(part: bytes) -> dict[Any, bytes]:
    """Return the texts of the members of an object by name, or of an array by number, in the order of the text."""
    if part.lstrip().startswith(b"["):
        return dict(enumerate(map(bytes, msgspec.json.decode(part, type=list[msgspec.Raw]))))
    return {name: bytes(raw) for name, raw in msgspec.json.decode(part, type=dict[str, msgspec.Raw]).items()}
