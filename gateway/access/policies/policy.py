"""Policies: which of a user's entries decides about a need.

The order is that of Apache RocketMQ 5.5.0. Entries of the Custom policy are looked at first; if none of them fits,
those of the Default policy. An entry fits if its resource covers the needed one, one of its actions is needed, and the
peer's address is one of its sources. Of the entries that fit, the best decides: ``Topic:orders`` before ``Topic:ord*``
before ``Topic:o*`` before ``Topic:*`` before ``*``, and Deny before Allow for the same resource. Without an entry that
fits the answer is no. 5.3.0 to 5.3.3 preferred shorter prefixes, and Allow.

Unlike upstream, messages of an inner topic of the broker are covered only by entries with its name
(``needs_own_name``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from gateway.access.model import Ruling, needs_own_name
from gateway.access.policies.resources import Networks, Pattern, Resource, address_of, network_of, networks_of
from gateway.remoting.declared import Action, Need

W = TypeVar("W", bound=StrEnum)

NO_MATCH = "no matched policies"
"""The rule of a refusal that no entry caused, in upstream's words."""
_UNMATCHED = Ruling(False, NO_MATCH)
EVERY = "All"
ACTIONS = {word.lower(): word for word in (EVERY, *(str(action.name).capitalize() for action in Action))}
"""The words of actions by their form in small letters."""
_MASKS = {str(action.name).capitalize(): action.value for action in Action}
_ALL_ACTIONS = sum(_MASKS.values())
MAX_SOURCES = 256
"""The most source addresses and networks of an entry."""


class PolicyType(StrEnum):
    """The two policies that a user may have."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class PolicyDecision(StrEnum):
    """The decisions of an entry."""

    ALLOW = "Allow"
    DENY = "Deny"


class EntryError(ValueError):
    """An entry that cannot be; the text begins with upstream's words."""


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One entry of a policy.

    :param actions: words of ``ACTIONS``.
    :param sources: addresses and networks from which the entry holds; none: it holds from everywhere.
    """

    resource: Resource
    actions: tuple[str, ...]
    sources: tuple[str, ...]
    decision: PolicyDecision
    _networks: Networks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_networks", networks_of(self.sources))

    @classmethod
    def of(
        cls, resource: str | None, actions: Sequence[str] | None, sources: Sequence[str] | None, decision: str | None
    ) -> PolicyEntry:
        """Return the entry of these texts; words may be in any case.

        :raises EntryError: one of the texts is wrong.
        """
        known = Resource.parse((resource or "").strip())
        if known is None:
            raise EntryError(f"The resource is null. {_quoted(resource)} is not TYPE:NAME, TYPE:PREFIX*, TYPE:* or *")
        decided = word_of(PolicyDecision, decision or "")
        if decided is None:
            raise EntryError(f"The decision is null or illegal. {_quoted(decision)} is not Allow or Deny")
        return cls(known, _actions(actions or ()), _sources(sources or ()), decided)

    @property
    def mask(self) -> int:
        """The actions as the value of their flags."""
        return _ALL_ACTIONS if EVERY in self.actions else sum(map(_MASKS.__getitem__, self.actions))

    def holds_from(self, host: str) -> bool:
        """Return whether the entry holds for a peer with this address."""
        if not self.sources:
            return True
        address = address_of(host)
        if address is None:
            return False
        version, value = address.version, int(address)
        return any(of == version and value >> bits in begins for of, bits, begins in self._networks)

    def __str__(self) -> str:
        sources = f" from {','.join(self.sources)}" if self.sources else ""
        return f"{self.resource} {self.decision} {','.join(self.actions)}{sources}"


_Masked = tuple[int, PolicyEntry]
"""The mask of an entry's actions, and the entry."""


class Ranked:
    """The entries of one policy, found by resource: the cost does not grow with their number."""

    def __init__(self, policy: PolicyType, entries: Sequence[PolicyEntry]) -> None:
        self._policy = policy
        self._literal: dict[tuple[str, str], list[_Masked]] = {}
        self._any: dict[str, list[_Masked]] = {}
        prefixed: dict[tuple[str, int], dict[str, list[_Masked]]] = {}
        for entry in sorted(entries, key=lambda entry: entry.decision is PolicyDecision.ALLOW):
            kind, name, pattern = entry.resource.kind, entry.resource.name, entry.resource.pattern
            if pattern is Pattern.ANY:
                found = self._any.setdefault(kind, [])
            elif pattern is Pattern.LITERAL:
                found = self._literal.setdefault((kind, name), [])
            else:
                found = prefixed.setdefault((kind, len(name)), {}).setdefault(name, [])
            found.append((entry.mask, entry))
        self._prefixed: dict[str, list[tuple[int, dict[str, list[_Masked]]]]] = {}
        """By kind: the lengths of prefixes, the longest first, each with its prefixes."""
        for kind, length in sorted(prefixed, reverse=True):
            self._prefixed.setdefault(kind, []).append((length, prefixed[kind, length]))

    def best(self, need: Need, host: str) -> Ruling | None:
        """Return the ruling of the entry that decides about a need, None if no entry fits."""
        wanted = need.actions.value
        for entries in self._covering(need):
            for mask, entry in entries:
                if mask & wanted and entry.holds_from(host):
                    return Ruling(entry.decision is PolicyDecision.ALLOW, f"{self._policy} {entry}")
        return None

    def _covering(self, need: Need) -> Iterator[Sequence[_Masked]]:
        """Yield the entries of each resource that covers the needed one, best resource first."""
        kind, name = need.kind.value, need.name
        yield self._literal.get((kind, name), ())
        if needs_own_name(need):
            return
        for length, prefixes in self._prefixed.get(kind, ()):
            found = prefixes.get(name[:length])
            if found is not None:
                yield found
        yield self._any.get(kind, ())
        yield self._any.get("", ())


def judged(policies: Sequence[Ranked], need: Need, host: str) -> Ruling:
    """Decide about a need; the first policy with an entry that fits decides."""
    for ranked in policies:
        ruling = ranked.best(need, host)
        if ruling is not None:
            return ruling
    return _UNMATCHED


def word_of(words: type[W], text: str) -> W | None:
    """Return the one of some words that a text is, in any case; None if it is none of them."""
    wanted = text.strip().lower()
    return next((word for word in words if word.lower() == wanted), None)


def _actions(texts: Sequence[str]) -> tuple[str, ...]:
    words = [text.strip() for text in texts if text and text.strip()]
    if not words:
        raise EntryError("The actions is empty. Name at least one of " + ", ".join(ACTIONS.values()))
    for word in words:
        if word.lower() == "any":
            raise EntryError("The actions can not be Any. All stands for every action")
        if word.lower() not in ACTIONS:
            raise EntryError(f"The actions is empty. {_quoted(word)} is none of {', '.join(ACTIONS.values())}")
    return tuple(dict.fromkeys(ACTIONS[word.lower()] for word in words))


def _sources(texts: Sequence[str]) -> tuple[str, ...]:
    if len(texts) > MAX_SOURCES:
        raise EntryError(
            f"The source ip is invalid. An entry has {len(texts)} addresses, at most {MAX_SOURCES} are allowed: "
            "write networks such as 10.0.0.0/8"
        )
    sources = tuple(text.strip() for text in texts)
    for source in sources:
        if not source:
            raise EntryError("The source ip is empty. Leave it out to allow every address")
        if network_of(source) is None:
            raise EntryError(f"The source ip is invalid. {_quoted(source)} is no IP address and no CIDR network")
    return sources


def _quoted(text: str | None) -> str:
    return repr((text or "")[:64])
