"""Users and entries as tests write them: one line each."""

from __future__ import annotations

from gateway.access.policies.policy import PolicyEntry, PolicyType
from gateway.access.policies.users import User
from gateway.remoting.declared import Action, Kind, Need

ORDERS = Need(Kind.TOPIC, "orders", Action.PUB)
HERE = "10.1.2.3"


def entry(line: str) -> PolicyEntry:
    """The entry of ``RESOURCE ACTIONS DECISION [SOURCES]``; actions and sources are separated by commas."""
    resource, actions, decision, *sources = line.split()
    return PolicyEntry.of(resource, actions.split(","), sources[0].split(",") if sources else None, decision)


def user(*custom: str, default: tuple[str, ...] = (), name: str = "anna") -> User:
    """A user with these entries."""
    policies = {PolicyType.CUSTOM: tuple(map(entry, custom)), PolicyType.DEFAULT: tuple(map(entry, default))}
    return User(name, "secret-of-anna").with_policies(policies)


def need(text: str) -> Need:
    """The need of ``KIND:NAME ACTION|ACTION``."""
    resource, words = text.split()
    kind, _, name = resource.partition(":")
    actions = Action(0)
    for word in words.split("|"):
        actions |= Action[word.upper()]
    return Need(Kind(kind), name, actions)
