import ssl
from pathlib import Path

import pytest

from gateway.client.connect.settings import TlsSettings
from gateway.client.connect.tls import tls_context
from gateway.client.errors import ConfigurationError


def test_plain_connections_have_no_context() -> None:
    assert tls_context(False) is None


def test_certificates_are_verified_unless_told_otherwise() -> None:
    context = tls_context(True)
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.check_hostname, "brokers are reached by address"


def test_any_certificate_can_be_taken() -> None:
    context = tls_context(TlsSettings(verify=False, check_host_name=True))
    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE


def test_host_names_can_be_checked() -> None:
    context = tls_context(TlsSettings(check_host_name=True))
    assert context is not None
    assert context.check_hostname


def test_a_context_of_the_application_is_taken_as_it_is() -> None:
    own = ssl.create_default_context()
    assert tls_context(own) is own


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(ConfigurationError, match="PEM"):
        tls_context(TlsSettings(ca_file=str(tmp_path / "missing.pem")))
    with pytest.raises(ConfigurationError, match="PEM"):
        tls_context(TlsSettings(cert_file=str(empty)))


@pytest.mark.parametrize("given", ["yes", None, 1, {"ca_file": "ca.pem"}])
def test_what_says_nothing_about_encryption_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="TlsSettings"):
        tls_context(given)  # type: ignore[arg-type]
