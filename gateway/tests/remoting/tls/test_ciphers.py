"""Names of cipher suites."""

from __future__ import annotations

import pytest
from OpenSSL import SSL

from gateway.remoting.tls.ciphers import is_of_tls13, openssl_name

NAMES = [
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
]


@pytest.mark.parametrize(("standard", "openssl"), NAMES)
def test_javas_name_becomes_the_one_that_openssl_knows(standard: str, openssl: str) -> None:
    assert openssl_name(standard) == openssl
    SSL.Context(SSL.TLS_SERVER_METHOD).set_cipher_list(openssl.encode())
    assert not is_of_tls13(standard)


@pytest.mark.parametrize("name", ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
def test_suites_of_tls_13_have_one_name(name: str) -> None:
    assert is_of_tls13(name)
    assert openssl_name(name) == name
