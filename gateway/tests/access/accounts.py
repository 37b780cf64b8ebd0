"""Accounts for tests, without files: what an account may do is a set of needs."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.access.audit import Told
from gateway.access.failures import Failures
from gateway.access.guard import Guard, Rules
from gateway.access.model import Account, Ruling
from gateway.access.refusals import PlainRefusals, Refusals, UserRefusals
from gateway.remoting.declared import Action, Kind, Need
from wire.command import RemotingCommand
from wire.signature import RequestSigner

CLUSTER = "DefaultCluster"
PLAIN, USERS = PlainRefusals(), UserRefusals()


class FakeAccount:
    """An account that may do what it was told, and nothing that was denied."""

    def __init__(
        self,
        name: str,
        *allowed: Need,
        denied: Iterable[Need] = (),
        is_admin: bool = False,
        is_enabled: bool = True,
    ) -> None:
        self.name = name
        self.secret = f"secret of {name}".encode()
        self.is_admin = is_admin
        self.is_enabled = is_enabled
        self._allowed = allowed
        self._denied = tuple(denied)
        self.needs: list[Need] = []

    def judge(self, need: Need, host: str) -> Ruling:
        """Decide by the lists of needs; a name ``*`` stands for every one."""
        self.needs.append(need)
        if self.is_admin:
            return Ruling(True, "admin")
        for denied in self._denied:
            if _covers(denied, need):
                return Ruling(False, f"Custom {denied.kind.value}:{denied.name} Deny")
        if any(_covers(allowed, need) for allowed in self._allowed):
            return Ruling(True, "Custom Allow")
        return Ruling(False, "no matched policies")

    @property
    def judged(self) -> int:
        """The number of needs that were judged."""
        return len(self.needs)

    def sign(self, command: RemotingCommand) -> RemotingCommand:
        """Sign a command with the account's keys."""
        RequestSigner(self.name, self.secret.decode()).sign(command)
        return command


class FakeAccounts:
    """Accounts by name, and hosts on a white list."""

    def __init__(self, *accounts: Account, white: Iterable[str] = ()) -> None:
        self.accounts: dict[str, Account] = {account.name: account for account in accounts}
        self._white = set(white)

    def find(self, access_key: str) -> Account | None:
        """Return the account of a name."""
        return self.accounts.get(access_key)

    def unsigned(self, host: str, access_key: str | None) -> str | None:
        """Return a rule for the hosts of the white list."""
        return f"white: {host}" if host in self._white else None


def guard_of(
    *accounts: Account,
    white: Iterable[str] = (),
    refusals: Refusals = USERS,
    told: list[Told] | None = None,
    changed: list[Told] | None = None,
    limit: int = 1_000_000,
    judges: bool = True,
    open_codes: Iterable[int] = (),
    free_codes: Iterable[int] = (),
) -> Guard:
    """Make a guard whose clock stands still."""
    rules = Rules(
        refusals=refusals,
        cluster=CLUSTER,
        judges=judges,
        open_codes=frozenset(open_codes),
        free_codes=frozenset(free_codes),
    )
    found = FakeAccounts(*accounts, white=white)
    return Guard(
        found,
        rules,
        Failures(limit, lambda: 0),
        None if told is None else told.append,
        None if changed is None else changed.append,
    )


def everything(kind: Kind | None = None, actions: Action | None = None) -> list[Need]:
    """Return the needs of every resource, or of every one of a kind."""
    return [Need(each, "*", ~Action(0) if actions is None else actions) for each in Kind if kind in (None, each)]


def _covers(rule: Need, need: Need) -> bool:
    return rule.kind is need.kind and rule.name in ("*", need.name) and bool(rule.actions & need.actions)
