"""The accounts of ACL 1.0 and their judgement, as Apache RocketMQ 4.9.8 judges (``PlainPermissionManager``).

A request that 4.9.8 judges by topics and groups is judged here in the same way: the entry of the topic or group, else
the default of the account; an admin passes everything if the account has no entries at all. 4.9.8 lets every account
send the other requests. Here they are judged by their need: what is read about a topic or group is for accounts that
may send to it or receive from it, and everything else is for admins. The default of an account does not count for
messages of the broker's inner topics (``needs_own_name``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.access.model import Ruling, needs_own_name
from gateway.access.plain.addresses import NOTHING, AddressPattern, address_of
from gateway.access.plain.permissions import DENY, WORDS
from gateway.metadata.names import TRACE_TOPIC
from gateway.remoting.declared import Action, Kind, Need
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

SHORTEST_KEY: Final = 7
"""The least number of characters of an access key and of a secret key (upstream: more than 6)."""
MAX_HOSTS: Final = 10_000
"""The number of hosts whose white list entry is remembered; then all are forgotten."""

_MESSAGES = (Action.PUB | Action.SUB).value
_LOOKS = (Action.GET | Action.LIST).value
_SUB, _PUB = Action.SUB.value, Action.PUB.value
_MASKS = {word: actions.value for word, actions in WORDS.items()}
"""The actions that a permission word gives, as bits: heartbeats have thousands of needs, and bits cost less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAccount:
    """One entry of ``accounts``.

    :param entries: the permission word of each topic, and of each group by its retry topic ``%RETRY%group``.
    :param line: the line of the entry in ``file``, from 1.
    """

    name: str
    secret: bytes = field(repr=False)
    is_admin: bool = False
    white: AddressPattern = NOTHING
    default_topic: str = DENY
    default_group: str = DENY
    entries: Mapping[str, str] = field(default_factory=dict)
    file: Path = field(default=Path(), compare=False)
    line: int = field(default=0, compare=False)

    @property
    def is_enabled(self) -> bool:
        """True: ACL 1.0 has no accounts that are switched off."""
        return True

    def judge(self, need: Need, host: str) -> Ruling:  # noqa: ARG002 - of policies of 5.3 and later
        """Decide whether the account has one of the needed actions."""
        if self.is_admin and not self.entries:
            return Ruling(True, "admin: true")
        wanted = need.actions.value & _MESSAGES
        if not wanted or need.kind is Kind.CLUSTER:
            if self.is_admin:
                return Ruling(True, "admin: true")
            if need.kind is Kind.CLUSTER or not need.actions.value & _LOOKS:
                return Ruling(False, "admin: false")
            wanted = _MESSAGES
        if need.kind is Kind.GROUP:
            return self._of_group(need.name, wanted)
        if need.name.startswith(RETRY_TOPIC_PREFIX):
            return self._of_group(need.name.removeprefix(RETRY_TOPIC_PREFIX), _SUB)
        if need.name == TRACE_TOPIC and wanted & _PUB:
            return Ruling(True, f"every account may send to {TRACE_TOPIC}")
        word = self.entries.get(need.name)
        if word is None and needs_own_name(need):
            return Ruling(False, f"no topicPerms entry for {need.name}")
        if word is None:
            return _ruling(wanted, self.default_topic, f"defaultTopicPerm: {self.default_topic}")
        return _ruling(wanted, word, f"topicPerms: {need.name}={word}")

    def _of_group(self, group: str, wanted: int) -> Ruling:
        word = self.entries.get(RETRY_TOPIC_PREFIX + group)
        if word is None:
            return _ruling(wanted, self.default_group, f"defaultGroupPerm: {self.default_group}")
        return _ruling(wanted, word, f"groupPerms: {group}={word}")


def _ruling(wanted: int, word: str, rule: str) -> Ruling:
    return Ruling(bool(wanted & _MASKS[word]), rule)


class PlainAccounts:
    """All accounts and white lists of the files at one time; never changed, so it may be used in every thread."""

    def __init__(self, accounts: Mapping[str, PlainAccount], white: Sequence[AddressPattern]) -> None:
        self.accounts = accounts
        self.white = white
        self._rules: dict[str, str | None] = {}

    def find(self, access_key: str) -> PlainAccount | None:
        """Return the account of an access key, None if there is none."""
        return self.accounts.get(access_key)

    def unsigned(self, host: str, access_key: str | None) -> str | None:
        """Return the white list entry that lets requests from this host pass, None if there is none."""
        rule = self._rules[host] if host in self._rules else self._global_rule(host)
        if rule is not None or access_key is None:
            return rule
        account = self.accounts.get(access_key)
        if account is not None and account.white.text and account.white.matches(address_of(host)):
            return f"whiteRemoteAddress of {account.name}: {account.white.text}"
        return None

    def _global_rule(self, host: str) -> str | None:
        address = address_of(host)
        found = next((pattern.text for pattern in self.white if pattern.matches(address)), None)
        if len(self._rules) >= MAX_HOSTS:
            self._rules.clear()
        rule = self._rules[host] = None if found is None else f"globalWhiteRemoteAddresses: {found}"
        return rule
