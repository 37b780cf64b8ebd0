"""The TLS context of a client's connections."""

from __future__ import annotations

import ssl

from gateway.client.connect.settings import TlsSettings
from gateway.client.errors import ConfigurationError


def tls_context(tls: bool | TlsSettings | ssl.SSLContext) -> ssl.SSLContext | None:
    """Return the value for asyncio's ``ssl=``, None for plain connections.

    :raises ConfigurationError: a file of the settings cannot be read or used, or ``tls`` has another type.
    """
    if isinstance(tls, ssl.SSLContext):
        return tls
    if tls is False:
        return None
    if tls is not True and not isinstance(tls, TlsSettings):
        raise ConfigurationError("tls", tls, "True, False, TlsSettings(…) or an ssl.SSLContext")
    settings = TlsSettings() if tls is True else tls
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file, settings.key_password)
    except (OSError, ValueError) as error:
        raise ConfigurationError("tls", settings, f"made of readable PEM files: {error}") from error
    context.check_hostname = settings.check_host_name and settings.verify
    if not settings.verify:
        context.verify_mode = ssl.CERT_NONE
    return context
