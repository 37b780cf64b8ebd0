"""What a request declares besides header and method: the right that its sender needs, and what its answer costs.

The declarations stand where a class takes over its codes, and are all that ``Dispatch`` knows about a request. The page
``docs/request-codes.md`` is written from them.
"""

from __future__ import annotations

from enum import Enum, Flag, auto


class Right(Flag):
    """What the sender of a request must be allowed to do; a request may need several rights."""

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
    """What the answer to a request costs the server, and therefore when it is made."""

    SMALL = "small"
    """The answer is made at once."""
    LARGE = "large"
    """The answer is messages or one long value: the request waits until there is room for it (``AnswerRoom``).

    Pulls are not declared so: they wait after their offsets are committed.
    """
    LIST = "list"
    """The answer grows with the tables of the server: few are made at a time (``Lists``).

    Answers that stock clients wait for are not declared so: routes, members of a group, assignments and locks take
    turns only, and hold no rows before they are begun (``Turns``). The state of consumers (223) is no such list either:
    a broker waits for clients most of the time.
    """
    CHANGING_LIST = "changing list"
    """A list that is changed while it is made: once begun, it is carried out to its end, also without its peer."""
