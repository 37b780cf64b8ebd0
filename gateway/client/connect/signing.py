"""Signatures of requests for servers with access control (upstream ``AclClientRPCHook``).

The values of all fields in the order of their names (by UTF-16 code units, as Java sorts), then the body, as
HMAC-SHA1 with the secret key, in base64. Code, number and time are not covered: that is the protocol.
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

    :param security_token: sent along, and signed, when the keys are temporary ones.
    """

    __slots__ = ("_fields", "_secret")

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._secret = secret_key.encode()
        self._fields = {ACCESS_KEY: access_key}
        if security_token is not None:
            self._fields[SECURITY_TOKEN] = security_token

    def sign(self, command: RemotingCommand) -> None:
        """Put key and signature into the fields of a command; a signature that is there is made anew."""
        fields = command.ext_fields
        fields.update(self._fields)
        fields[SIGNATURE] = signature(self._secret, fields, command.body)


def signature(secret: bytes, fields: dict[str, str], body: bytes) -> str:
    """The signature over fields (but ``Signature``) and body."""
    names = sorted((name for name in fields if name != SIGNATURE), key=_java_order)
    digest = hmac.new(secret, digestmod="sha1")
    for name in names:
        digest.update(fields[name].encode())
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be")
