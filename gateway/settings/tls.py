"""Settings of TLS on the listening ports, with the names that Apache RocketMQ reads from ``tls.properties``.

The keys may be in that file, in ``broker.conf`` and in every other place of settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.settings.declare import Mark, Range, setting

DEFAULT_FILE = "/etc/rocketmq/tls.properties"
"""The file that Apache RocketMQ reads unless told otherwise; the file need not exist."""
PREFIX = "tls."
"""The prefix of all keys about TLS. An unknown key with this prefix ends the start: it may be a misspelt protection."""
PROTOCOLS = ("TLSv1.2", "TLSv1.3")


class TlsMode(StrEnum):
    """The protocols that the ports speak."""

    DISABLED = "disabled"
    """Plain connections only."""
    PERMISSIVE = "permissive"
    """Both: the first byte of a connection decides."""
    ENFORCING = "enforcing"
    """TLS only: the bytes of a plain connection are dropped unread."""


class ClientCertificates(StrEnum):
    """The answer to whether clients have to show a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class OwnCalls(StrEnum):
    """The answer to whether a broker speaks TLS to name servers and other brokers."""

    AUTO = "auto"
    """The choice of upstream's broker: yes, if its own ports speak nothing else."""
    TRUE = "true"
    FALSE = "false"


def protocols_expected(text: str) -> str | None:
    """Return what ``tls.protocols`` expects if ``text`` is wrong, otherwise None."""
    named = names_in(text)
    return None if named and set(named) <= set(PROTOCOLS) else f"{' or '.join(PROTOCOLS)}, or both with a comma"


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ServerTlsSettings:
    """Mode, certificate, and what is asked of clients."""

    tls_mode: TlsMode = setting(
        TlsMode.PERMISSIVE,
        "tls.server.mode",
        "Whether the ports speak TLS: never (disabled), as the client wishes (permissive), always (enforcing).",
    )
    tls_file: str = setting(
        DEFAULT_FILE,
        "tls.config.file",
        "Properties file with the other keys that begin with tls.; the default need not exist.",
    )
    tls_test_mode: bool = setting(
        True,
        "tls.test.mode.enable",
        "Make a self-signed certificate if none is set; false: no start without tls.server.certPath.",
    )
    tls_certificate: str = setting(
        "",
        "tls.server.certPath",
        "PEM file of the server's certificate and those above it; empty: a self-signed one is made.",
    )
    tls_key: str = setting("", "tls.server.keyPath", "PEM file of the certificate's private key, PKCS#1 or PKCS#8.")
    tls_key_password: str = setting(
        "", "tls.server.keyPassword", "Password of an encrypted private key.", marks=Mark.SECRET
    )
    tls_client_certificates: ClientCertificates = setting(
        ClientCertificates.NONE, "tls.server.need.client.auth", "Whether clients show a certificate."
    )
    tls_authorities: str = setting(
        "", "tls.server.trustCertPath", "PEM file of the authorities that sign clients' certificates."
    )
    tls_verify_clients: bool = setting(
        True,
        "tls.server.authClient",
        "Verify the certificates that clients show, against tls.server.trustCertPath; false: accept any.",
    )
    tls_protocols: str = setting(
        ",".join(PROTOCOLS), "tls.protocols", "Versions of TLS, separated by commas.", protocols_expected
    )
    tls_ciphers: str = setting(
        "", "tls.ciphers", "Cipher suites, by Java's or OpenSSL's names, separated by commas; empty: OpenSSL's choice."
    )
    tls_own_calls: OwnCalls = setting(
        OwnCalls.AUTO,
        "tls.enable",
        "Whether the broker speaks TLS to name servers and other brokers; auto: if tls.server.mode=enforcing.",
    )
    tls_trusted_servers: str = setting(
        "",
        "tls.client.trustCertPath",
        "PEM file of the authorities that sign certificates of name servers; empty: any certificate is accepted.",
    )
    tls_verify_servers: bool = setting(
        True,
        "tls.client.authServer",
        "Verify certificates of name servers, if tls.client.trustCertPath is set; false: accept any.",
    )
    tls_own_certificate: str = setting(
        "", "tls.client.certPath", "PEM file of the certificate that the broker shows to name servers."
    )
    tls_own_key: str = setting("", "tls.client.keyPath", "PEM file of that certificate's private key.")
    tls_own_key_password: str = setting(
        "", "tls.client.keyPassword", "Password of that key, if it is encrypted.", marks=Mark.SECRET
    )
    tls_handshake_timeout_ms: int = setting(
        10_000,
        "gateway.tlsHandshakeTimeoutMs",
        "Time for the TLS handshake; then the connection is closed.",
        Range(100, 600_000, "ms"),
        marks=Mark.LIMIT,
    )

    tls_pages_mode: TlsMode = setting(
        TlsMode.DISABLED,
        "gateway.metricsTlsMode",
        "Whether the page of metrics speaks TLS, with the certificate of the other ports: as tls.server.mode.",
    )

    @property
    def calls_with_tls(self) -> bool:
        """True if this process speaks TLS to name servers and other brokers."""
        if self.tls_own_calls is OwnCalls.AUTO:
            return self.tls_mode is TlsMode.ENFORCING
        return self.tls_own_calls is OwnCalls.TRUE
