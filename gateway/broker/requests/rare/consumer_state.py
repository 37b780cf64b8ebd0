"""The state of running consumers, their offsets, and their outcome for a message.

The broker only passes the question on to the client, and the client's answer back.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import DeferredList, ensureDeferred

from gateway.access.needs import message_needs
from gateway.broker.client_calls import (
    RUNNING_INFO_SINCE_VERSION,
    ask_client,
    check_version,
    find_consumer,
    members_of,
)
from gateway.broker.cold_reads import TOOLS
from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.queue_rows import queue_table
from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.remoting.declared import GET, SERVED, SUB, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import table_of_texts
from gateway.remoting.requests import answers
from gateway.remoting.turns import Work
from wire.bodies.consumers import GetConsumerStatusBody
from wire.bodies.fastjson import PreparedText
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.admin import ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest
from wire.headers.offsets import GetConsumerStatusRequest
from wire.message.message_id import parse_offset_message_id
from wire.message.record import parse_records

OFFSETS_SINCE_VERSION = 28
"""V3_0_7_SNAPSHOT: the first client with GET_CONSUMER_STATUS_FROM_CLIENT."""
OFFSETS_TIMEOUT_S = 5.0
MAX_TOLD_BYTES = 67_108_864
"""Bytes of the answers of clients that are kept until the last client of the group has answered, for all requests."""


class ConsumerState(DeskRequests):
    """Requests that the broker passes on to consumers."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._told_bytes = 0

    @answers(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        GetConsumerStatusRequest,
        needs(on_group(GET, "group"), on_topic(GET)),
        slave=SERVED,
    )
    async def offsets(self, request: Request, header: GetConsumerStatusRequest) -> Answer:
        """Answer with the offsets that the clients of a group, or one of them, have in memory.

        Clients that do not answer are left out, and those whose answers find no room.
        """
        members = members_of(self._desk.consumers, header.group)
        if not members:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        asked = [client for client in members if header.client_addr in (None, "", client.client_id)]
        for client in asked:
            check_version(client, OFFSETS_SINCE_VERSION)
        question = GetConsumerStatusRequest(topic=header.topic, group=header.group)
        told: dict[str, bytes] = {}
        await DeferredList([ensureDeferred(self._told(each, question, told)) for each in asked], consumeErrors=True)
        self._told_bytes -= sum(map(len, told.values()))
        what, advice = f"offsets that clients of group {header.group} have in memory", "ask for one client (clientAddr)"
        tables = ((client_id, _offsets_of(what, told[client_id])) for client_id in sorted(told))
        text: Any = await self._desk.turns.run(table_of_texts(what, tables, advice=advice), request.channel)
        return Answer(body=GetConsumerStatusBody(consumer_table=text).build())

    async def _told(self, client: ConnectedClient, question: GetConsumerStatusRequest, told: dict[str, bytes]) -> None:
        """Ask a client, and keep its answer while there is room: it is parsed when the last client has answered."""
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        answer = await ask_client(client, code, question, timeout_s=OFFSETS_TIMEOUT_S)
        body, known = answer.body, told.get(client.client_id, b"")
        size = self._told_bytes + len(body) - len(known)
        if answer.code == ResponseCode.SUCCESS and body and size <= MAX_TOLD_BYTES:
            self._told_bytes = size
            told[client.client_id] = body

    @answers(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningInfoRequest, needs(on_group(GET)), slave=SERVED)
    async def running_info(self, _request: Request, header: GetConsumerRunningInfoRequest) -> Answer:
        """Answer with a consumer's settings, queues and statistics, and with its thread dump on request."""
        client = find_consumer(
            self._desk.consumers, header.consumer_group, header.client_id, since_version=RUNNING_INFO_SINCE_VERSION
        )
        return _passed_on(await ask_client(client, RequestCode.GET_CONSUMER_RUNNING_INFO, header))

    @answers(
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        ConsumeMessageDirectlyResultRequest,
        needs(on_group(SUB), on_topic(SUB, optional=True), in_body="Topic Sub of the message"),
        slave=SERVED,
    )
    async def consume(self, request: Request, header: ConsumeMessageDirectlyResultRequest) -> Answer:
        """Hand one message to a consumer's listener now, whatever the offset; the outcome changes nothing here."""
        client = find_consumer(
            self._desk.consumers,
            header.consumer_group,
            header.client_id or "",
            since_version=RUNNING_INFO_SINCE_VERSION,
        )
        record = b"" if header.msg_id is None else await self._record(header.msg_id)
        if request.caller is not None and record:  # the request names any message, and perhaps no topic
            messages = parse_records(record)
            offset = messages[0].commit_log_offset
            needed = message_needs(header.consumer_group, messages)
            request.require_of_message(offset, *needed)
            if not client.may_get(RequestCode.CONSUME_MESSAGE_DIRECTLY, *needed):
                raise RequestRefused(
                    ResponseCode.NO_PERMISSION,
                    f"the account of the consumer {client.client_id} may not consume the message at offset {offset}",
                )
        topic = self._desk.topics.get(header.topic or "")
        group = self._desk.groups.get(header.consumer_group)
        question = ConsumeMessageDirectlyResultRequest(
            consumer_group=header.consumer_group,
            client_id=header.client_id,
            msg_id=header.msg_id,
            broker_name=header.broker_name,
            topic=header.topic,
            topic_sys_flag=None if topic is None else topic.topic_sys_flag,
            group_sys_flag=None if group is None else group.group_sys_flag,
        )
        return _passed_on(await ask_client(client, RequestCode.CONSUME_MESSAGE_DIRECTLY, question, record))

    async def _record(self, message_id: str) -> bytes:
        _, offset = parse_offset_message_id(message_id)
        record = await self._desk.cold_reads.result(lambda: self._desk.store.record_at(offset), TOOLS)
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return bytes(record)


def _offsets_of(what: str, body: bytes) -> Work[PreparedText]:
    return (yield from queue_table(what, GetConsumerStatusBody.parse(body).message_queue_table.items()))


def _passed_on(answer: RemotingCommand) -> Answer:
    return Answer(code=answer.code, body=answer.body, remark=answer.remark)
