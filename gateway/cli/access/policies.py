"""``rocketmq-gateway access acl``: the policies of the users of a running broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from gateway.cli.access.places import AccessPlace, place_option, subject_of, with_examples
from gateway.cli.options import as_json
from gateway.cli.output import say, say_json, say_table
from wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo

CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"

ROLES: Final[dict[str, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    "client": (
        ("Topic:RMQ_SYS_TRACE_TOPIC", ("Pub",)),
        ("Topic:TBW102", ("Pub", "Sub", "Get")),
        ("Group:CLIENT_INNER_PRODUCER", ("Sub", "Get")),
    ),
    "viewer": (
        ("Topic:*", ("Get", "List")),
        ("Group:*", ("Get", "List")),
        ("Cluster:*", ("Get", "List")),
    ),
}
"""Entries of the Default policy, by the role's name: what every client needs, and what it takes to look at all."""

_from = click.option(
    "--from", "sources", metavar="IP[,IP]", multiple=True, help="Only from these addresses or networks (CIDR)."
)
_default = click.option(
    "--default", "is_default", is_flag=True, help="In the Default policy: looked at if no Custom entry fits."
)


@click.group(
    epilog=with_examples("""\
  rocketmq-gateway access acl role shop client                          trace, TBW102 and the like
  rocketmq-gateway access acl allow shop Topic:orders Pub,Sub,Get
  rocketmq-gateway access acl allow shop 'Topic:shop-*' Pub --from 10.1.0.0/16
  rocketmq-gateway access acl deny shop Topic:shop-secret All
  rocketmq-gateway access acl remove shop Topic:shop-secret
  rocketmq-gateway access acl list --resource orders                    who may do what with it

\b
RESOURCE is Topic:NAME, Group:NAME or Cluster:NAME; NAME may end in * (quote it for the shell), and * alone is
everything. ACTIONS are All, Pub, Sub, Create, Update, Delete, Get, List, with commas. Readers need Sub and Get: Get is
for the first and last offset of a queue, which a new group asks for.
Which entry decides: those of the Custom policy before those of the Default policy; among them an exact name before the
longest prefix before *, and Deny before Allow for the same resource. None fits: refused.""")
)
def acl() -> None:
    """List, add and remove what users may do."""


@acl.command(name="list")
@click.option("--user", default="", metavar="PART", help="Only users whose names contain this.")
@click.option("--resource", default="", metavar="PART", help="Only resources that contain this.")
@place_option
@as_json
def list_(user: str, resource: str, place: AccessPlace, as_json: bool) -> None:
    """List the entries of all policies."""
    with place.opened() as kept:
        found = kept.acls(user, resource)
    if as_json:
        say_json([info.to_json() for info in found], indent=2)
        return
    say_table(("USER", "POLICY", "RESOURCE", "DECISION", "ACTIONS", "FROM"), entry_rows(found))


def _add_command(decision: str, text: str) -> None:
    @acl.command(decision.lower(), help=text)
    @click.argument("user")
    @click.argument("resource")
    @click.argument("actions")
    @_from
    @_default
    @place_option
    def put(
        user: str, resource: str, actions: str, sources: Sequence[str], is_default: bool, place: AccessPlace
    ) -> None:
        addresses = [address for text in sources for address in text.split(",")]
        entry = PolicyEntryInfo(resource, actions.split(","), addresses or None, decision)
        _put(place, user, DEFAULT if is_default else CUSTOM, [entry])


_add_command("Allow", "Allow a user some actions on a resource; an earlier entry for the same resource is replaced.")
_add_command("Deny", "Forbid a user some actions on a resource; an earlier entry for the same resource is replaced.")


@acl.command()
@click.argument("user")
@click.argument("resource", default="")
@click.option("--all", "is_all", is_flag=True, help="Every entry of both policies.")
@_default
@place_option
def remove(user: str, resource: str, is_all: bool, is_default: bool, place: AccessPlace) -> None:
    """Remove a user's entry for a resource, or with --all every entry."""
    if bool(resource) == is_all:
        raise click.UsageError("give either RESOURCE, as access user show prints it, or --all")
    with place.opened() as kept:
        kept.remove(user, None if is_all else DEFAULT if is_default else CUSTOM, resource or None)
    say(f"{user} has {'no policies' if is_all else f'no entry for {resource}'} any more")


@acl.command(
    epilog=with_examples("""\
  rocketmq-gateway access acl role shop client      what every producer and consumer needs beside its own topics
  rocketmq-gateway access acl role grafana viewer   may look at everything and change nothing""")
)
@click.argument("user")
@click.argument("role", type=click.Choice(sorted(ROLES)))
@place_option
def role(user: str, role: str, place: AccessPlace) -> None:
    """Add a ready set of entries to a user's Default policy; Custom entries win over them."""
    entries = [PolicyEntryInfo(resource, actions, None, "Allow") for resource, actions in ROLES[role]]
    _put(place, user, DEFAULT, entries)


def entry_rows(found: Sequence[AclInfo]) -> list[tuple[str, str, str, str, str, str]]:
    """Return a row for each entry: user, policy, resource, decision, actions, addresses."""
    return [
        (
            (info.subject or "").removeprefix("User:"),
            policy.policy_type or CUSTOM,
            entry.resource or "",
            entry.decision or "",
            ",".join(entry.actions or ()),
            ",".join(entry.source_ips or ()) or "everywhere",
        )
        for info in found
        for policy in sorted(info.policies, key=lambda policy: policy.policy_type or CUSTOM)
        for entry in policy.entries
    ]


def _put(place: AccessPlace, user: str, kind: str, entries: Sequence[PolicyEntryInfo]) -> None:
    with place.opened() as kept:
        kept.merge(user, AclInfo(subject_of(user), [PolicyInfo(kind, entries)]))
    for entry in entries:
        where = f" from {','.join(entry.source_ips)}" if entry.source_ips else ""
        say(f"{user}: {kind} {entry.resource} {entry.decision} {','.join(entry.actions or ())}{where}")
