"""The keys about TLS where people write them: the file ``tls.properties``, unknown keys, and values that contradict.

A misspelt key about TLS ends the start, because a port that was to be protected would be open. Upstream reads such a
key as absent: ``TlsMode.parse`` takes an unknown word for ``permissive``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gateway.errors import SettingsError
from gateway.settings.declare import declarations, with_home
from gateway.settings.files.apache_keys import apache_keys
from gateway.settings.files.written import WrittenSetting
from gateway.settings.tls import DEFAULT_FILE, PREFIX, ClientCertificates, ServerTlsSettings
from gateway.spelling import nearest

FILE = "tls.config.file"
TEST_MODE, CERTIFICATE, KEY = "tls.test.mode.enable", "tls.server.certPath", "tls.server.keyPath"
OWN_CERTIFICATE, OWN_KEY = "tls.client.certPath", "tls.client.keyPath"
ASK, VERIFY, AUTHORITIES = "tls.server.need.client.auth", "tls.server.authClient", "tls.server.trustCertPath"


def tls_file(entries: Sequence[WrittenSetting]) -> Path | None:
    """Return the file that the entries name, or upstream's default file if it exists.

    :raises SettingsError: the named file does not exist.
    """
    named = [entry for entry in entries if entry.key == FILE]
    path = Path(with_home(named[-1].text.strip()) if named else DEFAULT_FILE)
    if path.is_file():
        return path
    if str(path) != DEFAULT_FILE:
        raise SettingsError(f"{FILE}={path} ({named[-1].source}): there is no such file; write it or leave {FILE} out")
    return None


def check_names(entries: Iterable[WrittenSetting], file: Path | None) -> None:
    """Check that each key about TLS is known, and that the file has no other keys.

    :raises SettingsError: a key is unknown, or out of place.
    """
    for entry in entries:
        if entry.key.startswith(PREFIX):
            if entry.key not in declarations(ServerTlsSettings) and entry.key not in apache_keys():
                known = [key for key in apache_keys() if key.startswith(PREFIX)]
                guess = nearest(entry.key, known)
                advice = f"; did you mean {guess}?" if guess else f"; known are {', '.join(sorted(known))}"
                raise SettingsError(f"{entry.key} ({entry.source}): no such setting of TLS{advice}")
        elif file is not None and entry.source.startswith(f"{file}:"):
            raise SettingsError(
                f"{entry.key} ({entry.source}): this file is for keys that begin with {PREFIX}; move it to broker.conf"
            )


def check_together(settings: ServerTlsSettings, sources: Mapping[str, str]) -> None:
    """Refuse values that contradict each other.

    :raises SettingsError: two values contradict; the text names both, and what to change.
    """

    def refuse(key: str, text: str) -> None:
        raise SettingsError(f"{key} ({sources.get(key, 'default')}): {text}")

    if settings.tls_certificate and not settings.tls_key:
        refuse(CERTIFICATE, f"a certificate needs its private key: set {KEY} too")
    if settings.tls_key and not settings.tls_certificate:
        refuse(KEY, f"a private key needs its certificate: set {CERTIFICATE} too")
    for one, other in ((OWN_CERTIFICATE, OWN_KEY), (OWN_KEY, OWN_CERTIFICATE)):
        values = [getattr(settings, declarations(ServerTlsSettings)[key].attribute) for key in (one, other)]
        if values[0] and not values[1]:
            refuse(one, f"a certificate and its private key go together: set {other} too")
    if not settings.tls_test_mode and not settings.tls_certificate:
        refuse(TEST_MODE, f"false needs a certificate: set {CERTIFICATE} and {KEY}")
    if asks(settings) and settings.tls_verify_clients and not settings.tls_authorities:
        refuse(
            ASK,
            f"{settings.tls_client_certificates} needs the authorities that sign clients' certificates: set "
            f"{AUTHORITIES}, or {VERIFY}=false to accept any certificate, a self-made one too",
        )


def notices(settings: ServerTlsSettings) -> Iterable[str]:
    """Yield warnings about values that protect less than they seem to."""
    if settings.tls_client_certificates is ClientCertificates.REQUIRE and not settings.tls_verify_clients:
        yield f"{VERIFY}=false: any certificate is accepted, a self-made one too, although {ASK}=require"
    if settings.tls_authorities and not asks(settings):
        yield f"{AUTHORITIES}: has no effect, because no client is asked for a certificate; set {ASK}=require"


def asks(settings: ServerTlsSettings) -> bool:
    """Return whether clients are asked for a certificate."""
    return settings.tls_client_certificates is not ClientCertificates.NONE
