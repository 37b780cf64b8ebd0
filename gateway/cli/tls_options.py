"""The options of TLS, the same for every command that connects to a broker or a name server."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gateway.cli.options import gathered

if TYPE_CHECKING:
    import ssl

    from gateway.client import TlsSettings

HINT_PLAIN = "if the server speaks TLS only (tls.server.mode=enforcing), add --tls"
HINT_TLS = "does the server speak TLS there? --no-tls connects in plain"
HINT_TRUST = "--tls-ca FILE names the authorities that sign it; --tls-any accepts any"


class TlsOptions(NamedTuple):
    """The options as they were given; what was not given is as the environment says."""

    tls: bool | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_any: bool = False

    def settings(self) -> bool | TlsSettings:
        """Return the encryption of a client's connections.

        :raises ConfigurationError: a variable of the environment has no meaning.
        """
        from gateway.client.connect.settings import tls_of

        wish = None if self.tls is None else str(self.tls)
        given = {
            "ROCKETMQ_TLS": "true" if wish is None and any(self[1:]) else wish,
            "ROCKETMQ_TLS_CA_FILE": self.tls_ca,
            "ROCKETMQ_TLS_CERT_FILE": self.tls_cert,
            "ROCKETMQ_TLS_KEY_FILE": self.tls_key,
            "ROCKETMQ_TLS_VERIFY": "false" if self.tls_any else None,
        }
        return tls_of({**os.environ, **{name: text for name, text in given.items() if text is not None}})

    def context(self) -> ssl.SSLContext | None:
        """Return what wraps a socket; None for plain connections.

        :raises GatewayError: a file or a variable cannot be used.
        """
        from gateway.client.connect.tls import tls_context
        from gateway.client.errors import ConfigurationError
        from gateway.errors import GatewayError

        try:
            return tls_context(self.settings())
        except ConfigurationError as error:
            raise GatewayError(str(error), exit_code=2) from error


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--tls`` and its kin, which the command gets as the parameter ``tls``."""
    command = gathered("tls", TlsOptions)(command)
    for option in (
        click.option("--tls-any", is_flag=True, help="Accept any certificate. ROCKETMQ_TLS_VERIFY=false"),
        click.option(
            "--tls-key", metavar="FILE", help="Key of that certificate. ROCKETMQ_TLS_KEY_FILE, …_KEY_PASSWORD"
        ),
        click.option("--tls-cert", metavar="FILE", help="The certificate to show. ROCKETMQ_TLS_CERT_FILE"),
        click.option("--tls-ca", metavar="FILE", help="Trusted authorities (default: system). ROCKETMQ_TLS_CA_FILE"),
        click.option("--tls/--no-tls", default=None, help="Encrypt; the next three imply it. ROCKETMQ_TLS=true"),
    ):
        command = option(command)
    return command
