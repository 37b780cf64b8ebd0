"""``rocketmq-gateway access user``: the users of a running broker."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import click

from gateway.cli.access.places import AccessPlace, place_option, with_examples
from gateway.cli.access.policies import entry_rows
from gateway.cli.options import as_json
from gateway.cli.output import say, say_json, say_table
from wire.bodies.access import UserInfo

GENERATED_BYTES = 24
HIDDEN = "password"
"""The member of a user that is never printed."""

_new_password = click.option(
    "--password-file",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Its first line is the password; - is standard input. Without it, the terminal is kept.",
)
_generate = click.option("--generate", is_flag=True, help="Make a random password, and print it once.")


@click.group(
    epilog=with_examples("""\
  rocketmq-gateway access user create shop                     an ordinary user; asks for the password
  rocketmq-gateway access user create root --super --generate  may do everything
  rocketmq-gateway access user change shop --disable           it is refused from now on
  rocketmq-gateway access user list""")
)
def user() -> None:
    """List, make, change and delete users."""


@user.command(name="list")
@click.argument("part", metavar="[PART-OF-NAME]", default="")
@place_option
@as_json
def list_(part: str, place: AccessPlace, as_json: bool) -> None:
    """List users, never with their passwords."""
    with place.opened() as kept:
        found = sorted(kept.users(part), key=lambda info: info.username or "")
    if as_json:
        say_json([_shown(info) for info in found], indent=2)
        return
    say_table(("USER", "KIND", "STATUS"), [_cells(info) for info in found])


@user.command()
@click.argument("name")
@place_option
@as_json
def show(name: str, place: AccessPlace, as_json: bool) -> None:
    """Show a user and all entries of its policies, in the order in which they are looked at."""
    with place.opened() as kept:
        found = kept.user(name)
        if found is None:
            raise click.ClickException(f"there is no user {name!r}: rocketmq-gateway access user list shows all")
        acl = kept.acl(name)
    if as_json:
        say_json({**_shown(found), "policies": acl.to_json()["policies"] if acl else []}, indent=2)
        return
    say_table(("USER", "KIND", "STATUS"), [_cells(found)])
    say("")
    rows = entry_rows([acl] if acl else [])
    if rows:
        say_table(("POLICY", "RESOURCE", "DECISION", "ACTIONS", "FROM"), [row[1:] for row in rows])
    else:
        say("no policies" if found.user_type == "Normal" else "no policies, and none needed: a Super user may do all")


@user.command(
    epilog=with_examples("""\
  rocketmq-gateway access user create shop                            asks for the password
  rocketmq-gateway access user create shop --generate                 prints a random one
  rocketmq-gateway access user create shop --password-file - < secret""")
)
@click.argument("name")
@click.option("--super", "is_super", is_flag=True, help="May do everything, also change users.")
@_new_password
@_generate
@place_option
def create(name: str, is_super: bool, password_file: str | None, generate: bool, place: AccessPlace) -> None:
    """Make a user. An ordinary one may do nothing until policies allow it: see access acl."""
    password = _password(password_file, generate=generate)
    with place.opened() as kept:
        kept.create(name, UserInfo(username=name, password=password, user_type="Super" if is_super else "Normal"))
    say(f"user {name} is there" + ("" if is_super else f"; next: rocketmq-gateway access acl role {name} client"))
    if generate:
        say(f"password: {password}")


@user.command(
    epilog=with_examples("""\
  rocketmq-gateway access user change shop --new-password    asks for it
  rocketmq-gateway access user change shop --disable
  rocketmq-gateway access user change shop --super""")
)
@click.argument("name")
@click.option("--super/--normal", "is_super", default=None, help="May do everything, or what its policies allow.")
@click.option("--enable/--disable", "is_enabled", default=None, help="A disabled user is refused.")
@click.option("--new-password", is_flag=True, help="Change the password; the earlier one ends at once.")
@_new_password
@_generate
@place_option
def change(
    name: str,
    is_super: bool | None,
    is_enabled: bool | None,
    new_password: bool,
    password_file: str | None,
    generate: bool,
    place: AccessPlace,
) -> None:
    """Change kind, state or password of a user; the rest stays."""
    changes_password = new_password or generate or password_file is not None
    if is_super is None and is_enabled is None and not changes_password:
        raise click.UsageError("nothing to change: give --super, --normal, --enable, --disable or --new-password")
    password = _password(password_file, generate=generate) if changes_password else None
    wanted = UserInfo(
        username=name,
        password=password,
        user_type=None if is_super is None else "Super" if is_super else "Normal",
        user_status=None if is_enabled is None else "enable" if is_enabled else "disable",
    )
    with place.opened() as kept:
        kept.change(name, wanted)
    say(f"user {name} is changed")
    if generate:
        say(f"password: {password}")


@user.command()
@click.argument("name")
@place_option
def delete(name: str, place: AccessPlace) -> None:
    """Delete a user with its policies."""
    with place.opened() as kept:
        if kept.user(name) is None:
            raise click.ClickException(f"there is no user {name!r}: rocketmq-gateway access user list shows all")
        kept.delete(name)
    say(f"user {name} and its policies are deleted")


def _password(file: str | None, *, generate: bool) -> str:
    """Return a new password; an argument would show it to every user of the machine."""
    if generate:
        if file is not None:
            raise click.UsageError("--generate and --password-file exclude each other")
        return secrets.token_urlsafe(GENERATED_BYTES)
    if file is None and _asks_terminal():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    if file is None:
        raise click.UsageError("no terminal to ask for the password: give --password-file FILE, or --generate")
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--password-file {file} cannot be read: {error}") from error
    password = text.splitlines()[0] if text else ""
    if not password:
        raise click.UsageError(f"the first line of {file} is empty: it must be the password")
    return password


def _asks_terminal() -> bool:
    return sys.stdin.isatty()


def _shown(info: UserInfo) -> dict[str, object]:
    return {name: value for name, value in info.to_json().items() if name != HIDDEN}


def _cells(info: UserInfo) -> tuple[str, str, str]:
    return info.username or "", info.user_type or "", info.user_status or ""
