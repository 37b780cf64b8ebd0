"""Common parts of commands that are clients: the name server's address, where to begin, the form of errors."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from gateway.cli.options import gathered
from gateway.cli.tls_options import TlsOptions, tls_options
from gateway.errors import GatewayError

if TYPE_CHECKING:
    from gateway.client import ClientSettings

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
S = TypeVar("S", bound="ClientSettings")
EARLIEST, LATEST = "earliest", "latest"
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Begin(click.ParamType[str | datetime]):
    """The start of reading: ``earliest``, ``latest``, an age (``10m``) or a time (``2026-05-01T12:00:00Z``)."""

    name = "begin"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | datetime:
        """Return ``earliest``, ``latest``, or a time with a zone."""
        if isinstance(value, datetime) or value in (EARLIEST, LATEST):
            return value  # type: ignore[no-any-return]
        age = _AGE.fullmatch(value)
        if age is not None:
            return datetime.now(UTC) - timedelta(seconds=float(age[1]) * _UNIT_S[age[2]])
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not earliest, latest, 10m or 2026-05-01T12:00:00Z", param, ctx)
        return moment if moment.tzinfo is not None else moment.astimezone()


class Servers(NamedTuple):
    """The servers of a client, and how it speaks with them."""

    nameserver: str
    tls: TlsOptions

    def settings(self, kind: type[S], **changes: Any) -> S:
        """Return the settings of a client: from the options, the environment and ``changes``."""
        return kind.from_env(namesrv=self.nameserver, tls=self.tls.settings(), **changes)


def name_servers_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-n``, or ``NAMESRV_ADDR``, and the options of TLS, which the command gets as ``servers``."""
    command = tls_options(gathered("servers", Servers)(command))
    return click.option(
        "-n",
        "--nameserver",
        metavar="ADDR",
        envvar="NAMESRV_ADDR",
        default=DEFAULT_NAME_SERVER,
        show_default=True,
        help="Name servers: host:port, several separated by ';'.",
    )(command)


@contextmanager
def client_errors() -> Iterator[None]:
    """Turn a client's errors into one line and an exit code: 2 for mistakes of the user, otherwise 1.

    Each kind of warning from the client is shown once, without advice to programmers.
    """
    from gateway.client.default_log import OncePerKind
    from gateway.client.errors import ConfigurationError, MessageRefused, RocketMQError

    logger = logging.getLogger("gateway.client")
    handlers, shown = logger.handlers, OncePerKind(hint="")
    shown.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.handlers = [shown]
    try:
        yield
    except RocketMQError as error:
        is_users = isinstance(error, ConfigurationError | MessageRefused)
        raise GatewayError(str(error), exit_code=2 if is_users else 1) from error
    finally:
        logger.handlers = handlers


def shows_progress() -> bool:
    """Return whether progress lines on standard error disturb nobody.

    True if standard error is a terminal and the messages go elsewhere.
    """
    return sys.stderr.isatty() and not sys.stdout.isatty()
