"""The accounts of ACL 1.0 in use by one server, which follow their files.

The files are looked at in a thread. A change is used after two looks, so within a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from gateway.access.plain.accounts import PlainAccount, PlainAccounts
from gateway.access.plain.changes import Change
from gateway.access.plain.document import Version
from gateway.access.plain.files import PlainFiles
from gateway.in_thread import Failed, InThread
from gateway.reactor.interface import TimeSource
from gateway.telemetry.logs import EventLog

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

log = EventLog("access")

LOOKS_EVERY_S: Final = 0.4
"""The seconds between two looks at the files."""


class PlainAccess:
    """All accounts of one server; ``find`` and ``unsigned`` are asked for every request.

    :raises SettingsError: a file cannot be used, or there is no account.
    """

    def __init__(self, files: PlainFiles, reactor: TimeSource, in_thread: InThread) -> None:
        self._files = files
        self._reactor = reactor
        self._in_thread = in_thread
        self._next: IDelayedCall | None = None
        self._lock = Lock()
        self.current: PlainAccounts = files.load()
        self._warn()

    @property
    def main(self) -> Path:
        """The file that new accounts are written to."""
        return self._files.main

    def find(self, access_key: str) -> PlainAccount | None:
        """Return the account of an access key, None if there is none."""
        return self.current.find(access_key)

    def unsigned(self, host: str, access_key: str | None) -> str | None:
        """Return the white list entry that lets requests from this host pass, None if there is none."""
        return self.current.unsigned(host, access_key)

    def start(self) -> None:
        """Look at the files from now on."""
        self._next = self._reactor.callLater(LOOKS_EVERY_S, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None

    def change(self, change: Change) -> None:
        """Change a file and use the new accounts from now on; blocks, so it belongs into a thread.

        :raises ValueError: the change is refused.
        :raises OSError: the file cannot be written.
        :raises NameNotOnDiskError: the change is in force, and a power failure may take it back.
        """
        with self._lock:
            self.current = self._files.change(change)
            self._files.disk.sync_names()

    def versions(self) -> Mapping[Path, Version]:
        """Return the version of each file."""
        return self._files.versions()

    def _look(self) -> None:
        self._in_thread(self._follow, self._came)

    def _follow(self) -> None:
        with self._lock:  # a change of another thread must not be followed by what was seen before it
            self._files.disk.try_names_again()
            found = self._files.look()
            if found is not None:
                self.current = found
        if found is not None:
            self._warn()

    def _warn(self) -> None:
        for pattern in self.current.white:
            if pattern.matches_everything:
                log.warning("the white list lets every peer pass without a key", pattern=pattern.text)

    def _came(self, found: Failed | None) -> None:
        if isinstance(found, Failed):
            log.error("files of accounts not looked at", failure=found.error)
        if self._next is not None:  # not stopped meanwhile
            self.start()
