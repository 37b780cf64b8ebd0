"""The texts of refusals, as the tools of both generations know them, and after them what to do.

ACL 1.0 (Apache RocketMQ 4.9.8) answers with code 1 and an ``AclException``, 5.3 and later with code 16.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Final

from gateway.access.model import Ruling, needs_own_name
from gateway.errors import RequestRefused
from gateway.remoting.declared import Action, Kind, Need
from wire.codes import ResponseCode

MAX_NAME: Final = 128
"""The characters of a name that a refusal repeats."""
_ACL_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
_NO_MATCH: Final = "no matched policies"


class Refusals(ABC):
    """The refusals of one generation."""

    @abstractmethod
    def nobody(self) -> RequestRefused:
        """Return the refusal of a request that names no account."""

    @abstractmethod
    def unknown(self, name: str) -> RequestRefused:
        """Return the refusal of an account that does not exist."""

    @abstractmethod
    def disabled(self, name: str) -> RequestRefused:
        """Return the refusal of an account that is switched off."""

    @abstractmethod
    def unsigned(self, name: str) -> RequestRefused:
        """Return the refusal of a wrong or missing signature."""

    @abstractmethod
    def no_admin(self, name: str, code: int, host: str, cluster: str) -> RequestRefused:
        """Return the refusal of a request that only admins may send."""

    @abstractmethod
    def denied(self, name: str, code: int, host: str, need: Need, ruling: Ruling) -> RequestRefused:
        """Return the refusal of a request whose sender lacks a right."""


class PlainRefusals(Refusals):
    """The refusals of ACL 1.0."""

    def nobody(self) -> RequestRefused:
        """Implement ``Refusals.nobody``."""
        return _plain("No accessKey is configured", "give the client an access key and a secret key (AclClientRPCHook)")

    def unknown(self, name: str) -> RequestRefused:
        """Implement ``Refusals.unknown``."""
        return _plain(f"No acl config for {cut(name)}", "add the account to plain_acl.yml or correct the client's key")

    def disabled(self, name: str) -> RequestRefused:
        """Implement ``Refusals.disabled``."""
        return self.unknown(name)

    def unsigned(self, name: str) -> RequestRefused:
        """Implement ``Refusals.unsigned``."""
        return _plain(f"Check signature failed for accessKey={cut(name)}", "the client's secret key is another one")

    def no_admin(self, name: str, code: int, host: str, cluster: str) -> RequestRefused:  # noqa: ARG002 - as declared
        """Implement ``Refusals.no_admin``."""
        return _plain(
            f"Need admin permission for request code={code}, but accessKey={cut(name)} is not",
            "use an account with admin: true",
        )

    def denied(self, name: str, code: int, host: str, need: Need, ruling: Ruling) -> RequestRefused:
        """Implement ``Refusals.denied``."""
        if need.kind is Kind.CLUSTER or not need.actions & (Action.PUB | Action.SUB | Action.GET | Action.LIST):
            return self.no_admin(name, code, host, need.name)
        return _plain(
            f"No default permission for {need.kind.value.lower()}:{cut(need.name)}",
            f"accessKey={cut(name)} needs {words(need.actions)} and has {ruling.rule}",
        )


class UserRefusals(Refusals):
    """The refusals of users of 5.3 and later.

    :param hides_users: True if an unknown or disabled user is answered like a wrong signature.
    """

    def __init__(self, *, hides_users: bool = False) -> None:
        self._hides_users = hides_users

    def nobody(self) -> RequestRefused:
        """Implement ``Refusals.nobody``."""
        return _user("username cannot be null. Give the client an access key and a secret key (AclClientRPCHook)")

    def unknown(self, name: str) -> RequestRefused:
        """Implement ``Refusals.unknown``."""
        if self._hides_users:
            return self.unsigned(name)
        return _user(f"User:{cut(name)} is not found. Create the user (mqadmin createUser) or correct the client's key")

    def disabled(self, name: str) -> RequestRefused:
        """Implement ``Refusals.disabled``."""
        if self._hides_users:
            return self.unsigned(name)
        return _user(f"User:{cut(name)} is disabled. Enable the user (mqadmin updateUser -s enable)")

    def unsigned(self, name: str) -> RequestRefused:  # noqa: ARG002 - as declared
        """Implement ``Refusals.unsigned``."""
        advice = "The user or the password is another one" if self._hides_users else "The password is another one"
        return _user(f"check signature failed. {advice}")

    def no_admin(self, name: str, code: int, host: str, cluster: str) -> RequestRefused:
        """Implement ``Refusals.no_admin``."""
        return _user(
            f"User:{cut(name)} has no permission to access Cluster:{cluster} from {host}, {_NO_MATCH}. "
            f"Request code {code} is for users of type Super"
        )

    def denied(self, name: str, code: int, host: str, need: Need, ruling: Ruling) -> RequestRefused:  # noqa: ARG002 - as declared
        """Implement ``Refusals.denied``."""
        matched = ruling.rule != _NO_MATCH
        reason = "the decision is deny" if matched else _NO_MATCH
        advice = f"decided by {ruling.rule}" if matched else "grant it (mqadmin createAcl or updateAcl)"
        if needs_own_name(need):
            advice += ", by the topic's own name: messages of all topics wait there"
        return _user(
            f"User:{cut(name)} has no permission to access {need.kind.value}:{cut(need.name)} from {host}, {reason}. "
            f"{words(need.actions)} is needed; {advice}"
        )


@cache
def words(actions: Action) -> str:
    """Return actions as people read them: ``Pub``, or ``Sub or Get`` if one is enough."""
    return " or ".join(str(action.name).title() for action in actions)


def cut(name: str) -> str:
    """Return as much of a peer's text as an answer or a log line repeats."""
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"


def _plain(text: str, advice: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"{_ACL_EXCEPTION}{text}, {advice}")


def _user(text: str) -> RequestRefused:
    return RequestRefused(ResponseCode.NO_PERMISSION, text)
