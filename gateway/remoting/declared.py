"""The declarations of a request besides header and method: the right that its sender needs, and what its answer costs.

The declarations stand above the methods (``requests``), and ``Dispatch`` knows nothing more about a request. The page
``docs/request-codes.md`` is written from these declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto


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


class Right(Flag):
    """The rights that the sender of a request must have; a request may need several."""

    NONE = 0
    """Everybody may send the request."""
    PUBLISH = auto()
    """Send messages to the topic that the request names."""
    SUBSCRIBE = auto()
    """Read the topic that the request names."""
    CONSUME = auto()
    """Act as a member of the group that the request names."""
    ADMIN = auto()
    """Read and change what belongs to the whole cluster."""
    OPERATOR = auto()
    """Look at transactions and settle them; ``gateway.operatorAccess`` says who may."""


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
