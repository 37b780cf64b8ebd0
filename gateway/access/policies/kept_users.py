"""The users of a server: in memory for every request, and in one JSON file that people and requests change.

The file is looked at twice a second, so a change by hand is used within a second; a file that cannot be used changes
nothing. A change by a request is on disk before it counts: on a full disk it is refused, and nothing is different. All
work with the file is done in a thread, one work at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.access.policies.edits import AlreadySoError
from gateway.access.policies.resources import is_name
from gateway.access.policies.users import MAX_USERS, User, Users, password_fault
from gateway.access.policies.users_file import Seen, TooLargeError, UsersFile
from gateway.access.private_disk import NameNotOnDiskError, PrivateDisk
from gateway.errors import GatewayError, RequestRefused
from gateway.in_thread import Failed, InThread
from gateway.reactor.interface import TimeSource
from gateway.telemetry.logs import EventLog
from wire.codes import ResponseCode

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

log = EventLog("access")

LOOKS_EVERY_S: Final = 0.5
"""The seconds between two looks at the file."""

Edit = Callable[[Users], Users]
"""A change: returns all users as they are after it, or raises ``RequestRefused``."""
Done = Callable[[Users | Failed], None]


class KeptUsers:
    """The users of one file; implements ``Accounts``. Used on one thread only.

    :param in_thread: runs all work with the file.
    """

    def __init__(self, path: Path, in_thread: InThread, disk: PrivateDisk | None = None) -> None:
        self._file = UsersFile(path, disk)
        self._in_thread = in_thread
        self._seen = Seen(Users())
        self._waiting: list[tuple[Edit, Done]] = []
        self._working = False
        self._next: IDelayedCall | None = None
        self._elsewhere: set[str] = set()
        """Users that others changed in the file, and this process not since.

        A tool sends a change to all brokers, which may have one file: the second one finds it made.
        """

    @property
    def users(self) -> Users:
        """All users as they are now."""
        return self._seen.users

    def find(self, access_key: str) -> User | None:
        """Return the user of a name, None if there is none."""
        return self._seen.users.find(access_key)

    def unsigned(self, host: str, access_key: str | None) -> str | None:  # noqa: ARG002
        """Return None: every request of a user is signed."""
        return None

    def load(self, made: Iterable[User] = ()) -> None:
        """Read the file and wait for it; a missing file has no users.

        :param made: users that are added, and written, if there are none of their names.
        :raises GatewayError: the file cannot be read, or not be written.
        """
        wanted: dict[str, User] = {}
        for user in made:
            wanted.setdefault(user.name, user)
        self._seen = self._readable()
        if wanted.keys() <= self.users.keys():
            return
        try:
            with self._file.alone():
                self._add(wanted)
        except (OSError, NameNotOnDiskError, TooLargeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise GatewayError(f"users cannot be written to {self._file.path}: {reason}") from error

    def _readable(self) -> Seen:
        seen = self._file.read(self._seen)
        if seen.fault:
            raise GatewayError(f"users cannot be read: {seen.fault}; repair the file")
        return seen

    def _add(self, wanted: Mapping[str, User]) -> None:
        """Add users, unless another process that starts as well has made them."""
        seen = self._readable()
        added = [user for name, user in wanted.items() if name not in seen.users]
        for user in added:
            fault = password_fault(user.password) or (None if is_name(user.name) else "this is no name of a user")
            if fault is not None:
                raise GatewayError(f"user {user.name[:64]!r} cannot be added to {self._file.path}: {fault}")
        if added:
            seen = self._file.write(Users({**seen.users, **{user.name: user for user in added}}))
            self._file.disk.sync_names()
        self._seen = seen
        for user in added:
            log.info("user added", user=user.name, type=user.type, file=self._file.path)

    def start(self, reactor: TimeSource) -> None:
        """Look at the file from now on."""
        self._next = reactor.callLater(LOOKS_EVERY_S, self._look, reactor)

    def stop(self) -> None:
        """Look no more."""
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None

    def change(self, edit: Edit, done: Done) -> None:
        """Change the users; ``done`` gets all users when they are on disk, or the reason why nothing changed.

        With ``NameNotOnDiskError`` the change is in force.
        Changes that come while others are written share the next write.
        """
        self._waiting.append((edit, done))
        self._work()

    def _look(self, reactor: TimeSource) -> None:
        if not self._working:
            self._working = True
            before = self._seen
            self._in_thread(lambda: self._look_now(before), self._looked)
        self.start(reactor)

    def _looked(self, seen: Seen | Failed) -> None:
        self._working = False
        if isinstance(seen, Failed):
            log.error("file of users not looked at", file=self._file.path, failure=seen.error)
        else:
            self._seen = seen
        self._work()

    def _work(self) -> None:
        """Begin to make the changes that wait, unless a work is under way."""
        if self._working or not self._waiting:
            return
        self._working = True
        changes, self._waiting = self._waiting, []
        before = self._seen

        def changed(result: tuple[Seen, list[Users | Failed]] | Failed) -> None:
            self._working = False
            outcomes: list[Users | Failed] = [result] * len(changes) if isinstance(result, Failed) else result[1]
            if not isinstance(result, Failed):
                self._seen = result[0]
            for (_, done), outcome in zip(changes, outcomes, strict=True):
                done(outcome)
            self._work()

        self._in_thread(lambda: self._changed(before, [edit for edit, _ in changes]), changed)

    # -- in a thread ----------------------------------------------------------------------------------------

    def _look_now(self, before: Seen) -> Seen:
        self._file.disk.try_names_again()
        return self._read(before)

    def _read(self, before: Seen) -> Seen:
        """Read the file, and note whom others have changed."""
        seen = self._file.read(before)
        if seen.users is not before.users:
            self._elsewhere |= before.users.differing(seen.users)
            if len(self._elsewhere) > MAX_USERS:
                self._elsewhere.clear()
        return seen

    def _changed(self, before: Seen, edits: list[Edit]) -> tuple[Seen, list[Users | Failed]]:
        """Make changes one after the other and write them at once, after what others changed meanwhile."""
        try:
            with self._file.alone():
                return self._changed_alone(before, edits)
        except OSError as error:
            log.error("users not written", file=self._file.path, reason=str(error))
            refused = _refused(f"nothing is changed: the file of users cannot be locked ({error.strerror or error})")
            return before, [Failed(refused)] * len(edits)

    def _changed_alone(self, before: Seen, edits: list[Edit]) -> tuple[Seen, list[Users | Failed]]:
        seen = self._read(before)
        if seen.fault:
            refused = _refused(f"nothing is changed while the file of users cannot be used: {seen.fault}")
            return seen, [Failed(refused)] * len(edits)
        users, outcomes, elsewhere = seen.users, list[Users | Failed](), set(self._elsewhere)
        for edit in edits:
            try:
                users = edit(users)
                outcomes.append(users)
            except AlreadySoError as error:
                outcomes.append(users if error.user in self._elsewhere else Failed(error))
                self._elsewhere.discard(error.user)
            except RequestRefused as error:
                outcomes.append(Failed(error))
        written = seen
        try:
            if users is not seen.users:
                written = self._file.write(users)
            self._file.disk.sync_names()
        except NameNotOnDiskError as error:
            log.error("users changed, and the name of their file is not on disk", file=self._file.path, reason=error)
            outcomes = [outcome if isinstance(outcome, Failed) else Failed(error) for outcome in outcomes]
        except TooLargeError as error:
            if len(edits) == 1:
                return seen, [Failed(_refused(f"nothing is changed: {error}"))]
            self._elsewhere = elsewhere
            return self._changed_one_by_one(seen, edits)
        except OSError as error:
            log.error("users not written", file=self._file.path, reason=str(error))
            refused = _refused(f"nothing is changed: the file of users cannot be written ({error.strerror or error})")
            return seen, [Failed(refused)] * len(edits)
        self._elsewhere -= seen.users.differing(users)
        return written, outcomes

    def _changed_one_by_one(self, seen: Seen, edits: list[Edit]) -> tuple[Seen, list[Users | Failed]]:
        """Write each change by itself, so that one that makes the file too large refuses no other."""
        outcomes: list[Users | Failed] = []
        for edit in edits:
            seen, (outcome,) = self._changed_alone(seen, [edit])
            outcomes.append(outcome)
        return seen, outcomes


def _refused(text: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, text)
