"""The entry point: the group of commands, and the form of an error.

Every error that the user can fix is one line on standard error, ``Error: …``, and an exit code: 2 for wrong settings
and arguments, 1 for everything else. No server is started in either case.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from gateway.cli.config import config
from gateway.cli.output import say_lines
from gateway.cli.serving.late_modules import put_off
from gateway.cli.serving.serve import broker, nameserver, serve
from gateway.cli.stop_signals import interrupt_as_ctrl_c
from gateway.cli.version import version
from gateway.errors import GatewayError

PIPE_CLOSED = 141
"""128 + SIGPIPE: the exit code that a shell reports for a program that wrote into a closed pipe.

No error is printed then.
"""
LATE_COMMANDS = {
    "access": ("gateway.cli.access.group", "access"),
    "consume": ("gateway.cli.clients.consume", "consume"),
    "failover": ("gateway.cli.failover", "failover"),
    "pipeline": ("gateway.cli.clients.pipeline", "pipeline"),
    "produce": ("gateway.cli.clients.produce", "produce"),
    "store": ("gateway.cli.store", "store"),
    "tail": ("gateway.cli.clients.tail", "tail"),
    "transactions": ("gateway.cli.transactions", "transactions"),
}
"""Commands whose module is loaded when they are called, so that the start of a server does not import it."""


class ToolCommands(click.Group):
    """A group that runs a command, and turns a GatewayError into a line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*super().list_commands(ctx), *LATE_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name; a late command is loaded first."""
        if cmd_name in LATE_COMMANDS:
            module, name = LATE_COMMANDS[cmd_name]
            command: click.Command = getattr(import_module(module), name)
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command and return its result."""
        try:
            return super().invoke(ctx)
        except GatewayError as error:
            say_lines(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)
        except click.NoSuchOption as error:
            _leave_out_opposites(error)
            raise
        except BrokenPipeError:  # ``… | head``: who reads the output has seen enough
            _write_no_more()
            ctx.exit(PIPE_CLOSED)


@click.group(
    cls=ToolCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="""\b
Start:    rocketmq-gateway serve --data ./data
Connect:  set the name server address of any RocketMQ client to 127.0.0.1:9876
Settings: rocketmq-gateway config          every setting, its value and where it came from
More:     rocketmq-gateway serve --help""",
)
def cli() -> None:
    """A name server and a broker for Apache RocketMQ clients, in one process."""


for command in (serve, broker, nameserver, config, version):
    cli.add_command(command)


def _leave_out_opposites(error: click.NoSuchOption) -> None:
    """Remove suggestions that mean the opposite of the written option, such as ``--bind`` for ``--no-bind``."""
    from gateway.spelling import are_opposed  # only to tell of a mistake

    if error.possibilities:
        error.possibilities[:] = [near for near in error.possibilities if not are_opposed(error.option_name, near)]


def _write_no_more() -> None:
    """Discard the rest of the output buffer. Otherwise Python would report the closed pipe at its end."""
    with suppress(OSError):  # standard output is no file when a test has replaced it
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)


def main() -> None:
    """Run the command line, and end the process."""
    # Modules are loaded without collections, which find nothing then; a server switches them on when it is ready.
    gc.disable()
    put_off()
    interrupt_as_ctrl_c()  # a server that runs listens by itself
    cli(prog_name="rocketmq-gateway")
