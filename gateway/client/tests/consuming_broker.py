"""A scripted broker that can be consumed from: queues in memory, offsets, locks, members, long polls.

It keeps to the rules of the real ones as far as consumers see them; what a test wants otherwise it scripts with
``on``. Retry topics work without delay.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable

from gateway.client.message import MessageQueue
from gateway.client.tests.scripted_broker import Reply, ScriptedBroker
from wire.bodies.consumers import ConsumerListByGroup
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.groups import NotifyConsumerIdsChangedRequest, UnregisterClientRequest
from wire.headers.offsets import GetMaxOffsetResponse, QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest
from wire.headers.pull import PullMessageRequest, PullMessageResponse
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.message.flags import PullFlag
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record

_MOST = 32


class ConsumingBroker(ScriptedBroker):
    """One broker, ``broker-a``, with four queues in every topic; see the module."""

    def __init__(self, *, queues: int = 4) -> None:
        super().__init__(queues=queues)
        self.records: defaultdict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.first_offsets: dict[tuple[str, int], int] = {}
        """Where queues begin whose older messages are gone."""
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.lock_owners: dict[tuple[str, int], str] = {}
        self.members: list[str] = []
        self.other_members: list[str] = []
        """Client ids that the group has besides those that are connected."""
        self._log: list[tuple[str, int, bytes, dict[str, str], int]] = []
        self._held: list[tuple[tuple[str, int], asyncio.Future[None]]] = []
        self.on(RequestCode.HEART_BEAT, self._heartbeat)
        self.on(RequestCode.UNREGISTER_CLIENT, self._unregister)
        self.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self._list_members)
        self.on(RequestCode.QUERY_CONSUMER_OFFSET, self._query_offset)
        self.on(RequestCode.UPDATE_CONSUMER_OFFSET, self._update_offset)
        self.on(RequestCode.GET_MAX_OFFSET, lambda request: self._offset_of(request, self._end))
        self.on(RequestCode.GET_MIN_OFFSET, lambda request: self._offset_of(request, self._first))
        self.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, lambda request: self._offset_of(request, self._first))
        self.on(RequestCode.PULL_MESSAGE, self._pull)
        self.on(RequestCode.LITE_PULL_MESSAGE, self._pull)
        self.on(RequestCode.CONSUMER_SEND_MSG_BACK, self._send_back)
        self.on(RequestCode.LOCK_BATCH_MQ, self._lock)
        self.on(RequestCode.UNLOCK_BATCH_MQ, self._unlock)
        self.answer(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUCCESS)

    def put(self, topic: str, *bodies: bytes, queue_id: int = 0, tags: str = "", reconsume_times: int = 0) -> None:
        """Store messages in a queue and wake who waits for them."""
        for body in bodies:
            properties = {"TAGS": tags, "UNIQ_KEY": f"ID{len(self._log):030d}"}
            self._store_record(topic, queue_id, body, properties, reconsume_times)

    def queue(self, topic: str, queue_id: int = 0) -> MessageQueue:
        """A queue of this broker."""
        return MessageQueue(topic, self.name, queue_id)

    def notify(self, group: str) -> None:
        """Tell the newest client that its group has changed."""
        header = NotifyConsumerIdsChangedRequest(consumer_group=group)
        self.push_oneway(
            RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=2, ext_fields=build_header(header))
        )

    # --- answers --------------------------------------------------------------------------------------------

    def _store_record(
        self, topic: str, queue_id: int, body: bytes, properties: dict[str, str], reconsume_times: int
    ) -> None:
        key = topic, queue_id
        host = pack_host("127.0.0.1", 10911)
        message = OutgoingMessage(
            topic, queue_id, 0, 0, 1000, host, host, reconsume_times, 0, body, build_properties(properties)
        )
        place = len(self._log)
        self._log.append((topic, queue_id, body, properties, reconsume_times))
        self.records[key].append(build_record(message, self._end(*key), place, 2000))
        for held, future in self._held:
            if held == key and not future.done():
                future.set_result(None)

    def _first(self, topic: str, queue_id: int) -> int:
        return self.first_offsets.get((topic, queue_id), 0)

    def _end(self, topic: str, queue_id: int) -> int:
        return self._first(topic, queue_id) + len(self.records[topic, queue_id])

    def _offset_of(self, request: RemotingCommand, look: object) -> Reply:
        fields = request.ext_fields
        assert callable(look)
        offset = look(fields["topic"], int(fields["queueId"]))
        return request.response(0, ext_fields=build_header(GetMaxOffsetResponse(offset=offset)))

    def _heartbeat(self, request: RemotingCommand) -> Reply:
        data = HeartbeatData.parse(request.body)
        if data.consumers and data.client_id not in self.members:
            self.members.append(data.client_id)
        return request.response(0)

    def _unregister(self, request: RemotingCommand) -> Reply:
        header = parse_header(UnregisterClientRequest, request.ext_fields)
        if header.client_id in self.members:
            self.members.remove(header.client_id)
        return request.response(0)

    def _list_members(self, request: RemotingCommand) -> Reply:
        ids = sorted([*self.members, *self.other_members])
        return request.response(0, body=ConsumerListByGroup(ids).build()) if ids else request.response(1, "none")

    def _query_offset(self, request: RemotingCommand) -> Reply:
        header = parse_header(QueryConsumerOffsetRequest, request.ext_fields)
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            return request.response(ResponseCode.QUERY_NOT_FOUND, "never consumed")
        return request.response(0, ext_fields=build_header(GetMaxOffsetResponse(offset=offset)))

    def _update_offset(self, request: RemotingCommand) -> Reply:
        header = parse_header(UpdateConsumerOffsetRequest, request.ext_fields)
        self.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
        return request.response(0)

    def _pull(self, request: RemotingCommand) -> Awaitable[Reply]:
        header = parse_header(PullMessageRequest, request.ext_fields)
        if header.sys_flag & PullFlag.COMMIT_OFFSET:  # now: an update that came behind this pull must win
            self.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
        return self._records_at(request, header)

    async def _records_at(self, request: RemotingCommand, header: PullMessageRequest) -> Reply:
        key = header.topic, header.queue_id
        if header.queue_offset == self._end(*key) and header.sys_flag & PullFlag.SUSPEND:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._held.append((key, future))
            await asyncio.wait([future], timeout=header.suspend_timeout_millis / 1000)
        return self._read(request, header)

    def _read(self, request: RemotingCommand, header: PullMessageRequest) -> RemotingCommand:
        key = header.topic, header.queue_id
        first, end = self._first(*key), self._end(*key)
        begin = header.queue_offset
        found = self.records[key][max(0, begin - first) :][: min(header.max_msg_nums, _MOST)]
        code, after = ResponseCode.SUCCESS, begin + len(found)
        if begin < first or begin > end:
            code, found, after = ResponseCode.PULL_OFFSET_MOVED, [], first if begin < first else end
        elif not found:
            code = ResponseCode.PULL_NOT_FOUND
        fields = build_header(
            PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=after, min_offset=first, max_offset=end)
        )
        return request.response(code, None, fields, b"".join(found))

    def _send_back(self, request: RemotingCommand) -> Reply:
        header = parse_header(ConsumerSendMsgBackRequest, request.ext_fields)
        topic, _, body, properties, reconsume_times = self._log[header.offset]
        most = header.max_reconsume_times
        assert most is not None
        kind = "%DLQ%" if reconsume_times >= most or header.delay_level < 0 else "%RETRY%"
        properties = {"RETRY_TOPIC": topic, **properties}
        self._store_record(kind + header.group, 0, body, properties, reconsume_times + 1)
        return request.response(0)

    def _lock(self, request: RemotingCommand) -> Reply:
        body = LockBatchRequest.parse(request.body)
        granted = [
            queue
            for queue in body.queues
            if self.lock_owners.setdefault((queue.topic, queue.queue_id), body.client_id) == body.client_id
        ]
        return request.response(0, body=LockBatchResponse(granted).build())

    def _unlock(self, request: RemotingCommand) -> Reply:
        body = UnlockBatchRequest.parse(request.body)
        for queue in body.queues:
            if self.lock_owners.get((queue.topic, queue.queue_id)) == body.client_id:
                del self.lock_owners[queue.topic, queue.queue_id]
        return request.response(0)


async def until(condition: object) -> None:
    """Go on when a condition holds; the time-out is the test's."""
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0.005)
