"""Certificates and keys: which files work, and what is said of those that do not."""

from __future__ import annotations

import hashlib
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gateway.errors import SettingsError
from gateway.remoting.server import RemotingServer
from gateway.remoting.tls import link
from gateway.remoting.tls.identity import MAX_FILE_BYTES, self_signed
from gateway.settings import RemotingSettings
from gateway.settings.tls import ClientCertificates
from gateway.tests.remoting.conversation import Conversation, memory_reactor
from gateway.tests.remoting.tls.speaking import (
    Signed,
    TlsPeer,
    echoing,
    encrypted,
    files_of,
    signed,
    trusting,
    verifying,
)

REQUIRE, OPTIONAL = ClientCertificates.REQUIRE, ClientCertificates.OPTIONAL


@pytest.fixture
def authority(tmp_path: Path) -> Signed:
    return signed(tmp_path, "authority")


def conversation(**settings: Any) -> Conversation:
    return Conversation(echoing()[0], **settings)


def serves(peer: TlsPeer) -> bool:
    peer.send(b"asked")
    return peer.received() == [b"asked"]


def refused(conversation: Conversation, context: ssl.SSLContext) -> bool:
    """Return whether no request of such a client is answered."""
    peer = TlsPeer(conversation.connect(), context)
    try:
        return not serves(peer.handshake())
    except ssl.SSLError:
        return True


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_self_signed_certificate_serves_both_versions(version: ssl.TLSVersion) -> None:
    peer = encrypted(conversation(), trusting(version))
    assert serves(peer)
    assert peer.tls.version() == version.name.replace("v1_", "v1.")


def test_the_self_signed_certificate_is_like_that_of_the_reference() -> None:
    _, certificate = self_signed()
    assert certificate.subject.rfc4514_string() == "CN=localhost"
    assert certificate.not_valid_after_utc.year == 9999


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_are_refused(version: ssl.TLSVersion) -> None:
    context = trusting(version)
    context.set_ciphers("ALL:@SECLEVEL=0")
    assert refused(conversation(), context)


@pytest.mark.parametrize("password", [None, b"secret"])
@pytest.mark.parametrize("pkcs1", [False, True])
def test_keys_of_both_forms_serve_encrypted_or_not(
    pkcs1: bool, password: bytes | None, tmp_path: Path, authority: Signed
) -> None:
    own = signed(tmp_path, "own", by=authority, pkcs1=pkcs1, password=password)
    assert (b"BEGIN RSA PRIVATE KEY" in own.key_file.read_bytes()) == pkcs1
    secret = {} if password is None else {"tls_key_password": password.decode()}
    assert serves(encrypted(conversation(**files_of(own), **secret), verifying(authority)))


def test_the_whole_chain_is_sent(tmp_path: Path) -> None:
    root = signed(tmp_path, "root")
    middle = signed(tmp_path, "middle", by=root)
    del middle
    own = signed(tmp_path, "own", by=root)
    assert serves(encrypted(conversation(**files_of(own)), verifying(root)))


def test_a_password_for_an_open_key_does_no_harm(tmp_path: Path, authority: Signed) -> None:
    own = signed(tmp_path, "own", by=authority)
    assert serves(encrypted(conversation(**files_of(own), tls_key_password="needless"), verifying(authority)))


def test_an_expired_certificate_is_served_with_a_warning(
    tmp_path: Path, authority: Signed, caplog: pytest.LogCaptureFixture
) -> None:
    old = signed(tmp_path, "old", by=authority, until=2_021)
    with caplog.at_level(logging.WARNING):
        talk = conversation(**files_of(old))
    assert "not valid today" in caplog.messages[0]
    assert serves(encrypted(talk, trusting()))
    assert refused(talk, verifying(authority))


def faults(tmp_path: Path) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Settings that cannot be used, and words of the error: setting, file, fault, advice."""
    own, other = signed(tmp_path, "own"), signed(tmp_path, "other")
    locked = signed(tmp_path, "locked", password=b"secret")
    text, large = tmp_path / "text", tmp_path / "large"
    text.write_text("no certificate")
    large.write_bytes(bytes(MAX_FILE_BYTES + 1))
    gone = str(tmp_path / "gone.pem")
    good = files_of(own)
    small = files_of(signed(tmp_path, "small", key=rsa.generate_private_key(65_537, 1_024)))
    broken = tmp_path / "broken"
    begin, end = (f"-----{word} X509 CRL-----" for word in ("BEGIN", "END"))
    broken.write_text(f"{own.certificate_file.read_text()}{begin}\nAAAA\n{end}\n")
    asked = {"tls_client_certificates": ClientCertificates.REQUIRE}
    return {
        "a small key": (small, ["tls.server.certPath", "small.crt", "key too small", "2,048"]),
        "authorities with a fault": (
            good | asked | {"tls_authorities": str(broken)},
            ["tls.server.trustCertPath", str(broken), "refuses the file"],
        ),
        "no certificate file": (
            good | {"tls_certificate": gone},
            ["tls.server.certPath", gone, "No such file", "name"],
        ),
        "no key file": (good | {"tls_key": gone}, ["tls.server.keyPath", gone, "No such file"]),
        "a folder": (good | {"tls_key": str(tmp_path)}, ["tls.server.keyPath", "Is a directory"]),
        "no PEM": (good | {"tls_certificate": str(text)}, ["tls.server.certPath", "-----BEGIN CERTIFICATE-----"]),
        "no key in it": (good | {"tls_key": str(text)}, ["tls.server.keyPath", "-----BEGIN PRIVATE KEY-----"]),
        "a large file": (good | {"tls_key": str(large)}, ["tls.server.keyPath", "1048576 bytes"]),
        "another key": (good | {"tls_key": str(other.key_file)}, ["tls.server.keyPath", "does not belong", "CN=own"]),
        "no password": (files_of(locked), ["tls.server.keyPath", "encrypted", "tls.server.keyPassword"]),
        "wrong password": (files_of(locked) | {"tls_key_password": "Geheim"}, ["tls.server.keyPassword is not its"]),
        "no authorities": (good | {"tls_authorities": gone}, ["tls.server.trustCertPath", gone, "No such file"]),
        "bad authorities": (good | {"tls_authorities": str(text)}, ["tls.server.trustCertPath", "no certificate"]),
        "an unknown cipher": ({"tls_ciphers": "TLS_MADE_UP"}, ["tls.ciphers", "TLS_MADE_UP", "expected names as in"]),
        "one of two unknown": ({"tls_ciphers": "TLS_AES_128_GCM_SHA256,FOO"}, ["tls.ciphers", "'FOO'"]),
        "no cipher of the protocol": (
            {"tls_ciphers": "TLS_AES_128_GCM_SHA256", "tls_protocols": "TLSv1.2"},
            ["tls.ciphers", "none of them is of TLSv1.2"],
        ),
    }


def test_a_fault_ends_the_start_and_is_named(tmp_path: Path) -> None:
    for name, (settings, words) in faults(tmp_path).items():
        with pytest.raises(SettingsError) as raised:
            RemotingServer(memory_reactor(), echoing()[0], [], RemotingSettings(**settings))
        said = str(raised.value)
        assert [word for word in words if word not in said] == [], (name, said)
        assert "\n" not in said
        assert "Geheim" not in said


def test_ciphers_restrict_the_versions_to_those_that_have_one() -> None:
    talk = conversation(tls_ciphers="TLS_AES_128_GCM_SHA256")
    peer = encrypted(talk, trusting())
    assert peer.tls.cipher() == ("TLS_AES_128_GCM_SHA256", "TLSv1.3", 128)
    assert refused(talk, trusting(ssl.TLSVersion.TLSv1_2))
    talk = conversation(tls_ciphers="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert encrypted(talk, trusting()).tls.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
    assert refused(talk, trusting(ssl.TLSVersion.TLSv1_3))


@pytest.mark.parametrize(
    ("protocols", "refuses"), [("TLSv1.2", ssl.TLSVersion.TLSv1_3), ("TLSv1.3", ssl.TLSVersion.TLSv1_2)]
)
def test_a_version_that_is_not_named_is_refused(protocols: str, refuses: ssl.TLSVersion) -> None:
    talk = conversation(tls_protocols=protocols)
    assert serves(encrypted(talk))
    assert refused(talk, trusting(refuses))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("asked", "verified", "nobody", "stranger", "friend"),
    [
        (ClientCertificates.NONE, True, True, True, True),
        (OPTIONAL, False, True, True, True),
        (OPTIONAL, True, True, False, True),
        (REQUIRE, False, False, True, True),
        (REQUIRE, True, False, False, True),
    ],
)
def test_certificates_of_clients(
    asked: ClientCertificates,
    verified: bool,
    nobody: bool,
    stranger: bool,
    friend: bool,
    version: ssl.TLSVersion,
    tmp_path: Path,
    authority: Signed,
) -> None:
    own = signed(tmp_path, "own", by=authority)
    talk = conversation(
        **files_of(own),
        tls_client_certificates=asked,
        tls_authorities=str(authority.certificate_file),
        tls_verify_clients=verified,
    )

    def is_served(shown: Signed | None) -> bool:
        context = verifying(authority, shown)
        context.minimum_version = context.maximum_version = version
        return not refused(talk, context)

    assert is_served(None) == nobody
    assert is_served(signed(tmp_path, "stranger")) == stranger
    assert is_served(signed(tmp_path, "friend", by=authority)) == friend
    old = signed(tmp_path, "expired", by=authority, until=2_021)
    assert is_served(old) == (stranger or not verified)


def test_a_channel_knows_the_certificate_that_its_peer_showed(tmp_path: Path, authority: Signed) -> None:
    own, friend = signed(tmp_path, "own", by=authority), signed(tmp_path, "friend", by=authority)
    talk = conversation(
        **files_of(own), tls_client_certificates=OPTIONAL, tls_authorities=str(authority.certificate_file)
    )
    assert talk.connect().channel.peer_print is None
    assert encrypted(talk, verifying(authority)).peer.channel.peer_print == b""
    shown = encrypted(talk, verifying(authority, friend)).peer.channel.peer_print
    assert shown == friend.certificate.fingerprint(hashes.SHA256())


def changed(one: Signed, before: bytes, after: bytes) -> bytes:
    """Change bytes of a certificate, sign it again and put it into its file; return it as DER."""
    assert isinstance(one.key, ec.EllipticCurvePrivateKey)
    content = one.certificate.tbs_certificate_bytes
    assert before in content
    content = content.replace(before, after)
    signature = one.key.sign(content, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    content += algorithm + bytes([3, len(signature) + 1, 0]) + signature
    der = b"\x30\x82" + len(content).to_bytes(2, "big") + content
    one.certificate_file.write_text(ssl.DER_cert_to_PEM_cert(der))
    return der


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x08"), (b"\x0c\x03odd", b"\x13\x03\xff\xfe\xfd")],
    ids=["of another version", "a name in no encoding"],
)
def test_a_certificate_that_only_openssl_can_read_has_a_print_and_no_name(
    before: bytes, after: bytes, tmp_path: Path, authority: Signed, caplog: pytest.LogCaptureFixture
) -> None:
    talk = conversation(
        **files_of(signed(tmp_path, "own", by=authority)), tls_client_certificates=OPTIONAL, tls_verify_clients=False
    )
    odd = signed(tmp_path, "odd")
    der = changed(odd, before, after)
    with caplog.at_level(logging.DEBUG):
        peer = encrypted(talk, verifying(authority, odd))
    assert serves(peer)
    assert peer.peer.channel.peer_print == hashlib.sha256(der).digest()
    facts = [vars(record)["facts"] for record in caplog.records if record.message == "TLS connection"]
    assert [each["certificate"] for each in facts] == ["a name that cannot be read"]


def test_the_name_in_a_certificate_is_read_for_debug_lines_only(
    authority: Signed, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = conversation(**files_of(signed(tmp_path, "own", by=authority)))
    read: list[object] = []
    monkeypatch.setattr(link, "_name_of", read.append)
    with caplog.at_level(logging.INFO):
        encrypted(talk, verifying(authority))
    assert read == []
    with caplog.at_level(logging.DEBUG):
        encrypted(talk, verifying(authority))
    assert len(read) == 1
