"""Finding stored messages by id, by key, or by queue and offset."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from gateway.client.admin.admin_calls import AdminCalls
from gateway.client.admin.admin_results import MAX_FOUND, MessageNotFound
from gateway.client.compression import Allowance, Hold
from gateway.client.connect.answers import header_of
from gateway.client.consume.pulled import inner_messages
from gateway.client.errors import (
    BrokerError,
    ConfigurationError,
    ConnectError,
    ProtocolError,
    RequestTimeout,
    RouteNotFound,
)
from gateway.client.message import ReceivedMessage, host_text
from gateway.client.message_queue import MessageQueue
from wire.codes import RequestCode, ResponseCode
from wire.errors import RemoteError
from wire.headers.pull import PullMessageRequest, PullMessageResponse, QueryMessageRequest, ViewMessageRequest
from wire.message.batch import is_inner_batch
from wire.message.flags import PullFlag
from wire.message.message_id import parse_offset_message_id, unpack_host
from wire.message.record import StoredMessage, parse_records

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""The consumer group of tools that pull; every broker has this group."""
_ID: Final = re.compile("[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")
MAX_ANSWER_MESSAGES: Final = 262_144
"""The most messages of one answer: a few KB of compressed batches may hold a million."""
LATEST_MS: Final = 2**63 - 1


class AdminMessages:
    """Finds stored messages."""

    def __init__(self, calls: AdminCalls) -> None:
        self._calls = calls

    async def by_id(self, msg_id: str, topic: str | None = None) -> ReceivedMessage:
        """Return the message with an id: the id that its producer gave, or the offset id that its broker made.

        An id does not show which of the two kinds it is. With a topic, the producer's id is tried first, then the
        offset id. Without a topic, only an offset id can be found, at the broker whose address the id holds.

        :raises MessageNotFound: no broker has the message (any more).
        :raises ConfigurationError: the text is not an id.
        """
        if _ID.fullmatch(msg_id) is None:
            raise ConfigurationError("msg_id", msg_id, "32 or 56 hexadecimal digits")
        if topic is not None:
            found = [message for message in await self._query(topic, msg_id, unique=True) if message.msg_id == msg_id]
            if found:
                return found[-1]
        hint = (
            "it is deleted, or the id is wrong" if topic else "the id that a producer gave is found with its topic only"
        )
        place = _place_of(msg_id)
        if place is None:
            raise MessageNotFound(f"with id {msg_id}", hint)
        address, commit_log_offset = place
        try:
            header = ViewMessageRequest(topic=topic and self._calls.wire(topic), offset=commit_log_offset)
            answer = await self._calls.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header)
        except (BrokerError, ConnectError, RequestTimeout) as error:
            raise MessageNotFound(f"with id {msg_id}", f"{hint}; asked {address} by its offset id: {error}") from error
        records = _records(answer.body, address)
        if not records:
            raise ProtocolError(address, "its answer to VIEW_MESSAGE_BY_ID has no message")
        name = await self._broker_name(records[0].topic, address)
        return ReceivedMessage(records[0], name, namespace=self._calls.namespace)

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        max_num: int = MAX_FOUND,
    ) -> list[ReceivedMessage]:
        """Return a topic's messages with a key, in the order of storage; at most ``max_num`` from each broker.

        :param begin: only messages stored at this time or later; with a time zone.
        :param end: only messages stored at this time or earlier; with a time zone.
        """
        found = await self._query(topic, key, begin=begin, end=end, max_num=max_num)
        return [message for message in found if key in message.keys or message.msg_id == key]

    async def by_offset(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """Return the message at an offset of a queue.

        :raises MessageNotFound: no message is there; the text tells which offsets the queue holds.
        """
        topic = self._calls.wire(queue.topic)
        header = PullMessageRequest(
            consumer_group=TOOLS_GROUP,
            topic=topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=1,
            sys_flag=PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        address = await self._calls.address_of(topic, queue.broker_name)
        expect = (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_OFFSET_MOVED,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
        )
        answer = await self._calls.ask(address, RequestCode.PULL_MESSAGE, header, expect=expect)
        if answer.code == ResponseCode.SUCCESS:
            found = [
                message
                for message in self._received(answer.body, address, queue.broker_name)
                if message.queue_offset == offset
            ]
            if found:
                return found[0]
        place = header_of(PullMessageResponse, answer, address)
        empty = place.min_offset >= place.max_offset
        hint = "the queue is empty" if empty else f"the queue holds {place.min_offset} up to {place.max_offset - 1}"
        raise MessageNotFound(f"at offset {offset} of {queue.broker_name} queue {queue.queue_id}", hint)

    async def _query(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        max_num: int = MAX_FOUND,
        unique: bool = False,
    ) -> list[ReceivedMessage]:
        topic = self._calls.wire(topic)
        header = QueryMessageRequest(
            topic=topic,
            key=key,
            max_num=max_num,
            begin_timestamp=0 if begin is None else round(begin.timestamp() * 1000),
            end_timestamp=LATEST_MS if end is None else round(end.timestamp() * 1000),
            unique_key_query=unique,
        )
        masters = await self._calls.masters_of(topic)
        expect = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        answers = await self._calls.ask_each(masters, RequestCode.QUERY_MESSAGE, header, expect=expect)
        found = [
            message
            for name, answer in answers.items()
            if answer.code == ResponseCode.SUCCESS
            for message in self._received(answer.body, masters[name], name)
        ]
        return sorted(found, key=lambda message: message.stored_at_ms)

    def _received(self, body: bytes, address: str, broker_name: str) -> list[ReceivedMessage]:
        records = _records(body, address)
        return [ReceivedMessage(record, broker_name, namespace=self._calls.namespace) for record in records]

    async def _broker_name(self, topic: str, address: str) -> str:
        """Return the name of the broker at an address; the address itself if the topic's route does not have it.

        An account that may read the topic may see its route, which is not so of the table of all brokers.
        """
        try:
            brokers = (await self._calls.route(topic)).broker_datas
        except RouteNotFound:
            return address
        return next((broker.broker_name for broker in brokers if address in broker.broker_addrs.values()), address)


def _records(body: bytes, address: str) -> list[StoredMessage]:
    try:
        hold = Hold(allowance=Allowance())
        found: list[StoredMessage] = []
        for record in parse_records(body):
            found += inner_messages(record, hold) if is_inner_batch(record.sys_flag) else [record]
            if len(found) > MAX_ANSWER_MESSAGES:
                raise ProtocolError(
                    address, f"an answer has {len(found)} messages and more, the limit is {MAX_ANSWER_MESSAGES}"
                )
        return found
    except RemoteError as error:
        raise ProtocolError(address, f"a message cannot be read: {error}") from error


def _place_of(msg_id: str) -> tuple[str, int] | None:
    """Return the broker's address and the commit log offset that an offset id names; None for any other text."""
    try:
        packed, commit_log_offset = parse_offset_message_id(msg_id)
        _, port = unpack_host(packed)
    except RemoteError:
        return None
    return (host_text(packed), commit_log_offset) if 0 < port < 65_536 else None
