"""The changes that a state store gets, the facts that it gives at a start, and the interface of a store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from gateway.errors import GatewayError
from gateway.transaction.states import State

UNKNOWN = -1
"""The position of a store that does not know how far its content goes."""


class Prepared(NamedTuple):
    """A half message that was stored. Times are epoch milliseconds."""

    offset: int
    place: int
    size: int
    stored_at_ms: int
    group: str


class Settled(NamedTuple):
    """A half message that has its outcome.

    :param place: the commit log offset of the half message.
    :param record_place: the commit log offset of the record that settles the half message.
    :param record_bytes: the size of that record.
    """

    offset: int
    place: int
    state: State
    record_place: int
    record_bytes: int


@dataclass(slots=True)
class Changes:
    """Changes that a store gets at once. Not frozen, because changes are added.

    :param position: with these changes, the store knows everything in the commit log below this offset.
    :param first: half messages below this half-queue offset are settled.
    :param half_end: half messages from this half-queue offset on do not concern the store yet.
    :param log_end: the end of the records that the changes name; all of these records must be on disk first.
    :param is_whole: True if ``prepared`` has all pending half messages, and all other content of the store is wrong.
    """

    prepared: list[Prepared] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    position: int = 0
    first: int = 0
    half_end: int = 0
    log_end: int = 0
    is_whole: bool = False

    def drop_settled(self) -> None:
        """Remove the half messages that were both stored and settled within these changes."""
        both = {half.offset for half in self.prepared} & {half.offset for half in self.settled}
        self.prepared = [half for half in self.prepared if half.offset not in both]
        self.settled = [half for half in self.settled if half.offset not in both]


class Known(msgspec.Struct, frozen=True):
    """The knowledge of a store at a start.

    :param position: the store knows everything in the commit log below this offset; ``UNKNOWN``: it knows nothing.
    :param first: half messages below this half-queue offset are settled.
    :param settled: the half messages from ``first`` on that have their outcome.
    """

    position: int = UNKNOWN
    first: int = 0
    settled: Iterable[tuple[int, State]] = ()


class StatesLost(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """A store lacks changes that it got before, so it must get everything again."""


class StatesUnavailable(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """A store cannot be reached now. The text says which store and why."""


class TransactionStates(Protocol):
    """A table or a database. All calls block, and two calls never run at once."""

    @property
    def keeps_settled(self) -> bool:
        """True if the store must also get half messages that were settled before it heard of them."""

    def load(self, first: int, end: int, log_end: int) -> Known:
        """Return what is known of the half messages ``[first, end)`` of a commit log that ends at ``log_end``.

        :raises StatesUnavailable: the store cannot be read now. Once back, the store still takes changes.
        :raises GatewayError: the store belongs to another broker.
        :raises OSError: files of the store cannot be read.
        """

    def begin(self, first: int, position: int) -> None:
        """Forget everything: half messages below ``first`` are settled, and the log below ``position`` is done.

        :raises StatesUnavailable: the store cannot be reached.
        :raises OSError: files of the store cannot be written.
        """

    def apply(self, changes: Changes) -> None:
        """Make changes durable, all or none. The same changes may be applied again.

        :raises StatesLost: the store needs changes with ``is_whole``.
        :raises StatesUnavailable: the store cannot be reached.
        :raises OSError: files of the store cannot be written.
        """

    def found(self, prepared: Prepared) -> None:
        """Take, after ``load``, the record's facts about a half message that ``load`` left pending."""

    def close(self) -> None:
        """Close all files and connections."""
