"""Cipher suites by the names of both worlds: Java's (``tls.ciphers`` of Apache RocketMQ) and OpenSSL's.

Java's names are those of the standard. OpenSSL has them for TLS 1.3; for TLS 1.2 it has names of its own.
"""

from __future__ import annotations

BEGIN, BETWEEN = "TLS_", "_WITH_"


def is_of_tls13(name: str) -> bool:
    """Return whether a suite belongs to TLS 1.3: its name has no exchange of keys."""
    return name.startswith(BEGIN) and BETWEEN not in name


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite: ``ECDHE-RSA-AES128-GCM-SHA256``; a name that is no standard one stays."""
    exchange, between, cipher = name.removeprefix(BEGIN).partition(BETWEEN)
    if not name.startswith(BEGIN) or not between:
        return name
    if cipher.startswith("CHACHA20_POLY1305"):
        cipher = "CHACHA20_POLY1305"  # OpenSSL leaves its hash out
    cipher = cipher.replace("AES_", "AES").replace("_CBC_", "_").replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"
