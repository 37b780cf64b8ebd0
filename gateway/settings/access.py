"""Settings of access control: accounts of ACL 1.0, users and policies of 5.3 and later, and the audit log.

The keys are Apache RocketMQ's. Of its keys about classes only the stock values are accepted
(``files.access_keys``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.settings.declare import Mark, Range, setting, with_home

FROM_FILE = "file:"
"""The prefix of credentials that stand in a file of their own."""
USER_MEMBERS = ("username", "password")
CREDENTIALS_MEMBERS = ("accessKey", "secretKey")


def credentials(text: str, members: tuple[str, str]) -> tuple[str, str] | None:
    """Return the name and the secret of a JSON object with these two members; None for an empty text.

    :param text: the object, or ``file:PATH`` of a file with the object.
    :raises ValueError: there is no such object; the error's text is what was expected and never has a part of ``text``.
    """
    if not text:
        return None
    expected = f'{{"{members[0]}": "...", "{members[1]}": "..."}}, or {FROM_FILE}PATH of a file with that'
    try:
        if text.startswith(FROM_FILE):
            text = _read(text.removeprefix(FROM_FILE), expected)
        found = json.loads(text)
        name, secret = (found[member] for member in members)
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError, KeyError, RecursionError):
        raise ValueError(expected) from None
    if not (isinstance(name, str) and isinstance(secret, str) and name and secret):
        raise ValueError(f"{expected}, both texts that are not empty")
    return name, secret


def _read(path: str, expected: str) -> str:
    try:
        return Path(with_home(path)).read_text("utf-8")
    except OSError as error:
        raise ValueError(f"{expected}; that file cannot be read: {error.strerror}") from None


def codes(text: str) -> frozenset[int]:
    """Return the request codes of a list with commas.

    :raises ValueError: a part is no number.
    """
    parts = [stripped for part in text.split(",") if (stripped := part.strip())]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise ValueError("request codes separated by commas, such as 105,34")
    return frozenset(map(int, parts))


def _expected(read: Callable[[str], object]) -> Callable[[str], str | None]:
    def expected(text: str) -> str | None:
        try:
            read(text)
        except ValueError as error:
            return str(error)
        return None

    return expected


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AccessSettings:
    """The settings that say who may do what, and where refusals are written down."""

    acl_enable: bool = setting(
        False, "aclEnable", "Check the accounts of ACL 1.0 (plain_acl.yml) in every request to the broker's ports."
    )
    rocketmq_home: str = setting(
        "",
        "rocketmqHome",
        "Directory with conf/plain_acl.yml and conf/acl; empty: the directory of the -c file itself.",
    )
    acl_file: str = setting(
        "", "gateway.aclFile", "File of the accounts of ACL 1.0; empty: conf/plain_acl.yml in rocketmqHome."
    )
    authentication_enabled: bool = setting(
        False,
        "authenticationEnabled",
        "Check user and signature of every request; users are in gateway.accessFile.",
    )
    authorization_enabled: bool = setting(
        False,
        "authorizationEnabled",
        "Check also what each user may do, with the policies of gateway.accessFile; needs authenticationEnabled.",
    )
    access_file: str = setting(
        "", "gateway.accessFile", "JSON file of users and policies; empty: config/access.json in storePathRootDir."
    )
    init_authentication_user: str = setting(
        "",
        "initAuthenticationUser",
        'Super user made at start if absent: {"username": "...", "password": "..."}, or file:PATH of a file with that.',
        _expected(lambda text: credentials(text, USER_MEMBERS)),
        marks=Mark.SECRET,
    )
    inner_client_authentication_credentials: str = setting(
        "",
        "innerClientAuthenticationCredentials",
        'Keys of the broker\'s own requests: {"accessKey": "...", "secretKey": "..."}, or file:PATH.',
        _expected(lambda text: credentials(text, CREDENTIALS_MEMBERS)),
        marks=Mark.SECRET,
    )
    authentication_whitelist: str = setting(
        "",
        "authenticationWhitelist",
        "Request codes that need no user, separated by commas; with authorizationEnabled only those in both lists.",
        _expected(codes),
    )
    authorization_whitelist: str = setting(
        "", "authorizationWhitelist", "Request codes that every user may send, separated by commas.", _expected(codes)
    )
    password_readers: str = setting(
        "",
        "gateway.passwordReaders",
        "Users that are shown passwords (mqadmin getUser, listUser), separated by commas; others see ******.",
    )
    migrate_auth_from_v1_enabled: bool = setting(
        False, "migrateAuthFromV1Enabled", "Take the accounts of ACL 1.0 over into gateway.accessFile at start."
    )
    hides_users: bool = setting(
        False, "gateway.hidesUsers", "Answer an unknown user with the text of a wrong signature."
    )
    failed_attempts_per_address: int = setting(
        100,
        "gateway.failedAttemptsPerAddress",
        "Requests a minute with a wrong key from one address; after that each one closes its connection.",
        Range(1, 1_000_000),
        marks=Mark.LIMIT,
    )
    audit_file: str = setting(
        "",
        "gateway.auditFile",
        "File of refusals, changes are in audit.changes.jsonl beside it; empty: audit.jsonl in storePathRootDir.",
    )
    audit_file_bytes: int = setting(
        16_777_216,
        "gateway.auditFileBytes",
        "Size at which the audit file is renamed and a new one is begun.",
        Range(65_536, 1_073_741_824, "bytes"),
        marks=Mark.LIMIT,
    )
    audit_files: int = setting(
        8,
        "gateway.auditFiles",
        "Audit files of refusals, and of changes, that are kept; the newest included.",
        Range(1, 1_000),
        marks=Mark.LIMIT,
    )

    @property
    def is_guarded(self) -> bool:
        """True if requests need an account."""
        return self.acl_enable or self.authentication_enabled

    @property
    def open_codes(self) -> frozenset[int]:
        """The request codes that need no user; where rights are judged, only those that need none.

        The rights of a name that nobody has proved are no rights.
        """
        named = codes(self.authentication_whitelist)
        return named & codes(self.authorization_whitelist) if self.authorization_enabled else named
