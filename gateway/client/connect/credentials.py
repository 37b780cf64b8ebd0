"""The pair of keys that signs requests, and the files that hold one.

    AccessKey=shop
    SecretKey=keep it secret

That is the file ``~/key`` of the Java client, upstream ``SessionCredentials``. Names may also be written as
``accessKey`` or ``access_key``, and with a colon, as in Apache's ``conf/tools.yml``. Blank lines and lines that begin
with ``#`` count for nothing; further names are read over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.client.errors import ConfigurationError
from wire.signature import RequestSigner

if TYPE_CHECKING:
    from gateway.client.connect.settings import ClientSettings

_NAMES: Final = {"accesskey": "access_key", "secretkey": "secret_key", "securitytoken": "security_token"}
_LONGEST: Final = 65_536


@dataclass(frozen=True, slots=True)
class Credentials:
    """One pair of keys; ``repr`` shows no secret."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def signer(self) -> RequestSigner:
        """Return a signer with these keys."""
        return RequestSigner(self.access_key, self.secret_key, self.security_token)


def read_credentials(file: str) -> Credentials:
    """Return the keys in a file; ``~`` is the home directory.

    :raises ConfigurationError: the file cannot be read, or lacks a key. The text has nothing of the file.
    """
    expected = "a readable file with the lines 'AccessKey=…' and 'SecretKey=…'"
    try:
        with Path(file).expanduser().open(encoding="utf-8") as opened:
            lines = opened.read(_LONGEST).splitlines()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise ConfigurationError("credentials_file", file, f"{expected} ({why})") from None
    found = dict(pair for line in lines if (pair := _pair(line)) is not None)
    missing = [name for name in ("access_key", "secret_key") if not found.get(name)]
    if missing:
        limit = f"{expected}; it has no {' and no '.join(missing)}"
        raise ConfigurationError("credentials_file", file, limit)
    return Credentials(found["access_key"], found["secret_key"], found.get("security_token") or None)


def signer_of(settings: ClientSettings) -> RequestSigner | None:
    """Return the signer of a client; None if its settings have no keys.

    :raises ConfigurationError: the file of the keys cannot be used.
    """
    if settings.access_key is not None and settings.secret_key is not None:
        return Credentials(settings.access_key, settings.secret_key, settings.security_token).signer()
    file = settings.credentials_file
    return None if file is None else read_credentials(file).signer()


def signer_of_environment() -> RequestSigner | None:
    """Return the signer with the keys that the environment names; None if it names none.

    :raises ConfigurationError: one key is without the other, or the file of the keys cannot be used.
    """
    from gateway.client.connect.settings import ClientSettings

    return signer_of(ClientSettings.from_env(namesrv="", tls=False))


def _pair(line: str) -> tuple[str, str] | None:
    """Return the setting and its value in a line, None if the line has none of ours."""
    name, equals, value = line.partition("=")
    before, colon, after = line.partition(":")
    is_yaml = bool(colon) and (not equals or len(before) < len(name))
    if is_yaml:
        name, value = before, after
    known = _NAMES.get(name.strip().replace("_", "").lower())
    if known is None:
        return None
    value = value.strip()
    if is_yaml and len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return known, value
