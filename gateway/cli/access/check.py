"""``rocketmq-gateway access check``: whether a file of accounts can be used, before a server uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from gateway.cli.access.places import with_examples
from gateway.cli.output import say
from gateway.errors import GatewayError

YAML = (".yml", ".yaml")


@click.command(
    epilog=with_examples("""\
  rocketmq-gateway access check config/access.json      users and policies (gateway.accessFile)
  rocketmq-gateway access check conf/plain_acl.yml      accounts of ACL 1.0; conf/acl/*.yml beside it as well

\b
Exit code: 0 it can be used, perhaps with warnings; 1 it cannot: the line says where and why.""")
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check(file: Path) -> None:
    """Check a file of accounts, and warn of what is probably not meant."""
    if not file.exists():
        raise click.UsageError(f"there is no file {file}")
    summary, *warnings = _of_yaml(file) if file.suffix in YAML else _of_json(file)
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        warnings.append(f"others may read it, and it has the keys of all accounts: chmod 600 {file}")
    for warning in warnings:
        say(f"Warning: {warning}", err=True)
    say(f"{file} can be used: {summary}")


def _of_json(file: Path) -> Iterator[str]:
    from gateway.access.policies.access_file import AccessFileError, parse_users

    try:
        users = parse_users(file.read_bytes())
    except AccessFileError as error:
        raise GatewayError(f"{file}, {error}") from error
    except OSError as error:
        raise GatewayError(f"{file} cannot be read: {error.strerror}") from error
    yield f"{len(users)} users, {sum(user.entry_count for user in users.values())} entries of policies"
    if not users.has_administrator:
        yield "no enabled user is Super, so nobody may change users over the network"
    for user in users.values():
        if not user.is_admin and not user.policies:
            yield f"user {user.name} has no policies and may do nothing"


def _of_yaml(file: Path) -> Iterator[str]:
    from gateway.access.plain.files import PlainFiles
    from gateway.clock import wall_clock_ms

    found = PlainFiles(file.absolute(), wall_clock_ms).load()
    yield f"{len(found.accounts)} accounts, {len(found.white)} entries of the global white list"
    for pattern in found.white:
        if pattern.matches_everything:
            yield f"the white list entry {pattern.text} lets every peer do everything without a key"
    accounts = found.accounts.values()
    if not any(account.is_admin for account in accounts):
        yield "no account has admin: true, so nobody may make topics or change accounts"
    for account in accounts:
        if account.is_admin and account.entries:
            yield f"{account.name} is admin, and its topicPerms or groupPerms restrict it to those topics and groups"
        if account.white.matches_everything:
            yield f"whiteRemoteAddress of {account.name} lets everybody who knows its name pass without a key"
