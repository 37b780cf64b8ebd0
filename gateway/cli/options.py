"""The options that set settings, the same for every command that has them.

An option is only another way to write ``--set KEY=VALUE``: its text goes through the declaration of the setting. So
an error reads the same wherever a value was written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gateway.cli.gathered import gathered

if TYPE_CHECKING:
    from gateway.settings.files.load import Loaded, Role

Command = Callable[..., Any]

OPTION_KEYS: Mapping[str, str] = {
    "--data": "storePathRootDir",
    "--port": "listenPort",
    "--nameserver-port": "gateway.nameserverPort",
    "--nameserver": "namesrvAddr",
    "--advertise": "gateway.advertise",
    "--bind": "bindAddress",
    "--log-level": "gateway.logLevel",
}
"""The setting behind each dedicated option."""

_OPTIONS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "--data": (("--data",), "DIR", "Directory of everything that is kept (default: ~/store)."),
    "--port": (("--port",), "PORT", "Port to listen on (broker 10911, name server 9876; 0: a free one)."),
    "--nameserver-port": (
        ("--nameserver-port",),
        "PORT",
        "Port of the name server (default: 9876; 0: a free one).",
    ),
    "--nameserver": (
        ("-n", "--nameserver"),
        "ADDR",
        "Name servers to register with: host:port, several separated by ';'.",
    ),
    "--advertise": (
        ("--advertise",),
        "ADDR",
        "Where clients find the broker: auto (where they reached the name server), HOST or HOST:PORT.",
    ),
    "--bind": (
        ("--bind",),
        "IP",
        "Address to listen on (default: 127.0.0.1, this machine only; 0.0.0.0: every network).",
    ),
    "--log-level": (("--log-level",), "LEVEL", "debug, info, warning or error (default: info)."),
}


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
            flags, metavar, text = _OPTIONS[name]
            command = click.option(*flags, metavar=metavar, help=text)(command)
        return settings_sources(
            set_help="Set any setting, e.g. --set flushDiskType=ASYNC_FLUSH; may be repeated.",
            config_help="A broker.conf with Apache RocketMQ's keys and units.",
        )(command)

    return add


def load_options(role: Role, sources: Sources, **options: str | None) -> Loaded:
    """Return the settings from all sources.

    :param options: the dedicated options by click's parameter name.
    """
    from gateway.settings.files.load import Role, WrittenSetting, load_settings

    keys = dict(OPTION_KEYS)
    if role is Role.NAMESERVER:
        keys["--port"] = keys["--nameserver-port"]
    entries = []
    for parameter, text in options.items():
        name = "--" + parameter.replace("_", "-")
        if text is not None:
            entries.append(WrittenSetting(keys[name], text, name))
    return load_settings(
        role,
        config_file=sources.config_file,
        environment=os.environ,
        assignments=sources.assignments,
        options=entries,
    )
