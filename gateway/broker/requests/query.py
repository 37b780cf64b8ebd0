"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: messages by key, and one message by its place in the log.

Upstream: ``QueryMessageProcessor``. Both requests may read anywhere in the log, so they read in a thread. Messages
whose key only has the same hash are left out here; upstream leaves that to clients.
"""

from __future__ import annotations

import msgspec

from gateway.access.needs import reading_needs
from gateway.broker.desk import DeskRequests
from gateway.broker.requests.shared_retries import readable
from gateway.delivery.filters.message_filter import MessageFilter
from gateway.errors import RequestRefused
from gateway.remoting.declared import GET, SERVED, SUB, Size, needs, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from gateway.store.index.index_entries import KeyKind
from wire.codes import RequestCode, ResponseCode
from wire.errors import RecordError
from wire.headers.pull import QueryMessageRequest, QueryMessageResponse, ViewMessageRequest
from wire.message.record import parse_records
from wire.message.record_check import check_record

MAX_ANSWER_BYTES = 8 << 20
"""Bytes of the records in one answer, well below the largest frame; at least one record is always given."""


class Found(msgspec.Struct, frozen=True):
    """The records of a query in a row, with the store time and the offset of the newest one.

    The index reaches at least as far as the two numbers say. Clients show the numbers only in error texts.
    """

    records: bytes
    last_stored_at_ms: int
    last_offset: int


_NOTHING = Found(b"", 0, 0)


class QueryMessages(DeskRequests):
    """Answers QUERY_MESSAGE (12) and VIEW_MESSAGE_BY_ID (33)."""

    @answers(RequestCode.QUERY_MESSAGE, QueryMessageRequest, needs(on_topic(SUB | GET)), Size.LARGE, slave=SERVED)
    async def query(self, request: Request, header: QueryMessageRequest) -> Answer:
        """Answer with the newest records that have the key and were stored between two times, in log order.

        The key is a unique id if the request says so, and a tag if ``indexType`` is T (5.5). Otherwise it is a unique
        id or one of KEYS.
        """
        wanted = self._desk.settings.default_query_max_num if header.unique_key_query else header.max_num
        count = max(1, min(wanted, self._desk.settings.max_msgs_num_batch))
        channel = request.channel
        accepts = readable(request, header.topic)
        found = await self._desk.cold_reads.result(
            lambda: _NOTHING if channel.closed else self._found(header, count, accepts), channel, is_long=True
        )
        if not found.records:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND,
                f"can not find message of topic {header.topic} by the key {header.key}, maybe its time range "
                "is not correct",
            )
        return Answer(
            header=QueryMessageResponse(
                index_last_update_timestamp=found.last_stored_at_ms,
                index_last_update_phyoffset=found.last_offset,
            ),
            body=found.records,
        )

    @answers(
        RequestCode.VIEW_MESSAGE_BY_ID,
        ViewMessageRequest,
        needs(on_topic(SUB | GET, optional=True), in_body="Topic Sub/Get of the message"),
        Size.LARGE,
        slave=SERVED,
    )
    async def view(self, request: Request, header: ViewMessageRequest) -> Answer:
        """Answer with the record at an offset of the commit log; message ids contain this offset.

        Clients before 5.3 do not name a topic, so it is the record's topic that decides who may read it. A replica asks
        for messages that consumers do not see yet, too.
        """
        offset = header.offset
        store = self._desk.store
        read = store.durable_record_at if header.hidden_too else store.record_at
        record = await self._desk.cold_reads.result(lambda: read(offset), request.channel)
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        if request.caller is not None:
            messages = parse_records(bytes(record))
            request.require_of_message(offset, *(need for message in messages for need in reading_needs(message)))
        return Answer(body=bytes(record))

    def _found(self, header: QueryMessageRequest, count: int, accepts: MessageFilter) -> Found:
        """Return the records that the query finds; runs in a thread.

        Messages that the asking client may not see do not count: others have their places.
        """
        messages = self._desk.store.each_with_key(
            header.topic, header.key, header.begin_timestamp, header.end_timestamp, _kind(header)
        )
        records: list[bytes] = []
        size = last_stored_at_ms = last_offset = 0
        for message in messages:
            if accepts.by_properties is not None and not accepts.by_properties.matches(message.property_map):
                continue
            record = self._desk.store.record_at(message.commit_log_offset, message.total_size)
            if record is None or not (message.has_body or _is_intact(record)):
                continue
            size += len(record)
            if records and size > MAX_ANSWER_BYTES:
                break
            records.append(bytes(record))
            last_stored_at_ms = max(last_stored_at_ms, message.stored_at_ms)
            last_offset = max(last_offset, message.commit_log_offset)
            if len(records) >= count:
                break
        # The newest are found first; clients are used to the order of the log (DefaultMessageStore.queryMessage sorts).
        return Found(b"".join(reversed(records)), last_stored_at_ms, last_offset)


def _is_intact(record: bytes) -> bool:
    """Return whether the body of a record fits its checksum, because the search does not read large bodies."""
    try:
        check_record(record, 0, None)
    except RecordError:
        return False
    return True


def _kind(header: QueryMessageRequest) -> KeyKind:
    if header.unique_key_query:
        return KeyKind.UNIQUE
    return {"U": KeyKind.UNIQUE, "T": KeyKind.TAG}.get(header.index_type or "", KeyKind.ANY)
