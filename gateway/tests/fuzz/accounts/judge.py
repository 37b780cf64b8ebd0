"""The judgement of answers: who signed a request, what it needs, and whether its answer says that it was carried out.

Nothing of it is the gateway's own code, except for frames that only a lenient reader reads: the needs are read from the
page of request codes, the signature and the rights are worked out again.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from gateway.tests.fuzz.accounts.party import Kind, Member, Party, signature
from gateway.tests.fuzz.accounts.said import said
from gateway.tests.fuzz.requests.grammar import PAGE
from gateway.tests.fuzz.requests.names import PASSWORD
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError

_ROW: Final = re.compile(r"^\| (\d+) \| \w+ \| \S+ \| \S+ \| (.+?) \| [\w –]+ \| [\w –]+ \|$", re.MULTILINE)
_NAMED: Final = re.compile(
    r"(Topic|Group|Cluster)(?: `(\w+)`)? ([A-Z]\w+(?:/[A-Z]\w+)*)( if given)?"
    r"(?: \(not for the cluster's own name with (\w+)\))?"
)
_SEPARATORS: Final = {"topicList": ";", "filterGroups": ","}
_LEFT_OUT: Final = ((), ("_UNIQUE_KEY_QUERY",), ("__ZONE_NAME", "__ZONE_MODE"), ("SecurityToken",))
"""The fields that some clients do not sign."""
_RETRY: Final = "%RETRY%"
_OF_POPS: Final = (200051, 200053)
"""Acknowledgements and changes of the invisible time, whose topic may be where messages of a pop are retried."""
NEVER_SECRET: Final = frozenset({26, 319, *range(50, 55), *range(3_001, 3_011)})
"""The requests about settings and accounts, whose answers never have a secret."""
CLUSTER: Final = "DefaultCluster"
MAX_WAITING: Final = 10_000
MAX_SHOWN_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Named:
    """One resource that a request needs."""

    kind: str
    field: str
    actions: Sequence[str]
    optional: bool
    except_ending: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What a code needs: everybody, any account with the named rights, or an administrator."""

    who: str
    named: Sequence[Named]


@cache
def rules() -> dict[int, Rule]:
    """Return what each code needs, as the page says."""
    return {int(code): _rule(text) for code, text in _ROW.findall(PAGE.read_text(encoding="utf-8"))}


def _rule(text: str) -> Rule:
    parts = [part for part in text.split("; ") if not part.startswith("in the body")]
    found = [match for part in parts if (match := _NAMED.fullmatch(part))]
    words = [part for part in parts if not _NAMED.fullmatch(part)]
    assert len(words) <= 1, text
    named = [
        Named(kind, name, actions.split("/"), bool(given), ending or "")
        for kind, name, actions, given, ending in (match.groups(default="") for match in found)
    ]
    return Rule(words[0] if words else "account", named)


@dataclass(frozen=True, slots=True)
class Read:
    """A request as the server has to read it."""

    code: int
    opaque: int
    flag: int
    fields: Mapping[str, str]
    body: bytes


def read(frame: bytes) -> Read | None:
    """Return the one request of a frame; None if it is none, or more than one."""
    try:
        length, mark = struct.unpack_from(">II", frame)
        size = mark & 0xFFFFFF
        if len(frame) != length + 4 or mark >> 24 or size > length - 4:
            return _read_leniently(frame)
        header = json.loads(frame[8 : 8 + size])
        fields = header["extFields"]
        texts = all(isinstance(value, str) for value in fields.values())
        code, opaque, flag = numbers = [header[name] for name in ("code", "opaque", "flag")]
        if not texts or not all(type(number) is int and -(2**31) <= number < 2**31 for number in numbers):
            return _read_leniently(frame)
        return Read(code, opaque, flag, fields, frame[8 + size :])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error):
        return _read_leniently(frame)


def _read_leniently(frame: bytes) -> Read | None:
    try:
        commands = Connection().receive_data(frame)
        if len(commands) != 1:
            return None
        command = commands[0]
        return Read(command.code, command.opaque, command.flag, dict(command.ext_fields), command.body)
    except (RemoteError, RecursionError):
        return None


def _needs(rule: Rule, fields: Mapping[str, str], *, is_popped: bool) -> Iterator[tuple[str, str, Sequence[str]]]:
    groups = [fields[named.field] for named in rule.named if named.kind == "Group" and named.field in fields]
    for named in rule.named:
        if named.kind == "Cluster":
            yield "Cluster", fields.get(named.field, "") or CLUSTER, named.actions
            continue
        if named.field not in fields:
            if not named.optional:
                yield "Cluster", CLUSTER, ["Update"]
            continue
        text = fields[named.field]
        separator = _SEPARATORS.get(named.field)
        for name in [part for part in text.split(separator) if part] if separator else [text]:
            if named.kind == "Group":
                yield "Group", name, named.actions
            elif not (named.except_ending and name == CLUSTER + named.except_ending):
                yield from _topic_needs(name, named.actions, groups, is_popped=is_popped)


def _topic_needs(
    name: str, actions: Sequence[str], groups: Sequence[str], *, is_popped: bool
) -> Iterator[tuple[str, str, Sequence[str]]]:
    if not name.startswith(_RETRY):
        yield "Topic", name, actions
        return
    rest = name.removeprefix(_RETRY)
    of_group = ["Sub"] if "Pub" in actions else actions
    owner, _, topic = rest.partition("+")
    if owner and topic:
        if owner not in groups:
            yield "Group", owner, of_group
        yield "Topic", topic, actions
        return
    if rest in groups:
        return
    for group in groups if is_popped else ():
        if rest.startswith(f"{group}_") and len(rest) > len(group) + 1:
            yield "Topic", rest[len(group) + 1 :], actions
            return
    yield "Group", rest, of_group


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request, and why it has to be refused, if it has."""

    code: int
    forbidden: str | None
    sender: Member | None
    frame: bytes

    @property
    def name(self) -> str:
        """The account that signed it rightly."""
        return "nobody" if self.sender is None else self.sender.name

    @property
    def may_see_all(self) -> bool:
        """True if an administrator sent it."""
        return self.sender is not None and self.sender.is_admin and self.sender.is_enabled


@dataclass(slots=True)
class _Waiting:
    """The requests of one connection with one number; nobody can tell which of them an answer is for."""

    requests: list[_Sent] = field(default_factory=list)
    missing: int = 0


@dataclass(slots=True)
class Judge:
    """Looks at all requests and answers of a run.

    :param canary: a text within the message that nobody of the fuzzer may read.
    """

    party: Party
    canary: bytes
    wrong: list[str] = field(default_factory=list)
    let_in: Counter[str] = field(default_factory=Counter)
    """The answers to each account's requests that were allowed, and not refused."""
    refused: Counter[str] = field(default_factory=Counter)
    _waiting: dict[tuple[int, int], _Waiting] = field(default_factory=dict)
    _has_spread: bool = False
    """True once the fuzzer has sent the password of changed users in a request that is not about accounts."""

    def sent(self, link: int, frame: bytes) -> None:
        """Note a request that a connection sends."""
        asked = read(frame)
        if asked is None or asked.flag & 3:
            return
        self._has_spread = self._has_spread or (
            asked.code not in NEVER_SECRET and PASSWORD in said(asked.fields, asked.body)
        )
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.clear()
        waiting = self._waiting.setdefault((link, asked.opaque), _Waiting())
        waiting.requests.append(_Sent(asked.code, self.forbids(asked), self.sender(asked), frame[:MAX_SHOWN_BYTES]))
        waiting.missing += 1

    def answered(self, link: int, answer: RemotingCommand) -> None:
        """Look at an answer. If it may be for several requests, it is wrong if it is wrong for each of them."""
        waiting = self._waiting.get((link, answer.opaque))
        self._look_for_secrets(answer, {sent.code for sent in waiting.requests} if waiting is not None else set())
        if waiting is None:
            return
        waiting.missing -= 1
        if not waiting.missing:
            del self._waiting[link, answer.opaque]
        names = " or ".join(sorted({sent.name for sent in waiting.requests}))
        self._look_for_canary(answer, names, may=any(sent.may_see_all for sent in waiting.requests))
        forbidden = [sent for sent in waiting.requests if sent.forbidden is not None]
        if self.is_refusal(answer):
            self.refused[names] += 1
        elif len(forbidden) < len(waiting.requests):
            self.let_in[names] += 1
        else:
            last = forbidden[-1]
            told = f"{last.forbidden}, and was answered {answer.code}: {answer.remark!r:.200}"
            self._tell(f"{told}; it is {last.frame!r}")

    def sender(self, asked: Read) -> Member | None:
        """Return the account that signed a request rightly."""
        member = self.party.members.get(asked.fields.get("AccessKey", ""))
        given = asked.fields.get("Signature", "")
        if member is None or not any(
            signature(member.secret, asked.fields, asked.body, left_out) == given for left_out in _LEFT_OUT
        ):
            return None
        return member

    def forbids(self, asked: Read) -> str | None:
        """Return why the guard has to refuse a request; None if it must not, or the handler may."""
        rule = rules().get(asked.code, Rule("admin", ()))
        if rule.who == "everybody":
            return None
        member = self.sender(asked)
        what = f"request {asked.code} of {asked.fields.get('AccessKey', '')!r:.60}"
        if member is None:
            return f"{what} is not signed rightly"
        if not member.is_enabled:
            return f"{what} is of a disabled account"
        if rule.who in ("admin", "operator") and not member.is_admin:
            return f"{what} is not of an administrator"
        for kind, name, actions in _needs(rule, asked.fields, is_popped=asked.code in _OF_POPS):
            if not member.has(kind, name, actions):
                return f"{what} lacks {'/'.join(actions)} of {kind}:{name[:60]!r}"
        return None

    def is_refusal(self, answer: RemotingCommand) -> bool:
        """Return whether an answer is a refusal of access control."""
        if self.party.kind is Kind.USERS:
            return answer.code == 16
        return answer.code == 1 and "AclException" in (answer.remark or "")

    def _look_for_secrets(self, answer: RemotingCommand, codes: set[int]) -> None:
        """Look for secrets; what the fuzzer stored itself, as a message for example, may come back from there."""
        shown = _shown(answer)
        may_be_own = self._has_spread and not codes & NEVER_SECRET
        for member in self.party.members.values():
            if member.secret.encode() in shown and not (may_be_own and member.secret == PASSWORD):
                self._tell(f"an answer {answer.code} has the secret of {member.name}: {shown[:300]!r}")

    def _look_for_canary(self, answer: RemotingCommand, name: str, *, may: bool) -> None:
        shown = _shown(answer)
        if self.canary in shown and not may:
            self._tell(f"the protected message was shown to {name} by an answer {answer.code}: {shown[:300]!r}")

    def _tell(self, sentence: str) -> None:
        if len(self.wrong) < 200:
            self.wrong.append(sentence)


def _shown(answer: RemotingCommand) -> bytes:
    """Return all that an answer says."""
    fields = [f"{name}={value}" for name, value in answer.ext_fields.items()]
    return b"\n".join((answer.body, *(text.encode("utf-8", "replace") for text in (answer.remark or "", *fields))))
