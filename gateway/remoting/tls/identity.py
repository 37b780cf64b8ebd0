"""The certificate and key of a server, read from files or made, and the context of its TLS connections.

A file that cannot be used is a SettingsError that names the setting, the file, the fault and what to do. Upstream:
``TlsHelper``, which logs such a fault and serves on without TLS.
"""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from gateway.errors import SettingsError
from gateway.remoting.tls.ciphers import is_of_tls13, openssl_name
from gateway.settings.declare import with_home
from gateway.settings.tls import PROTOCOLS, ClientCertificates, ServerTlsSettings, names_in
from gateway.telemetry.logs import EventLog

log = EventLog("tls")

AUTHORITIES, CIPHERS = "tls.server.trustCertPath", "tls.ciphers"
TRUSTED_SERVERS = "tls.client.trustCertPath"
MAX_FILE_BYTES: Final = 1024 * 1024
"""The size of a file of keys or certificates; the authorities of a whole browser take a quarter of it."""
SESSION_CONTEXT = b"rocketmq-gateway"
_VERSIONS = dict(zip(PROTOCOLS, (SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION), strict=True))
_FOREVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The end of a certificate that never expires (RFC 5280, 4.1.2.5), as upstream's self-signed certificate."""
_EVER = datetime(2020, 1, 1, tzinfo=UTC)


class Pair(NamedTuple):
    """A certificate with its key, as the settings name them, and the begin of their keys."""

    prefix: str
    certificate: str
    key: str
    password: str

    @property
    def certificate_setting(self) -> str:
        """The setting of the certificate's file, with its value."""
        return f"{self.prefix}certPath={self.certificate}"

    @property
    def key_setting(self) -> str:
        """The setting of the key's file, with its value."""
        return f"{self.prefix}keyPath={self.key}"


class Identity:
    """The side of a server in all its TLS connections.

    :raises SettingsError: a setting or one of its files cannot be used.
    """

    def __init__(self, settings: ServerTlsSettings) -> None:
        self._context = _context(SSL.TLS_SERVER_METHOD, settings)
        self._context.set_options(SSL.OP_CIPHER_SERVER_PREFERENCE)
        self._context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        self._context.set_session_id(SESSION_CONTEXT)
        if settings.tls_certificate:
            own = Pair("tls.server.", settings.tls_certificate, settings.tls_key, settings.tls_key_password)
            _present(self._context, own)
        else:
            key, certificate = self_signed()
            self._context.use_certificate(certificate)
            self._context.use_privatekey(key)
        _ask_clients(self._context, settings)

    def connection(self) -> SSL.Connection:
        """Return the server's side of a new connection, which reads and writes bytes in memory."""
        connection = SSL.Connection(self._context)
        connection.set_accept_state()
        return connection


class CallerIdentity:
    """The side of a caller in all its TLS connections to servers.

    :raises SettingsError: a setting or one of its files cannot be used.
    """

    def __init__(self, settings: ServerTlsSettings) -> None:
        self._context = _context(SSL.TLS_CLIENT_METHOD, settings)
        if settings.tls_own_certificate:
            own = Pair("tls.client.", settings.tls_own_certificate, settings.tls_own_key, settings.tls_own_key_password)
            _present(self._context, own)
        if settings.tls_trusted_servers:
            _certificates(f"{TRUSTED_SERVERS}={settings.tls_trusted_servers}", settings.tls_trusted_servers)
            if settings.tls_verify_servers:
                _trust(self._context, TRUSTED_SERVERS, settings.tls_trusted_servers)
                self._context.set_verify(SSL.VERIFY_PEER)

    def connection(self) -> SSL.Connection:
        """Return the caller's side of a new connection, which reads and writes bytes in memory."""
        connection = SSL.Connection(self._context)
        connection.set_connect_state()
        return connection


def self_signed() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a new key and a certificate for this machine, which nobody can verify.

    Upstream makes an RSA key. A key on a curve is made in less than a millisecond, and a handshake with it takes a
    fifth of the time.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    places: list[x509.GeneralName] = [x509.DNSName("localhost")]
    places += [x509.IPAddress(ip_address(text)) for text in ("127.0.0.1", "::1")]
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=_EVER,
        not_valid_after=_FOREVER,
    ).add_extension(x509.SubjectAlternativeName(places), critical=False)
    return key, builder.sign(key, hashes.SHA256())


def _context(method: int, settings: ServerTlsSettings) -> SSL.Context:
    """Return what holds on both sides: protocols, ciphers, and nothing that a peer could use to cost more."""
    context = SSL.Context(method)
    context.set_options(SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    _allow(context, settings)
    return context


def _allow(context: SSL.Context, settings: ServerTlsSettings) -> None:
    """Set the protocols and the ciphers; the names of ciphers restrict the protocols to those that have one."""
    protocols = names_in(settings.tls_protocols)
    ciphers = names_in(settings.tls_ciphers)
    of_13 = [name for name in ciphers if is_of_tls13(name)]
    of_12 = [name for name in ciphers if not is_of_tls13(name)]
    if ciphers:
        for name in ciphers:
            _set_ciphers(context, [name], name)
        protocols = tuple(name for name in protocols if (of_13 if name == PROTOCOLS[1] else of_12))
        if not protocols:
            raise SettingsError(
                f"{CIPHERS}={settings.tls_ciphers}: none of them is of {settings.tls_protocols} (tls.protocols); "
                "TLS 1.3 has TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256"
            )
    for group in (of_12, of_13):
        if group:
            _set_ciphers(context, group, settings.tls_ciphers)
    context.set_min_proto_version(min(_VERSIONS[name] for name in protocols))
    context.set_max_proto_version(max(_VERSIONS[name] for name in protocols))


def _set_ciphers(context: SSL.Context, names: list[str], written: str) -> None:
    """Set suites of one version of TLS."""
    text = ":".join(map(openssl_name, names)).encode()
    try:
        if is_of_tls13(names[0]):
            context.set_tls13_ciphersuites(text)
        else:
            context.set_cipher_list(text)
    except SSL.Error:
        raise SettingsError(
            f"{CIPHERS}: {written!r} is no cipher suite of this OpenSSL; expected names as in Java "
            "(TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) or OpenSSL (ECDHE-RSA-AES128-GCM-SHA256), separated by commas"
        ) from None


def _present(context: SSL.Context, own: Pair) -> None:
    """Use the certificate, those above it, and the key of the settings."""
    first, *others = _certificates(own.certificate_setting, own.certificate)
    key = _private_key(own)
    try:
        context.use_certificate(first)
        for certificate in others:
            context.add_extra_chain_cert(certificate)
    except SSL.Error as error:
        raise SettingsError(
            f"{own.certificate_setting}: OpenSSL refuses the certificate ({reason_of(error)}); a key of RSA has 2,048 "
            "bits at least"
        ) from None
    try:
        context.use_privatekey(key)
        context.check_privatekey()
    except (SSL.Error, TypeError):
        raise SettingsError(
            f"{own.key_setting}: this key does not belong to the first certificate in {own.certificate}"
            f" ({first.subject.rfc4514_string()}); name the key with which the certificate was requested"
        ) from None
    if not first.not_valid_before_utc <= datetime.now(UTC) <= first.not_valid_after_utc:
        log.warning(
            "the certificate is not valid today: peers that verify it end their connections",
            file=own.certificate,
            valid_from=first.not_valid_before_utc.isoformat(),
            valid_until=first.not_valid_after_utc.isoformat(),
        )


def _private_key(own: Pair) -> Any:
    content = _read(own.key_setting, own.key)
    password = own.password.encode() or None
    try:
        try:
            return load_pem_private_key(content, password)
        except TypeError:  # a password for a key that has none is no fault
            if password is None:
                raise
            return load_pem_private_key(content, None)
    except TypeError:
        reason = f"the key is encrypted; set {own.prefix}keyPassword"
    except ValueError:
        reason = (
            f"no private key in PEM form, or {own.prefix}keyPassword is not its password"
            if password is not None
            else "no private key in PEM form; expected a file with -----BEGIN PRIVATE KEY----- or RSA PRIVATE KEY"
        )
    raise SettingsError(f"{own.key_setting}: {reason}")


def _ask_clients(context: SSL.Context, settings: ServerTlsSettings) -> None:
    """Ask clients for a certificate, and verify it if the settings say so."""
    asked = settings.tls_client_certificates
    if settings.tls_authorities:
        _certificates(f"{AUTHORITIES}={settings.tls_authorities}", settings.tls_authorities)
    if asked is ClientCertificates.NONE:
        return
    mode = SSL.VERIFY_PEER
    if asked is ClientCertificates.REQUIRE:
        mode |= SSL.VERIFY_FAIL_IF_NO_PEER_CERT
    if settings.tls_authorities and settings.tls_verify_clients:
        _trust(context, AUTHORITIES, settings.tls_authorities)
        context.set_verify(mode)
    else:
        context.set_verify(mode, lambda *_: True)


def _trust(context: SSL.Context, setting: str, file: str) -> None:
    """Trust the authorities of a file."""
    try:
        context.load_verify_locations(str(_place(file)))
    except SSL.Error as error:
        raise SettingsError(f"{setting}={file}: OpenSSL refuses the file ({reason_of(error)})") from None


def reason_of(error: SSL.Error) -> str:
    """Return OpenSSL's reasons as text."""
    found = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return "; ".join(str(entry[-1]) for entry in found) or type(error).__name__


def _certificates(setting: str, text: str) -> list[x509.Certificate]:
    content = _read(setting, text)
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise SettingsError(
            f"{setting}: no certificate in PEM form; expected a file with -----BEGIN CERTIFICATE-----"
        ) from None


def _place(text: str) -> Path:
    return Path(with_home(text))


def _read(setting: str, text: str) -> bytes:
    path = _place(text)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise SettingsError(
            f"{setting}: cannot read {path.absolute()}: {problem.strerror}; give the user of this process the right "
            "to read it, or name another file"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(f"{setting}: larger than {MAX_FILE_BYTES} bytes, so it is no file of keys")
    return content
