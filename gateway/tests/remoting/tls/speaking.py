"""Peers that speak TLS with the standard library's ``ssl``, and certificates that tests make for themselves."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch, Request
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame

CODE = RequestCode.GET_CONSUMER_LIST_BY_GROUP
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def echoing() -> tuple[Dispatch, list[bytes]]:
    """A dispatch that answers with the body of the request, and the bodies that it was given."""
    dispatch = Dispatch()
    seen: list[bytes] = []

    def echo(received: Request) -> None:
        seen.append(received.command.body)
        received.answer(ResponseCode.SUCCESS, body=received.command.body)

    dispatch.answers_directly(CODE, echo, EVERYBODY)
    return dispatch, seen


def trusting(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """A client that accepts any certificate, like stock clients."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


class TlsPeer:
    """The far end of a TLS connection to a server on a memory reactor."""

    def __init__(self, peer: Peer, context: ssl.SSLContext) -> None:
        self.peer = peer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._connection = Connection()
        self._opaque = 0

    def made(self) -> bytes:
        """Return the bytes that this side wants to send."""
        return self._outgoing.read()

    def take(self) -> None:
        """Read what the server wrote."""
        for written in self.peer.transport.writes:
            self._incoming.write(written)
        self.peer.transport.writes.clear()

    def handshake(self) -> TlsPeer:
        """Go on until both sides are done."""
        for _ in range(6):
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.pump()
            else:
                self.pump()
                return self
        raise AssertionError("the handshake does not end")

    def pump(self) -> None:
        """Let what was made arrive, and read what comes back."""
        if data := self.made():
            self.peer.send_bytes(data)
        self.take()

    def sealed(self, *bodies: bytes) -> bytes:
        """Requests with these bodies, encrypted, without sending them."""
        for body in bodies:
            self._opaque += 1
            self.tls.write(build_frame(RemotingCommand(CODE, opaque=self._opaque, body=body)))
        return self.made()

    def send(self, *bodies: bytes) -> None:
        """Send requests with these bodies, in one read."""
        self.peer.send_bytes(self.sealed(*bodies))

    def received(self) -> list[bytes]:
        """The bodies of the answers that came since the last call."""
        self.take()
        data = b""
        try:
            while read := self.tls.read(65_536):
                data += read
        except ssl.SSLWantReadError:
            pass
        return [answer.body for answer in self._connection.receive_data(data)]


def encrypted(conversation: Conversation, context: ssl.SSLContext | None = None, host: str = "192.0.2.7") -> TlsPeer:
    """A new connection after its handshake."""
    return TlsPeer(conversation.connect(host), context or trusting()).handshake()


@dataclass(frozen=True)
class Signed:
    """A certificate with its key, and the files of both."""

    certificate: x509.Certificate
    key: Key
    certificate_file: Path
    key_file: Path


@cache
def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, 2_048)


def signed(
    folder: Path,
    name: str,
    *,
    by: Signed | None = None,
    until: int = 9_000,
    password: bytes | None = None,
    pkcs1: bool = False,
    key: Key | None = None,
) -> Signed:
    """A certificate of ``name``, signed by another or by itself; the file has the whole chain.

    :param until: the year of its end.
    """
    if key is None:
        key = _rsa_key() if pkcs1 else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder(
            issuer_name=subject if by is None else by.certificate.subject,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=datetime(2020, 1, 1, tzinfo=UTC),
            not_valid_after=datetime(until, 1, 1, tzinfo=UTC),
        )
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key if by is None else by.key, hashes.SHA256())
    )
    files = folder / f"{name}.crt", folder / f"{name}.key"
    chain = certificate.public_bytes(Encoding.PEM)
    files[0].write_bytes(chain if by is None else chain + by.certificate.public_bytes(Encoding.PEM))
    form = PrivateFormat.TraditionalOpenSSL if pkcs1 else PrivateFormat.PKCS8
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    files[1].write_bytes(key.private_bytes(Encoding.PEM, form, encryption))
    return Signed(certificate, key, *files)


def files_of(identity: Signed) -> dict[str, Any]:
    """The settings that name the files."""
    return {"tls_certificate": str(identity.certificate_file), "tls_key": str(identity.key_file)}


def verifying(authority: Signed, own: Signed | None = None) -> ssl.SSLContext:
    """A client that trusts one authority only, and shows a certificate if it has one."""
    context = ssl.create_default_context(cafile=authority.certificate_file)
    if own is not None:
        context.load_cert_chain(own.certificate_file, own.key_file)
    return context
