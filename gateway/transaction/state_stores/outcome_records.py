"""The evidence of an outcome in the commit log without op records, as 3.1.x to 4.2 write it.

A commit is the final message. Every other outcome is a record of the rollback kind without a body, which no queue
shows. Final messages and hidden records name the commit log offset of their half message as
``preparedTransactionOffset``. Our property ``TRANSACTION_OUTCOMES`` says whether the half message was rolled back or
given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gateway.errors import GatewayError
from gateway.metadata.names import OP_HALF_TOPIC
from gateway.store.put_result import PutResult
from gateway.transaction.needs import LogAccess
from gateway.transaction.records.op_messages import LETTERS, OP_QUEUE_ID, OUTCOMES
from gateway.transaction.state_stores.changes import Settled
from gateway.transaction.state_stores.follower import StateFollower
from gateway.transaction.states import State
from wire.message.flags import SysFlag, transaction_kind
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, StoredMessage

_EVIDENCE = frozenset({SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK})
_STATES = {letter: state for state, letter in LETTERS.items()}


class TailDamaged(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """The end of the commit log cannot be read, so outcomes may be missing."""


def build_outcome(place: int, state: State, *, host: bytes, now_ms: int) -> OutgoingMessage:
    """Build the record that settles the half message at ``place`` of the commit log, for any outcome except a commit.

    :param host: the broker's packed address.
    """
    properties = {OUTCOMES: LETTERS[state]}
    return OutgoingMessage(
        topic=OP_HALF_TOPIC,
        queue_id=OP_QUEUE_ID,
        flag=0,
        sys_flag=SysFlag.TRANSACTION_ROLLBACK,
        born_at_ms=now_ms,
        born_host=host,
        store_host=host,
        reconsume_times=0,
        prepared_transaction_offset=place,
        body=b"",
        properties=build_properties(properties),
        property_map=properties,
    )


def state_of(record: StoredMessage) -> State | None:
    """Return the outcome that a record is evidence of; None for all other records."""
    kind = transaction_kind(record.sys_flag)
    if kind == SysFlag.TRANSACTION_COMMIT:
        return State.COMMITTED
    if kind == SysFlag.TRANSACTION_ROLLBACK:
        return _STATES.get(record.property_map.get(OUTCOMES, ""), State.ROLLED_BACK)
    return None


def outcomes_from(store: LogAccess, position: int) -> Iterator[tuple[StoredMessage, State]]:
    """Yield the evidence in the commit log from a position on, in order; blocks.

    :raises TailDamaged: a record on the way is damaged.
    """
    walk = store.walk_from(position)
    for record in walk:
        state = state_of(record)
        if state is not None:
            yield record, state
    if walk.end < store.max_commit_log_offset and walk.problem:
        raise TailDamaged(
            f"outcomes of transactions cannot be read behind commit log offset {walk.end}: {walk.problem}; "
            "run rocketmq-gateway store repair on the directory"
        )


class Evidence:
    """The records that go into the log with outcomes instead of an op record.

    The follower is notified once they are stored.

    :param place_of: returns the commit log offset and size of a pending half message.
    """

    def __init__(self, follower: StateFollower, place_of: Callable[[int], tuple[int, int]]) -> None:
        self._follower = follower
        self._place_of = place_of

    def records(self, settled: Iterable[tuple[int, State]], *, host: bytes, now_ms: int) -> list[OutgoingMessage]:
        """Return the records that follow the final messages of these half messages."""
        return [
            build_outcome(self._place_of(offset)[0], state, host=host, now_ms=now_ms)
            for offset, state in settled
            if state is not State.COMMITTED
        ]

    def stored(self, settled: Iterable[tuple[int, State]], results: Iterable[PutResult]) -> None:
        """Notify the follower that final messages and records are stored.

        The half messages must still be in the pending table.
        """
        by_place = {
            result.message.prepared_transaction_offset: result
            for result in results
            if transaction_kind(result.message.sys_flag) in _EVIDENCE
        }
        for offset, state in settled:
            place = self._place_of(offset)[0]
            result = by_place[place]
            self._follower.settled(Settled(offset, place, state, result.commit_log_offset, result.size))
