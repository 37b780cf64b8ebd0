"""The options that set settings, the same for every command that has them.

An option is only another way to write ``--set KEY=VALUE``: its text goes through the declaration of the setting. So
an error reads the same wherever a value was written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from gateway.settings.files.load import Loaded, Role

Command = Callable[..., Any]

OPTIONS: Mapping[str, tuple[str, str, str]] = {
    "--data": ("storePathRootDir", "DIR", "Directory of everything that is kept (default: ~/store)."),
    "--port": ("listenPort", "PORT", "Port to listen on (broker 10911, name server 9876; 0: a free one)."),
    "--nameserver-port": ("gateway.nameserverPort", "PORT", "Port of the name server (default: 9876; 0: a free one)."),
    "--nameserver": ("namesrvAddr", "ADDR", "Name servers to register with: host:port, several separated by ';'."),
    "--advertise": (
        "gateway.advertise",
        "ADDR",
        "Where clients find the broker: auto (where they reached the name server), HOST or HOST:PORT.",
    ),
    "--bind": (
        "bindAddress",
        "IP",
        "Address to listen on (default: 127.0.0.1, this machine only; 0.0.0.0: every network).",
    ),
    "--log-level": ("gateway.logLevel", "LEVEL", "debug, info, warning or error (default: info)."),
}
"""The setting behind each dedicated option, the name of its value, and its help."""
_SHORT = {"--nameserver": ("-n",)}
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def gathered(parameter: str, kind: Callable[..., object]) -> Callable[[Command], Command]:
    """Pass the options named like ``kind``'s parameters to a command as one value.

    The decorator stands below the options, next to the command.

    :param parameter: the command's parameter that gets the result of ``kind``.
    """
    names = tuple(signature(kind).parameters)

    def add(command: Command) -> Command:
        @wraps(command)
        def with_value(*args: Any, **given: Any) -> Any:
            value = kind(**{name: given.pop(name) for name in names})
            return command(*args, **{parameter: value}, **given)

        return with_value

    return add


class Sources(NamedTuple):
    """The places of settings that the command line names."""

    config_file: Path | None = None
    assignments: tuple[str, ...] = ()


def settings_sources(*, set_help: str, config_help: str) -> Callable[[Command], Command]:
    """Add ``-c`` and ``--set``, which the command gets as the parameter ``sources``."""

    def add(command: Command) -> Command:
        command = gathered("sources", Sources)(command)
        command = click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help=set_help)(command)
        path = click.Path(path_type=Path)
        return click.option("-c", "--config", "config_file", metavar="FILE", type=path, help=config_help)(command)

    return add


def settings_options(*dedicated: str) -> Callable[[Command], Command]:
    """Add ``-c``, ``--set``, ``--data``, ``--bind``, ``--log-level`` and the ``dedicated`` options."""

    def add(command: Command) -> Command:
        for name in reversed((*dedicated, "--data", "--bind", "--log-level")):
            _, metavar, text = OPTIONS[name]
            command = click.option(*_SHORT.get(name, ()), name, metavar=metavar, help=text)(command)
        return settings_sources(
            set_help="Set any setting, e.g. --set flushDiskType=ASYNC_FLUSH; may be repeated.",
            config_help="A broker.conf with Apache RocketMQ's keys and units.",
        )(command)

    return add


def load_options(role: Role, sources: Sources, **options: str | None) -> Loaded:
    """Return the settings from all sources.

    :param options: the dedicated options by click's parameter name.
    """
    from gateway.settings.files.load import Role, load_settings
    from gateway.settings.files.written import WrittenSetting

    entries = []
    for parameter, text in options.items():
        name = "--" + parameter.replace("_", "-")
        if text is not None:
            is_name_servers = role is Role.NAMESERVER and name == "--port"
            key, *_ = OPTIONS["--nameserver-port" if is_name_servers else name]
            entries.append(WrittenSetting(key, text, name))
    return load_settings(
        role,
        config_file=sources.config_file,
        environment=os.environ,
        assignments=sources.assignments,
        options=entries,
    )
