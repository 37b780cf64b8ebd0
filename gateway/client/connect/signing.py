"""Signatures of requests for servers with access control (upstream ``AclClientRPCHook``).

The signature covers the values of all fields, in the order of the fields' names, and then the body. The algorithm is
HMAC-SHA1 with the secret key, written in base64. Names are sorted by UTF-16 code units, as Java sorts. The protocol
does not cover code, number and time.
"""

from __future__ import annotations

import base64
import hmac
from typing import Final

from wire.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field


class RequestSigner:
    """Signs commands with one pair of keys.

    :param security_token: sent and signed with temporary keys.
    """

    __slots__ = ("_fields", "_secret")

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._secret = secret_key.encode()
        self._fields = {ACCESS_KEY: access_key}
        if security_token is not None:
            self._fields[SECURITY_TOKEN] = security_token

    def sign(self, command: RemotingCommand) -> None:
        """Put key and signature into the fields of a command; an existing signature is replaced."""
        fields = command.ext_fields
        fields.update(self._fields)
        fields[SIGNATURE] = signature(self._secret, fields, command.body)


def signature(secret: bytes, fields: dict[str, str], body: bytes) -> str:
    """Return the signature of all fields (except ``Signature``) and the body."""
    names = sorted((name for name in fields if name != SIGNATURE), key=_java_order)
    digest = hmac.new(secret, digestmod="sha1")
    for name in names:
        digest.update(fields[name].encode())
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be")
