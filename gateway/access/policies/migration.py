"""Accounts of ACL 1.0 as users with policies that judge them as before.

An admin becomes a Super user. The permissions of topics and groups become entries of the Custom policy, and the
permissions of all others entries of the Default policy, as upstream's ``AuthMigrator`` has it. Unlike there, a topic
with ``PUB`` does not get the ``SUB`` of the default as well, who may send or receive may also look (Get), and everybody
may send to the trace topic. White lists have no counterpart, so they are dropped with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.access.plain.accounts import PlainAccount, PlainAccounts
from gateway.access.plain.permissions import DENY, WORDS
from gateway.access.policies.policy import EVERY, PolicyDecision, PolicyEntry, PolicyType
from gateway.access.policies.resources import ANY, Pattern, Resource
from gateway.access.policies.users import User, UserType
from gateway.metadata.names import TRACE_TOPIC
from gateway.remoting.declared import Action
from gateway.telemetry.logs import EventLog
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

log = EventLog("access")


def migrated(plain: PlainAccounts, users: Mapping[str, User]) -> Iterator[User]:
    """Yield a user for each account whose name no user has."""
    new = [account for account in plain.accounts.values() if account.name not in users]
    if new and plain.white:
        log.warning("white list of ACL 1.0 not taken over", addresses=",".join(pattern.text for pattern in plain.white))
    for account in new:
        if account.white.text:
            log.warning("white list of ACL 1.0 not taken over", user=account.name, addresses=account.white.text)
        yield migrated_user(account)


def migrated_user(account: PlainAccount) -> User:
    """Return the user of an account."""
    custom = [entry for name, word in account.entries.items() for entry in _entries(account, name, word)]
    defaults = [
        *_granted(Resource("Topic", Pattern.ANY), account.default_topic),
        PolicyEntry(Resource("Topic", Pattern.LITERAL, TRACE_TOPIC), ("Pub",), (), PolicyDecision.ALLOW),
        *_granted(Resource("Group", Pattern.ANY), account.default_group),
    ]
    user = User(account.name, account.secret.decode(), UserType.SUPER if account.is_admin else UserType.NORMAL)
    return user.with_policies({PolicyType.CUSTOM: tuple(custom), PolicyType.DEFAULT: tuple(defaults)})


def _entries(account: PlainAccount, name: str, word: str) -> Iterator[PolicyEntry]:
    if name.endswith(ANY):  # a policy would take it for every name that begins so
        log.warning("permission of ACL 1.0 not taken over: nothing has such a name", user=account.name, name=name)
    elif name.startswith(RETRY_TOPIC_PREFIX):
        group = Resource("Group", Pattern.LITERAL, name.removeprefix(RETRY_TOPIC_PREFIX))
        yield from _granted(group, word, account.default_group)
    else:
        yield from _granted(Resource("Topic", Pattern.LITERAL, name), word, account.default_topic)


def _granted(resource: Resource, word: str, default: str = DENY) -> Iterator[PolicyEntry]:
    """Yield the entries for a permission; what the default would add to it is denied."""
    if word == DENY:
        yield PolicyEntry(resource, (EVERY,), (), PolicyDecision.DENY)
        return
    yield PolicyEntry(resource, (*_names(WORDS[word]), "Get"), (), PolicyDecision.ALLOW)
    if more := WORDS[default] & ~WORDS[word]:
        yield PolicyEntry(resource, _names(more), (), PolicyDecision.DENY)


def _names(actions: Action) -> tuple[str, ...]:
    return tuple(str(action.name).title() for action in actions)
