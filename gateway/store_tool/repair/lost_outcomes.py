"""The transactions that a repair could not save: those that are pending again because their op record was damaged.

An op record says which half messages are settled. A commit is also known by its final message. A rollback is known by
nothing else. After the repair such half messages are pending, and their producers are asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from gateway.errors import GatewayError
from gateway.metadata.names import OP_HALF_TOPIC
from gateway.metadata.offsets import saved_offsets
from gateway.metadata.topics import NO_TOPICS
from gateway.settings.transaction import TransactionStateStore
from gateway.store.message_store import MessageStore
from gateway.store_tool.checks.queue_check import Place
from gateway.transaction.limits import DEFAULT_LIMITS
from gateway.transaction.restart.rebuild import OpenHalf, Rebuild, StartSources
from gateway.transaction.state_stores.remembered import RememberedStore
from gateway.transaction.states import State
from gateway.transaction.tables.op_positions import OpPositions
from gateway.transaction.tables.outcomes import Outcomes


class SavedOffsets:
    """The consumer offsets of their file. Nothing is written."""

    def __init__(self, table: Mapping[str, Mapping[int, int]]) -> None:
        self._table = table

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the next offset; -1 if there is none."""
        return self._table.get(f"{topic}@{group}", {}).get(queue_id, -1)


class _Halves:
    """The open half messages of a log by half offset."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self.opened_ones: dict[int, OpenHalf] = {}

    def opened(self, half: OpenHalf) -> None:
        self.opened_ones[half.offset] = half

    def closed(self, offset: int, state: State) -> None:
        self._outcomes.put(offset, state)


def lost_outcomes(store: MessageStore, root: Path, lost: Iterable[Place]) -> list[str]:
    """Return a line for each transaction that may be pending again, after a line with the reason.

    The list is empty if no op record was lost.

    :param store: the repaired store, open.
    :param lost: the places of messages that could not be saved.
    """
    if not any(topic == OP_HALF_TOPIC for topic, _, _ in lost):
        return []
    try:
        return _found(store, root)
    except GatewayError as error:
        return [f"outcomes of transactions are lost, and which are pending again cannot be told: {error}"]


def _found(store: MessageStore, root: Path) -> list[str]:
    remembered = RememberedStore(root / "transaction").load()
    if remembered.store is not TransactionStateStore.QUEUE:
        return []  # its outcomes are not in op records
    saved = saved_offsets(root / "config" / "consumerOffset.json")
    outcomes = Outcomes(DEFAULT_LIMITS.remembered_outcomes)
    offsets = SavedOffsets({} if saved is None else saved.offset_table)
    halves = _Halves(outcomes)
    sources = StartSources(store=store, offsets=offsets, topics=NO_TOPICS, takes_over=remembered.is_searched)
    found = Rebuild(sources, outcomes, OpPositions(), halves).run()
    reason = (
        f"{found.lost_ops} records of outcomes of transactions are lost; {len(found.unrecorded)} commits among them "
        f"are known by their final messages, {len(found.uncertain)} pending transactions may have been rolled back"
    )
    return [reason, *(_line(store, halves.opened_ones[offset]) for offset in found.uncertain)]


def _line(store: MessageStore, half: OpenHalf) -> str:
    message = store.message_at(half.log_offset, half.size)
    key = None if message is None else message.unique_key
    what = f"half message {half.offset}, id {key}, topic {half.topic}, group {half.group}"
    return f"transaction that may be pending again: {what}"
