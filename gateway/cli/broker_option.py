"""The option ``--broker`` with those of TLS, for commands that ask a running broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gateway.cli.options import gathered
from gateway.cli.tls_options import TlsOptions, tls_options
from gateway.errors import GatewayError

if TYPE_CHECKING:
    from gateway.cli.broker_call import BrokerCall

DEFAULT_BROKER = "127.0.0.1:10911"


class AskedBroker(NamedTuple):
    """The broker to ask, and how."""

    broker: str = DEFAULT_BROKER
    tls: TlsOptions = TlsOptions()

    @contextmanager
    def calling(self) -> Iterator[BrokerCall]:
        """Connect for the length of a block, with the keys of the environment.

        :raises GatewayError: nobody is reached, or a file of TLS or of the keys cannot be used.
        """
        from gateway.cli.broker_call import BrokerCall
        from gateway.client.connect.credentials import signer_of_environment
        from gateway.client.errors import ConfigurationError
        from gateway.settings.addresses import parse_address

        try:
            address = parse_address(self.broker)
        except ValueError as error:
            raise click.BadParameter(f"{self.broker!r} is not one HOST:PORT", param_hint="--broker") from error
        try:
            signer = signer_of_environment()
        except ConfigurationError as error:
            raise GatewayError(f"{error} (in the environment)", exit_code=2) from error
        with BrokerCall(address, self.tls.context(), signer) as call:
            yield call


def broker_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-b`` and the options of TLS, which the command gets as an ``AskedBroker``."""
    command = tls_options(gathered("broker", AskedBroker)(command))
    return click.option(
        "-b",
        "--broker",
        metavar="HOST:PORT",
        default=DEFAULT_BROKER,
        show_default=True,
        help="The broker's remoting port.",
    )(command)
