"""What a state store is told, and what it tells at a start: plain values, and the interface of a store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from gateway.errors import GatewayError
from gateway.transaction.states import State

UNKNOWN = -1
"""The position of a store that does not know how far it goes."""


class Prepared(NamedTuple):
    """A half message that was stored. Times in epoch milliseconds."""

    offset: int
    place: int
    size: int
    stored_at_ms: int
    group: str


class Settled(NamedTuple):
    """A half message that has its outcome.

    :param place: commit log offset of the half message; ``record_place`` and ``record_bytes`` of what settles it.
    """

    offset: int
    place: int
    state: State
    record_place: int
    record_bytes: int


@dataclass(slots=True)
class Changes:
    """Changes that go to a store together. Not frozen: it fills up.

    :param position: with these, the store knows everything of the commit log below.
    :param first: half messages below this half-queue offset are settled.
    :param half_end: half messages from there on are none of the store's business yet.
    :param log_end: the records that the changes speak of end here; all of them must be on disk first.
    :param is_whole: ``prepared`` are all pending half messages, and whatever else the store has is wrong.
    """

    prepared: list[Prepared] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    position: int = 0
    first: int = 0
    half_end: int = 0
    log_end: int = 0
    is_whole: bool = False

    def drop_settled(self) -> None:
        """Forget the half messages that both came and were settled here."""
        both = {half.offset for half in self.prepared} & {half.offset for half in self.settled}
        self.prepared = [half for half in self.prepared if half.offset not in both]
        self.settled = [half for half in self.settled if half.offset not in both]


class Known(msgspec.Struct, frozen=True):
    """What a store knows at a start.

    :param position: it knows everything of the commit log below; ``UNKNOWN``: it knows nothing.
    :param first: half messages below are settled.
    :param settled: half messages from there on that have their outcome.
    """

    position: int = UNKNOWN
    first: int = 0
    settled: Iterable[tuple[int, State]] = ()


class StatesLost(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """A store does not have what it was told before: it must be told everything again."""


class StatesUnavailable(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """A store cannot be reached now; the text says which and why."""


class TransactionStates(Protocol):
    """A table or a database. All calls block, and never two of them at once."""

    @property
    def keeps_settled(self) -> bool:
        """Whether it has to hear of half messages that were settled meanwhile."""

    def load(self, first: int, end: int, log_end: int) -> Known:
        """What is known of the half messages ``[first, end)`` of a commit log that ends at ``log_end``.

        :raises StatesUnavailable: it cannot be said; the store takes changes all the same, when it is back.
        :raises GatewayError: it belongs to another broker.
        :raises OSError: its files cannot be read.
        """

    def begin(self, first: int, position: int) -> None:
        """Forget everything: half messages below ``first`` are settled, the log below ``position`` is done.

        :raises StatesUnavailable: it cannot be reached.
        :raises OSError: its files cannot be written.
        """

    def apply(self, changes: Changes) -> None:
        """Make changes durable, all or none; the same may be applied again.

        :raises StatesLost: it wants ``is_whole`` changes.
        :raises StatesUnavailable: it cannot be reached.
        :raises OSError: its files cannot be written.
        """

    def found(self, prepared: Prepared) -> None:
        """After ``load``: a half message that it left pending, as its record says."""

    def close(self) -> None:
        """Give everything back."""
