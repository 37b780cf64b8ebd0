"""The declarations of a request besides header and method: the sender's right, the cost of the answer, a slave's part.

The declarations stand above the methods (``requests``), and ``Dispatch`` knows nothing more about a request. The page
``docs/request-codes.md`` is written from these declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Final


class Kind(Enum):
    """The kinds of resources, with upstream's words."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"


class Action(Flag):
    """The actions on a resource, with upstream's words."""

    PUB = auto()
    SUB = auto()
    CREATE = auto()
    UPDATE = auto()
    DELETE = auto()
    GET = auto()
    LIST = auto()


@dataclass(frozen=True, slots=True)
class Need:
    """A need of a request: its sender must be allowed to do any one of ``actions`` on the resource of this name."""

    kind: Kind
    name: str
    actions: Action


class Who(Enum):
    """The senders of a request, before its header and body are looked at."""

    EVERYBODY = "everybody"
    """Nobody has to show an account."""
    ACCOUNT = "any account"
    """Every account may send the request, if it has the rights on the resources that the request names."""
    ADMIN = "admin"
    """Administrators alone may send the request."""
    OPERATOR = "operator"
    """Operators look at transactions and settle them; ``gateway.operatorAccess`` says from where."""


@dataclass(frozen=True, slots=True)
class Named:
    """A header field that names a resource, and the actions of which the sender must be allowed to do any one.

    :param field: the wire name; "" for the server's own cluster, which no field names.
    :param optional: True if a request without the field needs nothing here; otherwise such a request needs Update of
        the cluster. A field for a cluster stands for the server's own if it is absent.
    :param separator: the text between several names in the field; "" if the field has one name.
    :param except_ending: the name of the server's own cluster with this ending needs nothing.
    :param is_popped: True if the topic may be the one in which messages of a pop are retried.
    """

    kind: Kind
    field: str
    actions: Action
    optional: bool = False
    separator: str = ""
    except_ending: str = ""
    is_popped: bool = False

    def __str__(self) -> str:
        actions = "/".join(str(action.name).title() for action in self.actions)
        field = f" `{self.field}`" if self.field else ""
        ending = f" (not for the cluster's own name with {self.except_ending})" if self.except_ending else ""
        return f"{self.kind.value}{field} {actions}{' if given' if self.optional else ''}{ending}"


@dataclass(frozen=True, slots=True)
class Right:
    """The right that the sender of a request must have.

    :param named: the resources that the header names; the sender needs every one of them.
    :param in_body: what the method itself asks for, entry by entry (``Request.allows``), as people read it.
    """

    who: Who
    named: tuple[Named, ...] = ()
    in_body: str = ""

    def __str__(self) -> str:
        parts = [*map(str, self.named), *([f"in the body: {self.in_body}"] if self.in_body else [])]
        return "; ".join(parts if parts and self.who is Who.ACCOUNT else [self.who.value, *parts])


EVERYBODY: Final = Right(Who.EVERYBODY)
ACCOUNT: Final = Right(Who.ACCOUNT)
ADMIN: Final = Right(Who.ADMIN)
OPERATOR: Final = Right(Who.OPERATOR)
"""The right to look at transactions and to settle them."""

PUB: Final = Action.PUB
SUB: Final = Action.SUB
CREATE: Final = Action.CREATE
UPDATE: Final = Action.UPDATE
DELETE: Final = Action.DELETE
GET: Final = Action.GET


CLUSTER_GET: Final = Right(Who.ACCOUNT, (Named(Kind.CLUSTER, "", GET),))
ADMIN_UPDATE: Final = Right(Who.ADMIN, (Named(Kind.CLUSTER, "", UPDATE),))
"""The right to change settings of the cluster."""
CLUSTER_UPDATE: Final = Right(Who.ACCOUNT, (Named(Kind.CLUSTER, "", UPDATE),))


def needs(*named: Named, in_body: str = "") -> Right:
    """Return the right of every account that may do what it asks for with the resources."""
    return Right(Who.ACCOUNT, named, in_body)


def on_topic(
    actions: Action,
    field: str = "topic",
    *,
    optional: bool = False,
    separator: str = "",
    except_ending: str = "",
    is_popped: bool = False,
) -> Named:
    """Return a field that names a topic."""
    return Named(Kind.TOPIC, field, actions, optional, separator, except_ending, is_popped)


def on_group(actions: Action, field: str = "consumerGroup", *, optional: bool = False, separator: str = "") -> Named:
    """Return a field that names a consumer group."""
    return Named(Kind.GROUP, field, actions, optional, separator)


def on_cluster(actions: Action, field: str = "") -> Named:
    """Return the server's own cluster, or a field that may name another one."""
    return Named(Kind.CLUSTER, field, actions)


class Size(Enum):
    """The cost of an answer for the server, which decides when the answer is made."""

    SMALL = "small"
    """The answer is made at once."""
    LARGE = "large"
    """The answer is messages or one long value: the request waits until there is room for the answer (``AnswerRoom``).

    Pulls are not declared ``LARGE``: they wait after their offsets are committed.
    """
    LIST = "list"
    """The answer grows with the tables of the server: few such answers are made at a time (``Lists``).

    Answers that stock clients wait for are not declared ``LIST``: routes, members of a group, assignments and locks.
    Such answers only take turns, and hold no rows before they begin (``Turns``). The state of consumers (223) is not
    declared ``LIST`` either: a broker waits for clients most of the time.
    """
    CHANGING_LIST = "changing list"
    """The answer is a list that the request changes: once begun, it is made to its end, even without its peer."""


class OnSlave(Enum):
    """The answer to a request while the broker is a slave, whose messages and tables are those of its master."""

    REFUSED = "refused"
    """The request changes messages or tables, or needs what only the master knows: locks, pops, transactions."""
    READ = "if readable"
    """The request reads messages for a consumer: it is answered if ``slaveReadEnable`` is on."""
    SERVED = "served"
    """The request looks at what a slave has too, or changes what each broker has for itself."""


SERVED: Final = OnSlave.SERVED
