"""The accounts of a fuzzed server, in both kinds: what is in their file, and, said once more by hand, what each may do.

The fuzzer signs as all of them. Nobody but the administrator may touch what has a protected name; the administrator is
never told to.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from gateway.tests.fuzz.requests import names

CANARY: Final = "canary"
"""The topic that nobody of the fuzzer may touch; a user, a namespace of the name server and its key have this name."""
CANARY_GROUP: Final = "canary-group"
STEP: Final = "fuzz_step"
"""The account that is made, changed and deleted all the time, and its topic."""
CHANGED: Final = names.USERS
"""Accounts that requests of the fuzzer make, change and delete."""
ANY: Final = frozenset(("Pub", "Sub", "Create", "Update", "Delete", "Get", "List"))
INNER: Final = (
    *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_", "TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_"),
    *("SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
)
"""The first characters of the broker's own topics, whose messages patterns do not cover."""
LOOK: Final = frozenset(("Get", "List"))
AUDIT_BYTES: Final = 65_536
AUDIT_FILES: Final = 3
Grant = tuple[str, str, frozenset[str]]


class Kind(StrEnum):
    """The kinds of accounts."""

    NONE = "none"
    USERS = "users"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Member:
    """One account.

    :param may: kind of resource, pattern of names, and the actions.
    :param never: patterns of names that are denied, whatever is in ``may``.
    """

    name: str
    may: Sequence[Grant] = ()
    never: Sequence[str] = ()
    is_admin: bool = False
    is_enabled: bool = True

    @property
    def secret(self) -> str:
        """The key, which is in no answer and in no line of a log."""
        if self.name in CHANGED:
            return names.PASSWORD
        return f"secret-of-{hashlib.sha256(self.name.encode()).hexdigest()[:16]}"

    def has(self, kind: str, name: str, actions: Iterable[str]) -> bool:
        """Return whether the account may do one of the actions."""
        if self.is_admin:
            return True
        if any(fnmatchcase(name, pattern) for pattern in self.never):
            return False
        wanted = set(actions)
        is_inner = kind == "Topic" and name.startswith(INNER) and not wanted <= LOOK
        for of, pattern, allowed in self.may:
            fits = name == pattern if is_inner else fnmatchcase(name, pattern)
            if of == kind and fits and wanted & allowed:
                return True
        return False


def _fuzz(actions: frozenset[str]) -> tuple[Grant, ...]:
    return ("Topic", "fuzz*", actions), ("Group", "fuzz*", actions), ("Cluster", "fuzz-cluster", actions)


ROOT: Final = Member("fuzz_root", is_admin=True)
HONEST: Final = Member("honest", (("Topic", "honest*", ANY), ("Group", "honest*", ANY)))
MANAGER: Final = "fuzz_manager"
_PUB, _SUB = frozenset(("Pub",)), frozenset(("Sub",))
_USERS: Final = (
    ROOT,
    HONEST,
    Member(CANARY, (("Topic", "canary*", ANY), ("Group", "canary*", ANY))),
    Member("fuzz_narrow", (("Topic", "fuzz_a", _PUB), ("Topic", "fuzz_b", _SUB), ("Group", "fuzz_group_a", _SUB))),
    Member("fuzz_wide", _fuzz(ANY)),
    Member("fuzz_viewer", (("Cluster", "DefaultCluster", LOOK), ("Topic", "fuzz_b", LOOK))),
    Member(MANAGER, (("Cluster", "DefaultCluster", frozenset(("Get", "Update"))),)),
    Member("fuzz_denied", (("Topic", "*", ANY), ("Group", "*", ANY)), ("canary*", "honest*")),
    Member("fuzz_off", is_admin=True, is_enabled=False),
    Member("fuzz_away"),
    *(Member(name, _fuzz(ANY)) for name in CHANGED),
)
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "PUB": _PUB | LOOK,
    "SUB": _SUB | LOOK,
    "PUB|SUB": _PUB | _SUB | LOOK,
    "DENY": frozenset(),
}
_TRACE: Final[Grant] = ("Topic", "RMQ_SYS_TRACE_TOPIC", _PUB | LOOK)
"""Every account may send there; who may send to a topic may look at its offsets."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One account of ACL 1.0, as its file has it."""

    name: str
    topics: Mapping[str, str]
    groups: Mapping[str, str]
    default_topic: str = "DENY"
    default_group: str = "DENY"
    is_admin: bool = False

    def member(self) -> Member:
        may = [
            (kind, name, _WORDS[word])
            for kind, entries in (("Topic", self.topics), ("Group", self.groups))
            for name, word in entries.items()
        ]
        may += [
            (kind, "*", _WORDS[word]) for kind, word in (("Topic", self.default_topic), ("Group", self.default_group))
        ]
        denied = [name for entries in (self.topics, self.groups) for name, word in entries.items() if word == "DENY"]
        return Member(self.name, [*may, _TRACE], denied, is_admin=self.is_admin)

    def lines(self) -> Iterable[str]:
        yield f"- accessKey: {self.name}"
        yield f"  secretKey: {Member(self.name).secret}"
        yield f"  admin: {str(self.is_admin).lower()}"
        yield f"  defaultTopicPerm: {self.default_topic}"
        yield f"  defaultGroupPerm: {self.default_group}"
        for key, entries in (("topicPerms", self.topics), ("groupPerms", self.groups)):
            if entries:
                yield f"  {key}:"
                yield from (f"  - {name}={word}" for name, word in entries.items())


_HONEST_TOPICS: Final = ("honest", "honest-pop")
_DENIED: Final = dict.fromkeys((CANARY, *_HONEST_TOPICS), "DENY")
_ROWS: Final = (
    _Row(ROOT.name, {}, {}, is_admin=True),
    _Row("honest-key", dict.fromkeys(_HONEST_TOPICS, "PUB|SUB"), {"honest-group": "SUB"}),
    _Row("canary-key", {CANARY: "PUB|SUB"}, {CANARY_GROUP: "SUB"}),
    _Row("fuzz_narrow", {"fuzz_a": "PUB", "fuzz_b": "SUB"}, {"fuzz_group_a": "SUB"}),
    _Row("fuzz_denied", _DENIED, {CANARY_GROUP: "DENY", "honest-group": "DENY"}, "PUB|SUB", "SUB"),
    _Row("fuzz_default", {"fuzz_a": "DENY"}, {"fuzz_group_b": "SUB"}, "DENY", "DENY"),
)


@dataclass(frozen=True, slots=True)
class Party:
    """All accounts of a run."""

    kind: Kind
    members: Mapping[str, Member]

    @property
    def honest(self) -> Member:
        """The account of the honest clients."""
        return self.members["honest" if self.kind is Kind.USERS else "honest-key"]

    @property
    def protected(self) -> list[str]:
        """Names that no request may have that is allowed to change anything."""
        return [CANARY, "honest", *(name for name in self.members if name not in CHANGED)]

    @property
    def signers(self) -> list[Member]:
        """The accounts that the fuzzer signs as; whose keys it has not is left out."""
        return [member for name, member in self.members.items() if not name.startswith(("honest", "canary"))]


def party(kind: Kind) -> Party:
    """Return the accounts of a kind."""
    if kind is Kind.USERS:
        return Party(kind, {member.name: member for member in _USERS})
    members = [row.member() for row in _ROWS]
    # Requests make them as the grammar says: no default but DENY, and only names of the fuzzer.
    members += [Member(name, [*_fuzz(_PUB | _SUB | LOOK), _TRACE]) for name in CHANGED]
    return Party(kind, {member.name: member for member in members})


def settings(kind: Kind, directory: Path) -> dict[str, str]:
    """Write the file of accounts into a directory; return the settings that use it."""
    if kind is Kind.NONE:
        return {}
    directory.mkdir()
    bounds = {"gateway.auditFileBytes": str(AUDIT_BYTES), "gateway.auditFiles": str(AUDIT_FILES)}
    path = file_of(kind, directory)
    if kind is Kind.PLAIN:
        path.write_text("accounts:\n" + "".join(f"{line}\n" for row in _ROWS for line in row.lines()), "utf-8")
        return {"aclEnable": "true", "gateway.aclFile": str(path), **bounds}
    path.write_text(json.dumps({"users": [_user(member) for member in _USERS]}), "utf-8")
    path.chmod(0o600)
    inner = json.dumps({"accessKey": ROOT.name, "secretKey": ROOT.secret})
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "gateway.accessFile": str(path),
        "innerClientAuthenticationCredentials": inner,
        **bounds,
    }


def file_of(kind: Kind, directory: Path) -> Path:
    """Return the file of accounts in a directory."""
    return directory / ("access.json" if kind is Kind.USERS else "plain_acl.yml")


def _user(member: Member) -> dict[str, Any]:
    entries = [
        {"resource": f"{kind}:{pattern}", "actions": sorted(actions), "decision": "Allow"}
        for kind, pattern, actions in member.may
    ]
    entries += [
        {"resource": f"{kind}:{pattern}", "actions": ["All"], "decision": "Deny"}
        for pattern in member.never
        for kind in ("Topic", "Group")
    ]
    if member.name == "fuzz_away":
        entries = [{"resource": "*", "actions": ["All"], "sourceIps": ["10.9.9.9"], "decision": "Allow"}]
    return {
        "username": member.name,
        "password": member.secret,
        "userType": "Super" if member.is_admin else "Normal",
        "userStatus": "enable" if member.is_enabled else "disable",
        "policies": [{"policyType": "Custom", "entries": entries}] if entries else [],
    }


def signature(secret: str, fields: Mapping[str, str], body: bytes, leave_out: Iterable[str] = ()) -> str:
    """Return the signature of a request, made without the gateway's own code.

    :param leave_out: fields that are not signed, beside the signature itself.
    """
    skipped = {"Signature", *leave_out}
    signed = sorted(fields.keys() - skipped, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    content = "".join(fields[name] for name in signed).encode("utf-8", "replace") + body
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()
