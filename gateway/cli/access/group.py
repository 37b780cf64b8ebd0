"""The group of commands about access control; each command's module is loaded when it is called."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "acl": "gateway.cli.access.policies",
    "audit": "gateway.cli.access.audit_files",
    "check": "gateway.cli.access.check",
    "explain": "gateway.cli.access.explain",
    "user": "gateway.cli.access.users",
}


class AccessCommands(click.Group):
    """A group that loads the command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a name, loaded now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        return command


@click.group(
    cls=AccessCommands,
    epilog="""\b
Examples:
  rocketmq-gateway access user create shop                        asks for the password
  rocketmq-gateway access acl role shop client                    what every client needs
  rocketmq-gateway access acl allow shop Topic:orders Pub,Sub,Get may send to the topic and read it
  rocketmq-gateway access acl allow shop Group:shop-workers Sub   may consume as this group
  rocketmq-gateway access user show shop                          its kind, and all of its rules
  rocketmq-gateway access explain shop 310 Topic:orders           would this send be let through, and why
  rocketmq-gateway access check conf/plain_acl.yml                can a server use this file?
  rocketmq-gateway access audit data/audit.jsonl --account shop   what it was refused, and why

\b
Commands that ask a broker sign their requests with the keys of a Super user in the environment: ROCKETMQ_ACCESS_KEY
and ROCKETMQ_SECRET_KEY, or ROCKETMQ_CREDENTIALS_FILE=~/key with the lines AccessKey=… and SecretKey=…
--tls encrypts the connection.
Exit code: 0 done, 1 the broker refused, 2 it cannot be reached or the command is wrong.
""",
)
def access() -> None:
    """Make and change users and their rights, and see who was refused and why."""
