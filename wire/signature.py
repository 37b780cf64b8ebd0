"""Signatures of requests (upstream ``AclClientRPCHook`` and ``AclUtils``), for both sides of a connection.

A signature covers the values of all fields, in the order of the fields' names, and then the body. The algorithm is
HMAC-SHA1 with the secret key, written in base64. Names are sorted by UTF-16 code units, as Java sorts. The protocol
does not cover the code, the number and the time of a request, nor where a value ends.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from wire.command import RemotingCommand
from wire.signed_fields import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, UNSIGNED, signed_names, values_of

MAX_SIGNED_FIELDS: Final = 1_000
"""The most fields of a signed request; known requests have thirty at most. More are neither sorted nor summed."""
SIGNATURE_CHARACTERS: Final = 28
"""The characters of 20 bytes in base64; never change."""
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class SigningKey:
    """A secret key, prepared for HMAC-SHA1.

    A copy of two begun hashes takes a third of the time of ``hmac.digest``.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes) -> None:
        if len(secret) > _BLOCK_BYTES:
            secret = hashlib.sha1(secret).digest()  # noqa: S324 - the protocol's algorithm
        block = secret.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha1(block.translate(_INNER))  # noqa: S324
        self._outer = hashlib.sha1(block.translate(_OUTER))  # noqa: S324

    def signature(self, values: bytes, body: bytes) -> bytes:
        """Return the signature of a request.

        :param values: the values of the signed fields, in the order of their names.
        """
        inner = self._inner.copy()
        inner.update(values)
        inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)

    def is_signature(self, given: bytes, values: bytes, body: bytes) -> bool:
        """Return whether ``given`` is the signature of a request; the time does not depend on where it differs."""
        return compare_digest(self.signature(values, body), given)

    def has_signed(self, fields: Mapping[str, str], body: bytes) -> bool:
        """Return whether the field ``Signature`` is a signature of the other fields and the body by this key.

        The fields in ``UNSIGNED`` may be signed or not. A request of more than ``MAX_SIGNED_FIELDS`` is not signed.
        """
        given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
        if len(given) != SIGNATURE_CHARACTERS or len(fields) > MAX_SIGNED_FIELDS:
            return False
        signed = signed_names(fields)
        if self.is_signature(given, values_of(fields, signed), body):
            return True
        for left_out in UNSIGNED:
            if any(name in fields for name in left_out):
                names = [name for name in signed if name not in left_out]
                if self.is_signature(given, values_of(fields, names), body):
                    return True
        return False


class RequestSigner:
    """Signs commands with one pair of keys.

    :param security_token: sent and signed with temporary keys.
    """

    __slots__ = ("_fields", "_key")

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._key = SigningKey(secret_key.encode())
        self._fields = {ACCESS_KEY: access_key}
        if security_token is not None:
            self._fields[SECURITY_TOKEN] = security_token

    def sign(self, command: RemotingCommand) -> None:
        """Put key and signature into the fields of a command; an existing signature is replaced."""
        fields = command.ext_fields
        fields.update(self._fields)
        fields[SIGNATURE] = self._key.signature(values_of(fields, signed_names(fields)), command.body).decode()


def signature(secret: bytes, fields: Mapping[str, str], body: bytes) -> str:
    """Return the signature of all fields (except ``Signature``) and the body."""
    return SigningKey(secret).signature(values_of(fields, signed_names(fields)), body).decode()
