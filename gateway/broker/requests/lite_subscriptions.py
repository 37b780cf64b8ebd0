"""LITE_SUBSCRIPTION_CTL: clients tell which lite topics they subscribe to (5.5).

Single ones come and go (PARTIAL); all of them are told every 30 seconds (COMPLETE), so that a broker that started anew
knows them again, and forgets those of clients that are gone. Upstream: ``LiteSubscriptionCtlProcessor``, which takes
subscriptions of groups that are not bound to the topic and never has messages for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.cold_reads import TOOLS
from gateway.broker.requests.lite_pop import check_bound
from gateway.errors import RequestRefused
from gateway.metadata.lite_attributes import is_wildcard, resets_on_unsubscribe
from gateway.remoting.dispatch import Answer
from wire.bodies.lite import (
    POLICY_MAX,
    POLICY_MIN,
    LiteSubscriptionChange,
    LiteSubscriptionChanges,
    OffsetKind,
    OffsetOption,
    SubscriptionAction,
)
from wire.codes import RequestCode, ResponseCode
from wire.message.light_queues import LIGHT_QUEUE_ID, is_light_queue
from wire.message.lite_topics import lite_queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.broker.cold_reads import ColdReads
    from gateway.clock import Milliseconds
    from gateway.delivery.lite.lite_topics import LiteTopics
    from gateway.delivery.lite.subscriptions import LiteClient
    from gateway.metadata.groups import Groups
    from gateway.metadata.offsets import ConsumerOffsets
    from gateway.metadata.topics import Topics
    from gateway.remoting.dispatch import Dispatch, Request
    from gateway.store.message_store import MessageStore

MAX_CHANGES: Final = 1_000
"""Of one request; clients send one."""
MAX_NAME_CHARACTERS: Final = 255
"""Of a client id."""


class LiteSubscriptionRequests:
    """Answers LITE_SUBSCRIPTION_CTL (200071)."""

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        lite: LiteTopics,
        cold_reads: ColdReads,
        clock_ms: Milliseconds,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._lite = lite
        self._cold_reads = cold_reads
        self._clock_ms = clock_ms

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.LITE_SUBSCRIPTION_CTL, None, self.change)

    async def change(self, request: Request, _header: None) -> Answer:
        """Carry out what clients wish, one after the other, up to the first that is refused."""
        body = request.command.body
        changes = LiteSubscriptionChanges.parse(body).subscription_set if body else ()
        if not 0 < len(changes) <= MAX_CHANGES:
            raise RequestRefused(
                ResponseCode.ILLEGAL_OPERATION,
                f"{len(changes)} subscriptions in one request, allowed are 1 to {MAX_CHANGES}",
            )
        for change in changes:
            await self._carry_out(request, change)
        return Answer()

    async def _carry_out(self, request: Request, change: LiteSubscriptionChange) -> None:
        action, group, client_id = change.action, change.group, change.client_id
        if action not in SubscriptionAction.__members__:
            raise _illegal(f"action {action[:32]!r} is none of {', '.join(SubscriptionAction)}")
        if not 0 < len(client_id) <= MAX_NAME_CHARACTERS:
            raise _illegal(f"a client id has 1 to {MAX_NAME_CHARACTERS} characters")
        if action == SubscriptionAction.COMPLETE_REMOVE:
            client = self._lite.subscriptions.find(group, client_id)
            if client is not None:
                self._lite.subscriptions.drop(client)
            return
        attributes = self._attributes(change)
        queues = [self._queue(change.topic, name) for name in change.lite_topic_set]
        now_ms = self._clock_ms()
        client = self._lite.subscriptions.told(group, client_id, change.topic, request.channel, now_ms)
        if is_wildcard(attributes):
            self._add_everything(client, action)
        elif action == SubscriptionAction.PARTIAL_REMOVE:
            self._remove(client, queues, attributes)
        else:
            if action == SubscriptionAction.COMPLETE_ADD:
                wanted = set(queues)
                for queue in [queue for queue in client.queues if queue not in wanted]:
                    self._lite.subscriptions.remove(client, queue)
            await self._add(client, queues, attributes, change.offset_option)

    def _attributes(self, change: LiteSubscriptionChange) -> Mapping[str, str]:
        """The attributes of a group that may subscribe to lite topics of this parent."""
        config = self._topics.get(change.topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic [{change.topic}] not exist, apply first please!")
        attributes = check_bound(self._groups, config.attributes, change.topic, change.group)
        group = self._groups.get(change.group)
        if group is None or not group.consume_enable:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "Consumer group is not allowed to consume.")
        return attributes

    def _queue(self, parent: str, lite_topic: str) -> str:
        queue = lite_queue(parent, lite_topic)
        if not lite_topic or not is_light_queue(queue):
            raise _illegal(f"{lite_topic[:64]!r} is no name of a lite topic of {parent}")
        return queue

    def _add_everything(self, client: LiteClient, action: str) -> None:
        if action != SubscriptionAction.COMPLETE_ADD:
            raise _illegal("subscribe lite operation is not supported for this group: it has all lite topics")
        if not client.has_all:
            self._check_room(client)
            self._lite.subscriptions.add_all(client)
            self._lite.offer_all(client)

    def _remove(self, client: LiteClient, queues: list[str], attributes: Mapping[str, str]) -> None:
        for queue in queues:
            if self._lite.subscriptions.remove(client, queue) and resets_on_unsubscribe(attributes):
                self._lite.reset(queue, client.group, self._lite.min_offset(queue))

    async def _add(
        self, client: LiteClient, queues: list[str], attributes: Mapping[str, str], option: OffsetOption | None
    ) -> None:
        for queue in queues:
            if queue not in client.queues:
                self._check_room(client)
                self._lite.add(client, queue, attributes)
        if option is not None:
            await self._move(client.group, queues, option)
        self._lite.offer_all(client)

    async def _move(self, group: str, queues: list[str], option: OffsetOption) -> None:
        for queue in queues:
            offset = await self._offset(queue, group, option)
            if offset is not None:
                self._lite.reset(queue, group, offset)

    async def _offset(self, queue: str, group: str, option: OffsetOption) -> int | None:
        """Where the group shall go on; None: where it is."""
        end = self._store.max_offset(queue, LIGHT_QUEUE_ID)
        if option.type == OffsetKind.POLICY:
            return {POLICY_MIN: 0, POLICY_MAX: end}.get(option.value)
        if option.type == OffsetKind.OFFSET:
            return option.value
        if option.type == OffsetKind.TAIL_N:  # before where it is, or, for a new group, before the end
            committed = self._offsets.query(group, queue, LIGHT_QUEUE_ID)
            return (committed if committed >= 0 else end) - max(option.value, 0)
        if option.type == OffsetKind.TIMESTAMP:
            return await self._cold_reads.result(
                lambda: self._store.offset_at_time(queue, LIGHT_QUEUE_ID, option.value), TOOLS, is_long=True
            )
        raise _illegal(f"offset option {option.type[:32]!r} is none of {', '.join(OffsetKind)}")

    def _check_room(self, client: LiteClient) -> None:
        if not self._lite.subscriptions.has_room(client):
            raise RequestRefused(
                ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"lite subscription quota exceeded {self._lite.subscriptions.count} (maxLiteSubscriptionCount)",
            )


def _illegal(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.ILLEGAL_OPERATION, remark)
