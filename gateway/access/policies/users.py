"""Users: accounts whose rights are policies. A Super user may do everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from gateway.access.model import Ruling
from gateway.access.policies.policy import PolicyEntry, PolicyType, Ranked, judged
from gateway.errors import GatewayError
from gateway.remoting.declared import Need
from gateway.settings.declare import MASK

MAX_USERS = 50_000
MAX_ENTRIES = 100_000
"""The most entries of all users."""
MAX_USER_ENTRIES = 10_000
"""The most entries of one user: they are ranked in one piece when the user is judged for the first time."""
MAX_PASSWORD = 1_024
"""The most characters of a password."""


class UserType(StrEnum):
    """The kinds of users."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    """The states of a user."""

    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True)
class User:
    """A user with its policies; implements ``Account``."""

    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    policies: Mapping[PolicyType, tuple[PolicyEntry, ...]] = field(default_factory=dict)

    @cached_property
    def secret(self) -> bytes:
        """The key of signatures; never shown."""
        return self.password.encode()

    @property
    def is_admin(self) -> bool:
        """True for a Super user."""
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        """True if the user may log in."""
        return self.status is UserStatus.ENABLE

    @property
    def entry_count(self) -> int:
        """The number of entries of both policies."""
        return sum(map(len, self.policies.values()))

    def judge(self, need: Need, host: str) -> Ruling:
        """Decide whether the user has one of the needed actions; a Super user has all of them."""
        if self.type is UserType.SUPER:
            return Ruling(True, "Super user")
        return judged(self._ranked, need, host)

    @cached_property
    def _ranked(self) -> list[Ranked]:
        return [Ranked(kind, self.policies[kind]) for kind in PolicyType if kind in self.policies]

    def with_policies(self, policies: Mapping[PolicyType, tuple[PolicyEntry, ...]]) -> User:
        """Return the user with other policies; a policy without entries is left out."""
        return replace(self, policies={kind: policies[kind] for kind in PolicyType if policies.get(kind)})


def password_fault(password: str) -> str | None:
    """Return what is wrong with a password, None if nothing is."""
    if not password.strip():
        return "password can not be blank"
    if password == MASK:
        return f"{MASK} stands for a password that is not shown (gateway.passwordReaders): give the password"
    return f"the password is longer than {MAX_PASSWORD} characters" if len(password) > MAX_PASSWORD else None


class TooManyError(GatewayError):
    """More users or entries than a server keeps."""


class Users(Mapping[str, User]):
    """All users by name; never changed: ``with_user`` and ``without`` return others."""

    def __init__(self, users: dict[str, User] | None = None, entry_count: int | None = None) -> None:
        self._users = {} if users is None else users
        self._entry_count = sum(map(_counted, self._users.values())) if entry_count is None else entry_count
        if len(self._users) > MAX_USERS:
            raise TooManyError(f"more than {MAX_USERS} users")
        if self._entry_count > MAX_ENTRIES:
            raise TooManyError(f"more than {MAX_ENTRIES} entries of policies")

    def __getitem__(self, name: str) -> User:
        return self._users[name]

    def find(self, name: str) -> User | None:
        """Return the user of a name; quicker than ``get`` of ``Mapping``, and asked for every request."""
        return self._users.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    @property
    def has_administrator(self) -> bool:
        """True if an enabled user is of type Super; nobody else could make one."""
        return any(user.is_admin and user.is_enabled for user in self._users.values())

    def differing(self, others: Users) -> set[str]:
        """Return the names of users that others have in another way, or that only one of both has."""
        mine, theirs = self._users, others._users
        return {name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)}

    def with_user(self, user: User) -> Users:
        """Return all users with this one, in the place of one with its name.

        :raises TooManyError: they would be too many, or their entries.
        """
        before = self._users.get(user.name)
        entry_count = self._entry_count + _counted(user) - (before.entry_count if before else 0)
        return Users({**self._users, user.name: user}, entry_count)

    def without(self, name: str) -> Users:
        """Return all users but the one of this name."""
        users = dict(self._users)
        gone = users.pop(name)
        return Users(users, self._entry_count - gone.entry_count)


def _counted(user: User) -> int:
    """Return the number of a user's entries.

    :raises TooManyError: they are too many.
    """
    if user.entry_count > MAX_USER_ENTRIES:
        raise TooManyError(f"user {user.name} has more than {MAX_USER_ENTRIES} entries of policies")
    return user.entry_count
