"""The actions of people: decide an outcome, ask a producer now, make a given-up half message pending again."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Final

from gateway.clock import END_OF_TIME_MS
from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.store.put_result import PutResult
from gateway.telemetry.logs import EventLog
from gateway.transaction.checks.check_service import CheckService
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.needs import LogAccess, TransactionNeeds
from gateway.transaction.records.final_messages import FinalMessages
from gateway.transaction.records.half_messages import real_place, resumed_of
from gateway.transaction.replies import REPLY_OF, SUCCESS, Answer, Reply, Source
from gateway.transaction.restart.rebuild import MAX_COPIES
from gateway.transaction.settling import Settling
from gateway.transaction.states import OPEN_STATES, Event, State
from gateway.transaction.tables.transaction_tables import TransactionTables
from wire.codes import ResponseCode
from wire.message.record import StoredMessage

log = EventLog("transaction")

MAX_RESUMED = 10_000
"""The number of recently resumed half messages whose half offset is remembered."""

IS_CHECKED: Final = "the half message is being checked already"


class Interventions:
    """The actions of operators on the transactions of one broker."""

    def __init__(
        self,
        tables: TransactionTables,
        store: LogAccess,
        settling: Settling,
        checks: CheckService,
        needs: TransactionNeeds,
    ) -> None:
        self._tables = tables
        self._store = store
        self._settling = settling
        self._checks = checks
        self._read = needs.read
        self._final_messages = FinalMessages(store)
        self._resuming: set[str] = set()
        self._resumed: dict[str, int] = {}

    def settle(self, half: StoredMessage, event: Event, source: Source, answer: Answer, reason: str = "") -> None:
        """Decide an outcome by hand, in the same way as a producer's outcome, and with the same reasons for a refusal.

        :param event: COMMIT, ROLLBACK or DISCARD. DISCARD needs a reason.
        """
        told = _OperatorsAnswer(self._tables.counts, answer)
        told.is_first = self._settling.ask(half, event, source, told.tell, reason)

    def ask_now(self, half_offset: int) -> bool:
        """Let a pending half message be checked at once; return False if the half message is not pending."""
        if not self._tables.is_undecided(half_offset):
            return False
        self._checks.ask_now(half_offset)
        return True

    def resume(self, message: StoredMessage, answer: Answer, asker: Hashable = None) -> None:
        """Start the checks of a given-up half message again, or check a pending half message at once.

        :param message: a message of TRANS_CHECK_MAX_TIME_TOPIC, or a pending half message; with or without its body.
        :param asker: the key by which askers take turns in reading the disk.
        :raises RequestRefused: too many reads of the disk wait.
        """
        offset = message.queue_offset
        if message.topic == HALF_TOPIC:
            if self._tables.is_undecided(offset):
                self._checks.check_now(offset)
                answer(SUCCESS)
            else:
                answer(Reply(ResponseCode.SYSTEM_ERROR, f"half message {offset} is settled"))
            return
        key = message.unique_key or ""
        refusal = self._hasty_refusal(message, key)
        if refusal is not None:
            answer(Reply(ResponseCode.SYSTEM_ERROR, refusal))
            return
        self._resuming.add(key)
        try:
            self._read(partial(self._what_became_of, message, key), partial(self._looked, key, answer), asker)
        except RequestRefused:
            self._resuming.discard(key)
            raise

    def resumed_offset(self, message: StoredMessage) -> int | None:
        """Return the half offset of the half message recently made from a given-up one; None if not known."""
        return message.queue_offset if message.topic == HALF_TOPIC else self._resumed.get(message.unique_key or "")

    def newest_state(self, key: str) -> State:
        """Return the state of the newest half message with this unique key; blocks, and may run in any thread."""
        offsets = [
            half.queue_offset
            for half in self._store.query_by_key(HALF_TOPIC, key, MAX_COPIES, 0, END_OF_TIME_MS)
            if half.unique_key == key
        ]
        # The key index may not have the message that was resumed just now.
        return self._tables.outcomes.state(max([*offsets, self._resumed.get(key, -1)]))

    # -- resuming -------------------------------------------------------------------------------------------

    def _hasty_refusal(self, message: StoredMessage, key: str) -> str | None:
        """Return why a message cannot be resumed, as far as the message itself shows; otherwise None."""
        if message.topic != CHECK_MAX_TOPIC:
            return f"a message of topic {message.topic} is not a half message that was given up"
        if real_place(message.property_map) is None or not key:
            return "the message does not say where it belongs or has no unique key"
        if key in self._resuming:
            return IS_CHECKED
        return None

    def _what_became_of(self, message: StoredMessage, key: str) -> StoredMessage | str:
        """Return the whole message, or why it cannot be resumed: it would be delivered twice, or is damaged; blocks."""
        place = real_place(message.property_map)
        state = self.newest_state(key)
        if state in OPEN_STATES:
            return IS_CHECKED
        if state is State.ROLLED_BACK:
            return "the half message was rolled back already"
        if state is State.COMMITTED or (place is not None and self._final_messages.exists(place[0], key)):
            return "the half message was committed already"
        whole = message if message.has_body else self._store.message_at(message.commit_log_offset, message.total_size)
        return "the message is damaged" if whole is None else whole

    def _looked(self, key: str, answer: Answer, found: StoredMessage | str | Failed) -> None:
        """Store a given-up half message again, or answer why that is not possible."""
        if isinstance(found, StoredMessage):
            self._store.append(resumed_of(found), partial(self._stored_anew, key, answer))
            return
        self._resuming.discard(key)
        remark = f"reading the store failed: {found.error}" if isinstance(found, Failed) else found
        answer(Reply(ResponseCode.SYSTEM_ERROR, remark))

    def _stored_anew(self, key: str, answer: Answer, result: PutResult) -> None:
        self._resuming.discard(key)
        if not result.status.is_stored:
            code = REPLY_OF.get(result.status, ResponseCode.SYSTEM_ERROR)
            answer(Reply(code, f"the half message could not be stored: {result.status.name}"))
            return
        if len(self._resumed) >= MAX_RESUMED:
            del self._resumed[next(iter(self._resumed))]
        self._resumed[key] = result.queue_offset
        log.info("half message resumed", half_offset=result.queue_offset, message_id=key)
        answer(SUCCESS)


class _OperatorsAnswer:
    """The answer to an operator who gives an outcome. The outcome is counted if it was the first and is stored."""

    __slots__ = ("_answer", "_counts", "is_first")

    def __init__(self, counts: TransactionCounts, answer: Answer) -> None:
        self._counts = counts
        self._answer = answer
        self.is_first = False

    def tell(self, reply: Reply) -> None:
        if self.is_first and reply.code == ResponseCode.SUCCESS:
            self._counts.manual.value += 1
        self._answer(reply)
