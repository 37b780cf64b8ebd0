"""The place of the users and policies that a command looks at or changes: a running broker, or a file.

``OfBroker`` sends the requests 3001 to 3010. ``OfFile`` makes the same changes in the JSON file of a server; a server
that runs with this file uses them within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from gateway.cli.broker_option import AskedBroker, broker_option
from gateway.cli.options import gathered
from gateway.errors import GatewayError, RequestRefused
from wire.bodies.access import AclInfo, UserInfo
from wire.bodies.declare import JsonObject
from wire.codes import RequestCode
from wire.headers.access import AclRequest, DeleteAclRequest, ListAclsRequest, ListUsersRequest, UserRequest

if TYPE_CHECKING:
    from gateway.access.policies.users import Users
    from gateway.cli.broker_call import BrokerCall

T = TypeVar("T", bound=JsonObject)
R = TypeVar("R")


class Kept(Protocol):
    """Users and policies, wherever they are kept."""

    def users(self, part: str = "") -> list[UserInfo]:
        """Return the users whose names contain a text."""

    def user(self, name: str) -> UserInfo | None:
        """Return a user, None if there is none of the name."""

    def create(self, name: str, wanted: UserInfo) -> None:
        """Make a user."""

    def change(self, name: str, wanted: UserInfo) -> None:
        """Change what ``wanted`` names of a user."""

    def delete(self, name: str) -> None:
        """Delete a user and its policies."""

    def acls(self, user: str = "", resource: str = "") -> list[AclInfo]:
        """Return the policies of users whose names contain a text, with resources that contain another."""

    def acl(self, user: str) -> AclInfo | None:
        """Return the policies of a user, None if it has none."""

    def merge(self, user: str, wanted: AclInfo) -> None:
        """Add entries to a user's policies; each takes the place of those that have its resource."""

    def remove(self, user: str, kind: str | None, resource: str | None) -> None:
        """Delete one entry of a user's policies, or all of them."""


class AccessPlace(NamedTuple):
    """The place that the command line names."""

    broker: AskedBroker = AskedBroker()
    file: Path | None = None

    @contextmanager
    def opened(self) -> Iterator[Kept]:
        """Open the place for the length of a block.

        :raises GatewayError: the broker cannot be reached, or the file cannot be read.
        """
        if self.file is not None:
            yield OfFile(self.file)
            return
        with self.broker.calling() as call:
            yield OfBroker(call)


def place_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-b``, the options of TLS, and ``--file``, which the command gets as its ``AccessPlace``."""
    command = broker_option(gathered("place", AccessPlace)(command))
    return click.option(
        "--file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Instead of a broker: its gateway.accessFile (config/access.json in its store directory).",
    )(command)


class OfBroker:
    """The users and policies of a running broker; each method is one request, and implements ``Kept``."""

    def __init__(self, call: BrokerCall) -> None:
        self._call = call

    def users(self, part: str = "") -> list[UserInfo]:
        """Ask with 3005."""
        return _list(UserInfo, self._call.ask(RequestCode.AUTH_LIST_USER, ListUsersRequest(filter=part or None)))

    def user(self, name: str) -> UserInfo | None:
        """Ask with 3004."""
        body = self._call.ask(RequestCode.AUTH_GET_USER, UserRequest(username=name))
        return UserInfo.parse(body) if body else None

    def create(self, name: str, wanted: UserInfo) -> None:
        """Ask with 3001."""
        self._call.ask(RequestCode.AUTH_CREATE_USER, UserRequest(username=name), wanted.build())

    def change(self, name: str, wanted: UserInfo) -> None:
        """Ask with 3002."""
        self._call.ask(RequestCode.AUTH_UPDATE_USER, UserRequest(username=name), wanted.build())

    def delete(self, name: str) -> None:
        """Ask with 3003."""
        self._call.ask(RequestCode.AUTH_DELETE_USER, UserRequest(username=name))

    def acls(self, user: str = "", resource: str = "") -> list[AclInfo]:
        """Ask with 3010."""
        header = ListAclsRequest(subject_filter=user or None, resource_filter=resource or None)
        return _list(AclInfo, self._call.ask(RequestCode.AUTH_LIST_ACL, header))

    def acl(self, user: str) -> AclInfo | None:
        """Ask with 3009."""
        body = self._call.ask(RequestCode.AUTH_GET_ACL, AclRequest(subject=subject_of(user)))
        return AclInfo.parse(body) if body else None

    def merge(self, user: str, wanted: AclInfo) -> None:
        """Ask with 3007."""
        self._call.ask(RequestCode.AUTH_UPDATE_ACL, AclRequest(subject=subject_of(user)), wanted.build())

    def remove(self, user: str, kind: str | None, resource: str | None) -> None:
        """Ask with 3008."""
        header = DeleteAclRequest(subject=subject_of(user), policy_type=kind, resource=resource)
        self._call.ask(RequestCode.AUTH_DELETE_ACL, header)


class OfFile:
    """The users and policies of a file; implements ``Kept``."""

    def __init__(self, path: Path) -> None:
        from gateway.access.policies.users_file import UsersFile

        self._file = UsersFile(path)

    def users(self, part: str = "") -> list[UserInfo]:
        """Read the file."""
        from gateway.access.policies.edits import user_info

        return [user_info(user, with_password=False) for user in self._users().values() if part in user.name]

    def user(self, name: str) -> UserInfo | None:
        """Read the file."""
        return next((info for info in self.users(name) if info.username == name), None)

    def create(self, name: str, wanted: UserInfo) -> None:
        """Write the file."""
        from gateway.access.policies.edits import create_user

        self._edit(lambda users: create_user(users, name, wanted, by_super=True), makes_file=True)

    def change(self, name: str, wanted: UserInfo) -> None:
        """Write the file."""
        from gateway.access.policies.edits import update_user

        self._edit(lambda users: update_user(users, name, wanted, by_super=True))

    def delete(self, name: str) -> None:
        """Write the file."""
        from gateway.access.policies.edits import delete_user

        self._edit(lambda users: delete_user(users, name, by_super=True))

    def acls(self, user: str = "", resource: str = "") -> list[AclInfo]:
        """Read the file."""
        from gateway.access.policies.edits import acl_info

        found = (acl_info(known, resource) for known in self._users().values() if user in known.name)
        return [info for info in found if info is not None]

    def acl(self, user: str) -> AclInfo | None:
        """Read the file."""
        from gateway.access.policies.edits import acl_of

        return _unless_refused(lambda: acl_of(self._users(), subject_of(user)))

    def merge(self, user: str, wanted: AclInfo) -> None:
        """Write the file."""
        from gateway.access.policies.edits import merge_acl

        self._edit(lambda users: merge_acl(users, subject_of(user), wanted))

    def remove(self, user: str, kind: str | None, resource: str | None) -> None:
        """Write the file."""
        from gateway.access.policies.edits import delete_acl

        self._edit(lambda users: delete_acl(users, subject_of(user), kind, resource))

    def _users(self, *, makes_file: bool = False) -> Users:
        from gateway.access.policies.users import Users
        from gateway.access.policies.users_file import Seen

        if not makes_file and not self._file.path.exists():
            raise GatewayError(f"there is no file {self._file.path}", exit_code=2)
        seen = self._file.read(Seen(Users()))
        if seen.fault:
            raise GatewayError(f"{seen.fault}; rocketmq-gateway access check says more", exit_code=2)
        return seen.users

    def _edit(self, edit: Callable[[Users], Users], *, makes_file: bool = False) -> None:
        self._users(makes_file=makes_file)  # before a lock makes the directory
        try:
            with self._file.alone():
                self._file.write(_unless_refused(lambda: edit(self._users(makes_file=makes_file))))
        except OSError as error:
            reason = error.strerror or error
            raise GatewayError(f"{self._file.path} cannot be written, nothing is changed: {reason}") from error


def with_examples(text: str) -> str:
    r"""Return a command's epilog of one paragraph that keeps its line breaks."""
    return f"\b\nExamples:\n{text}"


def subject_of(user: str) -> str:
    """Return the name of a user as the requests want it."""
    return f"User:{user}"


def _list(kind: type[T], body: bytes) -> list[T]:
    return [kind.from_json(entry) for entry in JsonObject.read_json(body) or ()] if body else []


def _unless_refused(edit: Callable[[], R]) -> R:
    try:
        return edit()
    except RequestRefused as refused:
        raise GatewayError(refused.remark) from refused
