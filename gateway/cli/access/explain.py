"""``rocketmq-gateway access explain``: which rule lets a request through, or refuses it, without sending it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from gateway.access.model import Account, Accounts
from gateway.cli.access.places import AccessPlace, place_option, subject_of, with_examples
from gateway.cli.output import say
from gateway.errors import GatewayError
from gateway.remoting.declared import Action, Kind, Need, Right, Who
from wire.codes import RequestCode

DEFAULT_CLUSTER = "DefaultCluster"
_WORD_OF_WHO = {Who.ADMIN: "an administrator", Who.OPERATOR: "an administrator"}


class Code(click.ParamType):  # type: ignore[type-arg]
    """A request by number or name: ``310``, ``SEND_MESSAGE_V2``."""

    name = "CODE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        if isinstance(value, int):
            return value
        text = str(value).upper()
        if text.isdecimal() and len(text) < 10:
            return int(text)
        if text in RequestCode.__members__:
            return RequestCode[text]
        near = [name for name in RequestCode.__members__ if text.replace("_", "") in name.replace("_", "")][:5]
        hint = f"; did you mean {', '.join(near)}?" if near else "; docs/request-codes.md lists all"
        return self.fail(f"{value!r} is no request code{hint}", param, ctx)


class ResourceText(click.ParamType):  # type: ignore[type-arg]
    """A resource: ``Topic:orders``."""

    name = "RESOURCE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Kind, str]:
        """Return kind and name."""
        if isinstance(value, tuple):
            return value
        word, _, name = str(value).partition(":")
        kind = next((kind for kind in Kind if kind.value.lower() == word.lower()), None)
        if kind is None or not name:
            self.fail(f"{value!r} is not Topic:NAME, Group:NAME or Cluster:NAME", param, ctx)
        return kind, name


class AccessStep(NamedTuple):
    """One line of an explanation."""

    is_allowed: bool
    text: str
    rule: str


@click.command(
    epilog=with_examples("""\
  rocketmq-gateway access explain shop SEND_MESSAGE_V2 Topic:orders --from 10.1.2.3
  rocketmq-gateway access explain shop 11 Topic:orders Group:shop-workers       a pull needs both
  rocketmq-gateway access explain shop HEART_BEAT Group:shop-workers Topic:orders
  rocketmq-gateway access explain shop 310 Topic:orders --file access.json      before a server uses it
  rocketmq-gateway access explain shop 310 Topic:orders --acl conf/plain_acl.yml

\b
CODE is the number or the name of a request (docs/request-codes.md). Nothing is sent but questions about the user.
Exit code: 0 it would be let through, 1 it would be refused.""")
)
@click.argument("user")
@click.argument("code", type=Code())
@click.argument("resources", metavar="[RESOURCE]...", type=ResourceText(), nargs=-1)
@click.option("--from", "host", metavar="IP", default="127.0.0.1", show_default=True, help="The sender's address.")
@click.option("--acl", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Accounts of ACL 1.0.")
@place_option
def explain(
    user: str, code: int, resources: Sequence[tuple[Kind, str]], host: str, acl: Path | None, place: AccessPlace
) -> None:
    """Say which rule decides about a request of USER."""
    from gateway.cli.access.rights import kinds_of, right_of

    if len({kind for kind, _ in resources}) < len(resources):
        raise click.UsageError("give one resource of each kind; explain others with further calls")
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise click.BadParameter(f"{host!r} is no IP address", param_hint="--from") from error
    accounts = _plain(acl) if acl is not None else _users(place, user)
    right = right_of(code)
    name = RequestCode(code).name if code in RequestCode.__members__.values() else "of no name"
    say(f"{'request':8} {name} ({code}) needs: {right}")
    found = list(steps(accounts, user, right, dict(resources), host))
    for step in found:
        say(f"{'allowed' if step.is_allowed else 'refused':8} {step.text}: {step.rule}")
    missing = sorted(kind.value for kind in kinds_of(right) - {kind for kind, _ in resources})
    is_allowed = all(step.is_allowed for step in found)
    if missing and is_allowed and right.who is Who.ACCOUNT and not getattr(accounts.find(user), "is_admin", False):
        say(f"{'open':8} not looked at, since none was given: {', '.join(f'{kind}:NAME' for kind in missing)}")
    click.get_current_context().exit(0 if is_allowed else 1)


def steps(accounts: Accounts, user: str, right: Right, resources: dict[Kind, str], host: str) -> Iterator[AccessStep]:
    """Yield what a server looks at, in its order, up to the first refusal of the sender as a whole."""
    from gateway.cli.access.rights import needs_on

    if right.who is Who.EVERYBODY:
        yield AccessStep(True, "everybody", "this request needs no account")
        return
    rule = accounts.unsigned(host, user)
    if rule is not None:
        yield AccessStep(True, f"from {host}, without a signature and with every right", rule)
        return
    account = accounts.find(user)
    if account is None:
        yield AccessStep(False, user, "there is no such account")
        return
    if not account.is_enabled:
        yield AccessStep(False, user, "the user is disabled")
        return
    yield AccessStep(True, user, "the account is there; its signature counts as right here")
    if right.who is not Who.ACCOUNT:
        yield AccessStep(account.is_admin, _WORD_OF_WHO[right.who], "is one" if account.is_admin else "is none")
    cluster = resources.get(Kind.CLUSTER, DEFAULT_CLUSTER)
    for need in needs_on(right, resources, cluster):
        yield _judged(account, need, host)


def _judged(account: Account, need: Need, host: str) -> AccessStep:
    ruling = account.judge(need, host)
    actions = "/".join(str(action.name).capitalize() for action in Action if action in need.actions)
    return AccessStep(ruling.allowed, f"{need.kind.value}:{need.name} {actions} from {host}", ruling.rule)


def _plain(file: Path) -> Accounts:
    from gateway.access.plain.files import PlainFiles
    from gateway.clock import wall_clock_ms

    return PlainFiles(file.absolute(), wall_clock_ms).load()


class _OneUser:
    """The one user that is asked about; implements ``Accounts``."""

    def __init__(self, account: Account | None) -> None:
        self._account = account

    def find(self, access_key: str) -> Account | None:
        return self._account if self._account is not None and self._account.name == access_key else None

    def unsigned(self, host: str, access_key: str | None) -> str | None:  # noqa: ARG002
        return None


def _users(place: AccessPlace, name: str) -> Accounts:
    from gateway.access.policies.edits import merge_acl
    from gateway.access.policies.users import User, Users, UserStatus, UserType

    with place.opened() as kept:
        info = kept.user(name)
        acl = kept.acl(name) if info is not None else None
    if info is None:
        return _OneUser(None)
    try:
        kind, status = UserType(info.user_type or UserType.NORMAL), UserStatus(info.user_status or UserStatus.ENABLE)
    except ValueError as error:
        raise GatewayError(f"the server describes user {name} in unknown words: {error}") from error
    users = Users().with_user(User(name, "-", kind, status))
    if acl is not None and acl.policies:
        users = merge_acl(users, subject_of(name), acl)
    return _OneUser(users[name])
