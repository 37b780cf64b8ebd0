"""The rights that requests declare, without a server: what the sender of a code needs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from gateway.access.needs import needs_of
from gateway.broker.request_loader import every_class
from gateway.nameserver.requests.brokers import BrokerRequests
from gateway.nameserver.requests.configuration import ConfigurationRequests
from gateway.nameserver.requests.routes import RouteRequests
from gateway.nameserver.requests.topics import RouteTopicRequests
from gateway.remoting.declared import ADMIN, Action, Kind, Need, Right
from gateway.remoting.dispatch import Dispatch

_KINDS = frozenset(kind.value for kind in Kind)
OF_NAME_SERVER = (BrokerRequests, RouteRequests, RouteTopicRequests, ConfigurationRequests)


def right_of(code: int) -> Right:
    """Return what the sender of a request needs; a code that nobody answers needs an administrator."""
    for classes in (every_class(), OF_NAME_SERVER):
        found = _declared(classes).get(code)
        if found is not None:
            return found
    return ADMIN


def needs_on(right: Right, resources: Mapping[Kind, str], cluster: str) -> list[Need]:
    """Return the needs of a request that names these resources, also those of its body."""
    fields = {named.field: resources[named.kind] for named in right.named if named.kind in resources and named.field}
    given = {named.kind for named in right.named if named.kind in resources or named.kind is Kind.CLUSTER}
    told = Right(right.who, tuple(named for named in right.named if named.kind in given))
    found = needs_of(told, fields, cluster)
    for kind, actions in _in_body(right).items():
        if kind in resources and kind not in {need.kind for need in found}:
            found.append(Need(kind, resources[kind], actions))
    return found


def kinds_of(right: Right) -> set[Kind]:
    """Return the kinds of resources that a request names, without the server's own cluster."""
    named = {named.kind for named in right.named if named.field and not named.optional}
    return named | set(_in_body(right))


def _in_body(right: Right) -> dict[Kind, Action]:
    """Return the actions that a body needs, read from the text: ``Group Sub and Topic Sub of each entry``."""
    found: dict[Kind, Action] = {}
    words = right.in_body.replace(",", "").split()
    for kind, actions in itertools.pairwise(words):
        if kind in _KINDS:
            for action in actions.split("/"):
                found[Kind(kind)] = found.get(Kind(kind), Action(0)) | Action[action.upper()]
    return found


def _declared(classes: Any) -> dict[int, Right]:
    """Return the rights of classes; their methods are registered and never called, so no object is made ready."""
    dispatch = Dispatch()
    for make in classes:
        make.__new__(make).register(dispatch)
    return {entry.code: entry.right for entry in dispatch.entries()}
