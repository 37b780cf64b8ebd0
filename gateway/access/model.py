"""The common ground of both generations of accounts: each account judges needs, and names the rule that decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from gateway.metadata.names import is_inner_topic
from gateway.remoting.declared import Action, Kind, Need

_LOOKS: Final = Action.GET | Action.LIST


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision about one need.

    :param rule: the rule that decided, as people read it: ``topicPerms: orders=PUB``, ``Custom Topic:ord* Deny``.
    """

    allowed: bool
    rule: str


def needs_own_name(need: Need) -> bool:
    """Return whether only a rule with the very name of the topic gives this right, and no rule for many topics.

    Messages of all topics wait in the broker's inner topics: who may read many topics would read there what is denied
    to it elsewhere. Numbers and settings of inner topics are shown as those of others.
    """
    return need.kind is Kind.TOPIC and is_inner_topic(need.name) and bool(need.actions & ~_LOOKS)


class Account(Protocol):
    """One account, as its file or table has it now."""

    @property
    def name(self) -> str:
        """The access key or user name."""

    @property
    def secret(self) -> bytes:
        """The key of signatures; never shown."""

    @property
    def is_admin(self) -> bool:
        """True if the account may send requests that concern the whole cluster."""

    @property
    def is_enabled(self) -> bool:
        """True if the account may be used."""

    def judge(self, need: Need, host: str) -> Ruling:
        """Decide whether the account has one of the needed actions.

        :param host: the address text of the peer, without a port.
        """


class Accounts(Protocol):
    """All accounts of a server; a change replaces what ``find`` returns from then on."""

    def find(self, access_key: str) -> Account | None:
        """Return the account of a name, None if there is none."""

    def unsigned(self, host: str, access_key: str | None) -> str | None:
        """Return the rule that lets requests from this host pass without a signature, None if there is none."""
