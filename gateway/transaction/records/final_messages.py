"""Find final messages in their real topics by key: the evidence of a commit that memory has forgotten."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from gateway.clock import END_OF_TIME_MS
from gateway.transaction.needs import LogAccess
from gateway.transaction.records.half_messages import is_rewritten, real_place
from gateway.transaction.states import State
from wire.message.flags import SysFlag, transaction_kind
from wire.message.record import StoredMessage

EVIDENCE_COUNT = 64
"""The largest number of messages with one key that are looked at in the search for a final message."""


class FinalMessages:
    """The final messages in a log. Every method blocks and may run in any thread."""

    def __init__(self, store: LogAccess) -> None:
        self._store = store

    def outcome(self, half: StoredMessage) -> State:
        """Return how a settled half message was settled: COMMITTED if its final message is found.

        Otherwise return ROLLED_BACK.
        """
        place = real_place(half.property_map)
        key = half.unique_key
        if place is not None and key is not None:
            for final in self._find(place[0], key):
                if self._is_of(final.prepared_transaction_offset, half):
                    return State.COMMITTED
        return State.ROLLED_BACK

    def exists(self, topic: str, unique_key: str) -> bool:
        """Return whether a committed message with this key is in its real topic."""
        return bool(self._find(topic, unique_key))

    def _is_of(self, committed_at: int, half: StoredMessage) -> bool:
        """Return whether the half message committed at this commit log offset is ``half`` or another copy of ``half``.

        Another half message may have the same unique key: a client sends again after an answer came too late.
        """
        if committed_at == half.commit_log_offset or is_rewritten(half.property_map):
            return True
        other = self._store.head_at(committed_at)
        return other is not None and is_rewritten(other.property_map)

    def _find(self, topic: str, unique_key: str) -> list[StoredMessage]:
        return [
            message
            for message in self._store.query_by_key(topic, unique_key, EVIDENCE_COUNT, 0, END_OF_TIME_MS)
            if transaction_kind(message.sys_flag) == SysFlag.TRANSACTION_COMMIT and message.unique_key == unique_key
        ]
