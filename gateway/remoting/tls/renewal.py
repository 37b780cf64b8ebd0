"""Renewed certificates: the files are looked at twice a second, and read again when one of them changed.

New connections get the new certificate; open ones go on. Files that do not fit together are normal for a moment, while
one is written after the other: the server goes on with what it has, and warns if they stay so. Upstream:
``FileWatchService``, which misses a new certificate for the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.errors import SettingsError
from gateway.in_thread import Failed, InThread
from gateway.reactor.interface import TimeSource
from gateway.settings.declare import with_home
from gateway.settings.tls import TlsSettings
from gateway.telemetry.logs import EventLog

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

    from gateway.remoting.tls.identity import Identity

log = EventLog("tls")

LOOKS_EVERY_S: Final = 0.5
"""The seconds between two looks at the files."""

Stamps = tuple[tuple[int, int, int] | None, ...]
"""For each file the time of its last change, its size and its number; None if it is not there."""


class Renewal:
    """Looks at the files of one server's identity.

    :param use: called with each new identity.
    """

    def __init__(
        self, settings: TlsSettings, reactor: TimeSource, in_thread: InThread, use: Callable[[Identity], None]
    ) -> None:
        names = (settings.tls_certificate, settings.tls_key, settings.tls_authorities)
        self._files = [Path(with_home(name)) for name in names if name]
        self._settings = settings
        self._reactor = reactor
        self._in_thread = in_thread
        self._use = use
        self._used = self._tried = self._stamps()
        self._fault = ""
        self._next: IDelayedCall | None = None

    def start(self) -> None:
        """Look at the files from now on, if there are any."""
        if self._files:
            self._next = self._reactor.callLater(LOOKS_EVERY_S, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None

    def _look(self) -> None:
        self._in_thread(self._read, self._came)

    def _came(self, found: Identity | Failed | None) -> None:
        if self._next is None:  # stopped meanwhile
            return
        if isinstance(found, Failed):
            log.error("files of TLS not looked at", failure=found.error)
        elif found is not None:
            log.info("certificate renewed", file=self._settings.tls_certificate or self._settings.tls_authorities)
            self._use(found)
        self.start()

    def _read(self) -> Identity | None:
        """Return the new identity if the files changed and fit; in a thread."""
        from gateway.remoting.tls.identity import Identity

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
            found = Identity(self._settings)
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
