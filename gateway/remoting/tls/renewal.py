"""Renewed certificates: the files are looked at twice a second, and read again when one of them changed.

New connections get what the files have now; open ones go on. Files that do not fit together are normal for a moment,
while one is written after the other: what was read before stays in use, with a warning if they stay so. Upstream:
``FileWatchService``, which misses a new certificate for the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from gateway.errors import SettingsError
from gateway.in_thread import Failed, InThread
from gateway.reactor.interface import TimeSource
from gateway.settings.declare import with_home
from gateway.telemetry.logs import EventLog

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

log = EventLog("tls")

LOOKS_EVERY_S: Final = 0.5
"""The seconds between two looks at the files."""

T = TypeVar("T")
Stamps = tuple[tuple[int, int, int] | None, ...]
"""For each file the time of its last change, its size and its number; None if it is not there."""


class Renewal(Generic[T]):
    """One side of TLS connections as its files have it: read when first needed, and again when the files change.

    Several servers may use one: the files are read once, and a fault is told once.

    :param make: reads the files; in a thread when they changed.
    :param names: of the files; empty ones are no files.
    """

    def __init__(self, make: Callable[[], T], names: Iterable[str], reactor: TimeSource, in_thread: InThread) -> None:
        self._make = make
        self._files = [Path(with_home(name)) for name in names if name]
        self._reactor = reactor
        self._in_thread = in_thread
        self._identity: T | None = None
        self._used = self._tried = self._stamps()  # sees what changes from here on
        self._fault = ""
        self._next: IDelayedCall | None = None
        self._users: set[object] = set()

    def identity(self) -> T:
        """Return what new connections use.

        :raises SettingsError: it is needed for the first time, and a file cannot be used.
        """
        if self._identity is None:
            self._identity = self._make()
        return self._identity

    def start(self, user: object) -> None:
        """Look at the files, if there are any, until each user that started has stopped."""
        self._users.add(user)
        if self._files and self._next is None:
            self._look_later()

    def stop(self, user: object) -> None:
        """Look no more, unless somebody else uses it."""
        self._users.discard(user)
        if self._users:
            return
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None

    def _look_later(self) -> None:
        self._next = self._reactor.callLater(LOOKS_EVERY_S, self._look)

    def _look(self) -> None:
        self._in_thread(self._read, self._came)

    def _came(self, found: T | Failed | None) -> None:
        if self._next is None:  # stopped meanwhile
            return
        if isinstance(found, Failed):
            log.error("files of TLS not looked at", failure=found.error)
        elif found is not None:
            log.info("certificate renewed", file=self._files[0])
            self._identity = found
        self._look_later()

    def _read(self) -> T | None:
        """Return the new identity if the files changed and fit; in a thread."""
        stamps = self._stamps()
        if stamps == self._tried:
            if self._fault:  # they have stayed so
                log.warning("files of TLS changed and cannot be used; the earlier ones stay in use", fault=self._fault)
                self._fault = ""
            return None
        self._tried, self._fault = stamps, ""
        if stamps == self._used:
            return None
        try:
            found = self._make()
        except SettingsError as error:
            self._fault = str(error)
            return None
        self._used = stamps
        return found

    def _stamps(self) -> Stamps:
        return tuple(map(_stamp, self._files))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
