"""The view of transactions for people: pages of half messages, one half message in full, and figures.

The work takes two steps, because a record may have to come from the disk. ``Listed`` is what memory says, gathered on
the reactor's thread in turns, from at most ``MAX_SCANNED`` half messages. ``described`` adds what the record says, in
any thread. Nothing is decided here.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from gateway.clock import END_OF_TIME_MS
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from gateway.settings import Address
from gateway.store.reading.get_result import GetStatus
from gateway.transaction.needs import LogAccess, TransactionNeeds
from gateway.transaction.operators.interventions import Interventions
from gateway.transaction.records.half_messages import DISCARD_REASON, HALF_QUEUE_ID, real_place
from gateway.transaction.replies import source_text
from gateway.transaction.states import State
from gateway.transaction.tables.transaction_tables import TransactionTables
from wire.bodies.tools.transactions import ListedTransaction, TransactionGroup, TransactionStatistics
from wire.errors import RemoteError
from wire.message.message_id import parse_offset_message_id, unpack_host
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, parse_records

MAX_SCANNED = 10_000
"""The largest number of half messages that are looked at for one page."""
LISTED_PER_TURN = 50
"""The number of half messages that are put on a page in one turn, which takes a millisecond."""
MAX_SAME_KEY = 64
MAX_READ_BYTES = 4 << 20


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The half messages that a page shows; None and 0 select all."""

    group: str | None = None
    topic: str | None = None
    min_age_ms: int = 0
    max_count: int = 100
    after: int = -1


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in memory about one half message.

    ``place`` (commit log offset and size), ages and checks are known only while the half message is pending.
    """

    offset: int
    place: tuple[int, int] | None
    state: State
    age_ms: int | None = None
    checks: int | None = None
    next_check_in_ms: int | None = None
    waits_for_producer: bool = False
    asked: str = ""
    conflicts: int = 0
    decided_by: str = ""


class Overview:
    """The view of one broker's transactions, for people."""

    def __init__(
        self,
        tables: TransactionTables,
        store: LogAccess,
        needs: TransactionNeeds,
        interventions: Interventions,
    ) -> None:
        self._tables = tables
        self._store = store
        self._producers = needs.producers
        self._clock_ms = needs.clock_ms
        self._interventions = interventions

    # -- what memory says: on the reactor's thread ------------------------------------------------------------

    def page(self, selection: Selection) -> Work[tuple[list[Listed], int | None]]:
        """Return pending half messages, the oldest first, and the offset after which the next page starts.

        The offset is None if no more follow.
        """
        pending, now_ms = self._tables.pending, self._clock_ms()
        group = topic = None
        if selection.group is not None and (group := self._tables.turns.number(selection.group)) is None:
            return [], None
        if selection.topic is not None and (topic := self._tables.counts.find_topic(selection.topic)) is None:
            return [], None
        found: list[Listed] = []
        for scanned, offset in enumerate(pending.behind(selection.after)):
            if len(found) >= selection.max_count or scanned >= MAX_SCANNED:
                return found, offset - 1
            if (
                (group is None or pending.group(offset) == group)
                and (topic is None or pending.topic(offset) == topic)
                and now_ms - pending.stored_at_ms(offset) >= selection.min_age_ms
            ):
                found.append(self.listed(offset))
                if len(found) % LISTED_PER_TURN == 0:
                    yield
            if scanned % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1:
                yield
        return found, None

    def listed(self, offset: int) -> Listed:
        """Return what memory says about one half message, pending or not."""
        state = self._tables.outcomes.state(offset)
        source = self._tables.sources.get(offset)
        asked = self._tables.asked.get(offset)
        facts = {
            "offset": offset,
            "state": state,
            "asked": "" if asked is None else str(Address(*asked)),
            "conflicts": self._tables.conflicts.get(offset) or 0,
            "decided_by": "" if source is None else source_text(source),
        }
        pending, now_ms = self._tables.pending, self._clock_ms()
        if offset not in pending:
            return Listed(place=None, **facts)  # type: ignore[arg-type]
        group = self._tables.turns.group(pending.group(offset))
        return Listed(
            place=pending.place(offset),
            age_ms=now_ms - pending.stored_at_ms(offset),
            checks=pending.checks(offset),
            next_check_in_ms=max(pending.due_at_ms(offset) - now_ms, 0) if state is State.PENDING else None,
            waits_for_producer=self._producers.pick(group.name) is None,
            **facts,  # type: ignore[arg-type]
        )

    def statistics(self, max_groups: int, counts: dict[str, int]) -> TransactionStatistics:
        """Return the figures of all transactions.

        :param max_groups: how many groups are listed: those groups with the most pending half messages.
        """
        groups = sorted(self._tables.turns.groups(), key=lambda group: group.open, reverse=True)
        return TransactionStatistics(
            pending=self._tables.pending.count,
            oldest_age_ms=self._tables.oldest_age_ms(self._clock_ms()),
            checks_in_flight=self._tables.turns.in_flight,
            group_count=len(groups),
            groups=[
                TransactionGroup(
                    group=group.name,
                    pending=group.open,
                    due=len(group.ready),
                    in_flight=group.in_flight,
                    unknowns=group.unknowns,
                    producers=int(self._producers.pick(group.name) is not None),
                )
                for group in groups[:max_groups]
            ],
            counts=counts,
        )

    # -- what records say: in any thread ----------------------------------------------------------------------

    def described(self, listed: Listed, half: StoredMessage | None = None) -> ListedTransaction:
        """Return a half message with what its record says, as far as the record can be read."""
        if half is None and listed.place is not None:
            with suppress(RemoteError, OSError):
                half = self._store.head_at(listed.place[0])
        known = {
            "half_offset": listed.offset,
            "state": listed.state.name,
            "checks": listed.checks,
            "age_ms": listed.age_ms,
            "next_check_in_ms": listed.next_check_in_ms,
            "waits_for_producer": listed.waits_for_producer,
            "conflicts": listed.conflicts,
            "decided_by": listed.decided_by,
        }
        if half is None:
            return ListedTransaction(last_producer=listed.asked, **known)  # type: ignore[arg-type]
        if listed.age_ms is None:
            known["age_ms"] = max(self._clock_ms() - half.stored_at_ms, 0)
        return ListedTransaction(**known, **_of_record(half, listed.asked))  # type: ignore[arg-type]

    def find(self, text: str) -> StoredMessage | None:
        """Return the half message with this half offset, offset message id or unique key; None if there is none.

        Blocks. If several half messages have the key, the newest is returned. A large half message may lack its body.
        """
        if text.isdecimal() and len(text) < _MAX_OFFSET_DIGITS:
            half = self._at_half_offset(int(text))
            if half is not None:
                return half
        return self._by_message_id(text, (HALF_TOPIC,)) or self._newest_of(HALF_TOPIC, text)

    def find_given_up(self, text: str) -> StoredMessage | None:
        """Return the copy of a given-up half message, or a half message, by message id or unique key; blocks."""
        found = self._by_message_id(text, (CHECK_MAX_TOPIC, HALF_TOPIC)) or self._newest_of(CHECK_MAX_TOPIC, text)
        return found or self.find(text)

    def given_up(self, selection: Selection) -> tuple[list[ListedTransaction], int | None]:
        """Return half messages that were given up, the oldest first; blocks.

        The half offset of each entry is its offset in TRANS_CHECK_MAX_TIME_TOPIC, and pages continue after that offset.
        """
        found: list[ListedTransaction] = []
        offset = max(selection.after + 1, self._store.min_offset(CHECK_MAX_TOPIC, HALF_QUEUE_ID), 0)
        end = self._store.max_offset(CHECK_MAX_TOPIC, HALF_QUEUE_ID)
        scanned = 0
        while offset < end:
            wanted = min(selection.max_count - len(found), MAX_SCANNED - scanned)
            if wanted <= 0:
                return found, offset - 1
            result = self._store.get_messages(CHECK_MAX_TOPIC, HALF_QUEUE_ID, offset, wanted, MAX_READ_BYTES)
            messages = parse_records(b"".join(result.parts)) if result.status is GetStatus.FOUND else []
            scanned += max(len(messages), 1)
            found += [entry for entry in map(self._given_up_entry, messages) if _is_selected(entry, selection)]
            offset = max(result.next_begin_offset, offset + 1)
        return found, None

    def _given_up_entry(self, message: StoredMessage) -> ListedTransaction:
        key = message.unique_key
        state = State.NONE if key is None else self._interventions.newest_state(key)
        checks = message.property_map.get(PropertyName.TRANSACTION_CHECK_TIMES, "0")
        return ListedTransaction(
            half_offset=message.queue_offset,
            state=(State.DISCARDED if state is State.NONE else state).name,
            age_ms=max(self._clock_ms() - message.stored_at_ms, 0),
            checks=int(checks) if checks.isdecimal() and len(checks) < _MAX_OFFSET_DIGITS else 0,
            **_of_record(message, ""),  # type: ignore[arg-type]
        )

    def _at_half_offset(self, offset: int) -> StoredMessage | None:
        result = self._store.get_messages(HALF_TOPIC, HALF_QUEUE_ID, offset, 1, MAX_READ_BYTES)
        if result.status is not GetStatus.FOUND:
            return None
        [half] = parse_records(b"".join(result.parts))[:1]
        return half if half.queue_offset == offset else None

    def _by_message_id(self, text: str, topics: tuple[str, ...]) -> StoredMessage | None:
        with suppress(RemoteError):
            host, place = parse_offset_message_id(text)
            message = self._store.head_at(place)
            # A unique key looks like such an id, so a record must lie there and state the same host.
            if message is not None and message.topic in topics and message.store_host == host:
                return message
        return None

    def _newest_of(self, topic: str, key: str) -> StoredMessage | None:
        found = [
            message
            for message in self._store.query_by_key(topic, key, MAX_SAME_KEY, 0, END_OF_TIME_MS)
            if message.unique_key == key
        ]
        return max(found, key=lambda message: message.queue_offset, default=None)


_MAX_OFFSET_DIGITS = 19


def _of_record(half: StoredMessage, asked: str) -> dict[str, object]:
    properties = half.property_map
    topic, queue_id = real_place(properties) or ("", 0)
    host, port = unpack_host(half.born_host)
    return {
        "group": properties.get(PropertyName.PGROUP, ""),
        "topic": topic,
        "queue_id": queue_id,
        "message_id": half.offset_message_id,
        "transaction_id": half.unique_key or "",
        "keys": properties.get(PropertyName.KEYS, ""),
        "commit_log_offset": half.commit_log_offset,
        "body_bytes": half.body_bytes,
        "stored_at_ms": half.stored_at_ms,
        "last_producer": asked or f"{host}:{port}",
        "reason": properties.get(DISCARD_REASON, ""),
        "properties": properties,
    }


def _is_selected(entry: ListedTransaction, selection: Selection) -> bool:
    return (
        (selection.group is None or entry.group == selection.group)
        and (selection.topic is None or entry.topic == selection.topic)
        and (entry.age_ms or 0) >= selection.min_age_ms
    )
