"""A client that asks for new keys again and again, which no library offers: the records of TLS 1.3 made by hand.

Only for ``TLS_AES_256_GCM_SHA384``. RFC 8446: 4.6.3 (key updates), 5.2 (records), 7.2 and 7.3 (keys).
"""

from __future__ import annotations

import hmac
from hashlib import sha384
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HANDSHAKE, APPLICATION_DATA = 22, 23
PLEASE_ANSWER = b"\x18\x00\x00\x01\x01"
"""The message: an update of the sender's keys, and a request that the receiver updates its own."""


class KeyUpdates:
    """Goes on where a handshake has ended.

    :param key_log: the file to which ``ssl`` wrote the secrets.
    :param sent: the number of records that were sent since.
    """

    def __init__(self, key_log: Path, sent: int = 0) -> None:
        lines = [line.split() for line in key_log.read_text().splitlines()]
        [secret] = [line[2] for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"]
        self._secret = bytes.fromhex(secret)
        self._number = sent

    def record(self, content: bytes, kind: int) -> bytes:
        """The next record."""
        key, nonce = _expanded(self._secret, b"key", 32), _expanded(self._secret, b"iv", 12)
        number = self._number.to_bytes(12, "big")
        self._number += 1
        head = bytes([APPLICATION_DATA, 3, 3]) + (len(content) + 17).to_bytes(2, "big")
        mixed = bytes(a ^ b for a, b in zip(nonce, number, strict=True))
        return head + AESGCM(key).encrypt(mixed, content + bytes([kind]), head)

    def ask(self) -> bytes:
        """Ask for an update of keys, and use new ones from now on."""
        asked = self.record(PLEASE_ANSWER, HANDSHAKE)
        self._secret = _expanded(self._secret, b"traffic upd", 48)
        self._number = 0
        return asked


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label without a context, for one block at most."""
    named = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(named)]) + named + b"\x00" + b"\x01"
    return hmac.digest(secret, info, sha384)[:size]
