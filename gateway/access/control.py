"""Access control of one process: the accounts, the guard of its servers, and the audit file.

The accounts are those of ACL 1.0 (``aclEnable``) or users (``authenticationEnabled``), never both. The servers of the
process share them. Nothing of this is loaded while both settings are off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.access.audit import Audit
from gateway.access.failures import Failures
from gateway.access.guard import Guard, Rules
from gateway.access.policies.kept_users import KeptUsers
from gateway.access.policies.users import User, Users, UserType
from gateway.access.refusals import PlainRefusals, UserRefusals
from gateway.clock import Milliseconds
from gateway.errors import SettingsError
from gateway.in_thread import InThread
from gateway.settings import Settings
from gateway.settings.access import CREDENTIALS_MEMBERS, USER_MEMBERS, codes, credentials
from gateway.telemetry.logs import EventLog

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

    from gateway.access.plain.plain_access import PlainAccess

log = EventLog("access")

AUDIT_EVERY_S: Final = 1.0
"""The seconds between two writes of the audit file."""


class AccessControl:
    """The accounts and the guard of one process; has the interface of a server without a port.

    :raises GatewayError: a file cannot be used, or nobody could ever be let in.
    """

    def __init__(self, settings: Settings, reactor: Any, in_thread: InThread, clock_ms: Milliseconds) -> None:
        self._settings = settings
        self._reactor = reactor
        self._tick: IDelayedCall | None = None
        self.plain: PlainAccess | None = None
        self.users: KeptUsers | None = None
        self.audit = Audit(
            settings.audit_log,
            in_thread,
            max_bytes=settings.audit_file_bytes,
            files=settings.audit_files,
            clock_ms=clock_ms,
        )
        settings.audit_log.parent.mkdir(parents=True, exist_ok=True)
        if settings.acl_enable:
            self.plain = _plain(settings, reactor, in_thread, clock_ms)
        else:
            self.users = _users(settings, in_thread, clock_ms)
        self.guard = Guard(
            self.plain or self.users,  # type: ignore[arg-type]  # one of them is there
            self._rules(),
            Failures(settings.failed_attempts_per_address, clock_ms),
            self.audit.refused,
            self.audit.changed,
        )

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """No address: other servers have the ports."""
        return []

    @property
    def advertised(self) -> Sequence[None]:
        """No address either."""
        return []

    @property
    def file(self) -> Path:
        """The file with the accounts."""
        return self._settings.access_json if self.plain is None else self.plain.main

    async def start(self) -> None:
        """Follow the files of accounts, and write the audit file, from now on."""
        if self.plain is not None:
            self.plain.start()
        if self.users is not None:
            self.users.start(self._reactor)
        self._tick = self._reactor.callLater(AUDIT_EVERY_S, self._write)

    async def stop(self) -> None:
        """Follow no file any more, and write what the audit file lacks."""
        for accounts in (self.plain, self.users):
            if accounts is not None:
                accounts.stop()
        if self._tick is not None and self._tick.active():
            self._tick.cancel()
        self._tick = None
        self.audit.close()

    def tell(self, server: str, ports: Sequence[int]) -> None:
        """Say in the log what is enforced on the ports of a server, and from which file."""
        settings = self._settings
        rights = "signatures and rights" if self.plain or settings.authorization_enabled else "signatures"
        log.info(
            "every request is checked",
            server=server,
            ports=",".join(map(str, ports)),
            checked=rights,
            accounts="ACL 1.0" if self.plain else "users of 5.3",
            file=self.file,
            audit=settings.audit_log,
        )

    def _rules(self) -> Rules:
        settings = self._settings
        cluster = settings.broker_cluster_name
        if self.plain is not None:
            return Rules(refusals=PlainRefusals(), cluster=cluster)
        return Rules(
            refusals=UserRefusals(hides_users=settings.hides_users),
            cluster=cluster,
            judges=settings.authorization_enabled,
            open_codes=settings.open_codes,
            free_codes=codes(settings.authorization_whitelist),
        )

    def _write(self) -> None:
        self.audit.tick()
        self._tick = self._reactor.callLater(AUDIT_EVERY_S, self._write)


def _plain(settings: Settings, reactor: Any, in_thread: InThread, clock_ms: Milliseconds) -> PlainAccess:
    from gateway.access.plain.files import PlainFiles, main_file  # with PyYAML
    from gateway.access.plain.plain_access import PlainAccess

    main = main_file(settings.acl_file, settings.rocketmq_home)
    return PlainAccess(PlainFiles(main, clock_ms), reactor, in_thread)


def _users(settings: Settings, in_thread: InThread, clock_ms: Milliseconds) -> KeptUsers:
    kept = KeptUsers(settings.access_json, in_thread)
    kept.load()
    kept.load(_first_users(settings, clock_ms, kept.users))
    if not kept.users.has_administrator:
        raise SettingsError(
            f"authenticationEnabled=true, and {settings.access_json} has no enabled user of type Super, so nobody "
            'could make others: set initAuthenticationUser={"username": "...", "password": "..."}, or file:PATH of '
            "a file with that"
        )
    return kept


def _first_users(settings: Settings, clock_ms: Milliseconds, known: Users) -> Iterator[User]:
    """Yield the users that are made at start if they are absent."""
    for text, members in (
        (settings.init_authentication_user, USER_MEMBERS),
        (settings.inner_client_authentication_credentials, CREDENTIALS_MEMBERS),
    ):
        found = None
        with suppress(ValueError):  # judged when the setting was read; the file may be gone
            found = credentials(text, members)
        if found is not None:
            yield User(*found, UserType.SUPER)
    if settings.migrate_auth_from_v1_enabled:
        from gateway.access.plain.files import PlainFiles, main_file
        from gateway.access.policies.migration import migrated

        main = main_file(settings.acl_file, settings.rocketmq_home)
        yield from migrated(PlainFiles(main, clock_ms).load(), known)
