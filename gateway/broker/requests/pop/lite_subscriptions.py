"""LITE_SUBSCRIPTION_CTL: clients report which lite topics they subscribe to (5.5).

Single subscriptions come and go (PARTIAL). Every 30 seconds a client reports all of its subscriptions (COMPLETE), so
that a restarted broker knows them again, and forgets those of clients that are gone. Upstream:
``LiteSubscriptionCtlProcessor``. Upstream also accepts subscriptions of groups that are not bound to the topic, and
never has messages for such groups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from twisted.internet.defer import Deferred, ensureDeferred

from gateway.access.needs import consumer_needs
from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.pop.lite_pop import check_bound
from gateway.delivery.lite.subscriptions import LiteClient
from gateway.errors import RequestRefused
from gateway.metadata.lite_attributes import is_wildcard, resets_on_unsubscribe
from gateway.remoting.channel import Channel
from gateway.remoting.declared import needs
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from gateway.remoting.turns import ENTRIES_PER_TURN, Turns, Work, fail
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
from wire.message.light_queues import LIGHT_QUEUE_ID, is_light_queue, lite_queue

MAX_CHANGES: Final = 1_000
"""The largest number of subscription changes in one request; clients send one."""
MAX_NAME_CHARACTERS: Final = 255
"""The largest number of characters in a client id."""
LEAST_NAMES: Final = 1_000
"""The number of lite topics that one request may name whatever the settings say."""
BYTES_OF_A_NAME: Final = 20
"""The number of bytes of a waiting request that count as one lite topic, whatever the bytes are."""
RESET_STEPS: Final = 20
"""The number of steps for setting an offset, which may be written to the log; a name takes one step."""


class _Wish:
    """One request, and the Deferred that fires when the request is carried out."""

    __slots__ = ("answered", "changes", "names", "request")

    def __init__(self, request: Request, changes: Sequence[LiteSubscriptionChange], names: int) -> None:
        self.request = request
        self.changes = changes
        self.names = names
        self.answered: Deferred[Answer] = Deferred()


class _Line:
    """The requests of one connection that are not carried out yet.

    :ivar names: the number of lite topics in all of these requests, or as many as their bodies have room for.
    """

    __slots__ = ("names", "wishes")

    def __init__(self) -> None:
        self.wishes: deque[_Wish] = deque()
        self.names = 0

    def put(self, wish: _Wish) -> None:
        """Add a request at the end of the line."""
        self.wishes.append(wish)
        self.names += wish.names + 1

    def take(self) -> None:
        """Remove the first request, which is carried out."""
        self.names -= self.wishes.popleft().names + 1


class _Pace:
    """Lets others have their turn after a number of steps."""

    __slots__ = ("_channel", "_steps", "_turns")

    def __init__(self, turns: Turns, channel: Channel) -> None:
        self._turns = turns
        self._channel = channel
        self._steps = 0

    async def step(self, count: int = 1) -> None:
        """Count some steps, and wait for another turn after many of them.

        :raises RequestRefused: the connection is closed, or too much long work waits.
        """
        self._steps += count
        if self._steps >= ENTRIES_PER_TURN:
            self._steps = 0
            await self._turns.run(_pause(), self._channel)

    async def follow(self, work: Work[None]) -> None:
        """Do work that comes in pieces, and wait for another turn after each piece."""
        for _ in work:
            self._steps = 0
            await self._turns.run(_pause(), self._channel)


def _pause() -> Work[None]:
    yield


class LiteSubscriptionRequests(DeskRequests):
    """Answers LITE_SUBSCRIPTION_CTL (200071)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._lines: dict[Channel, _Line] = {}

    @answers(RequestCode.LITE_SUBSCRIPTION_CTL, None, needs(in_body="Group Sub and Topic Sub of each entry"))
    def change(self, request: Request, _header: None) -> Deferred[Answer]:
        """Carry out the changes of a request one after the other, up to the first that is refused.

        Requests of one connection are carried out in the order of their arrival. Long work is done in pieces.
        """
        body = request.command.body
        changes = LiteSubscriptionChanges.parse(body).subscription_set if body else ()
        if not 0 < len(changes) <= MAX_CHANGES:
            raise RequestRefused(
                ResponseCode.ILLEGAL_OPERATION,
                f"{len(changes)} subscriptions in one request, allowed are 1 to {MAX_CHANGES}",
            )
        names = sum(len(change.lite_topic_set) for change in changes)
        line = self._lines.get(request.channel)
        self._check_names(names, 0 if line is None else line.names)
        wish = _Wish(request, changes, max(names, len(body) // BYTES_OF_A_NAME))
        request.command.body = b""  # it may wait
        if line is not None:
            line.put(wish)
            return wish.answered
        line = self._lines[request.channel] = _Line()
        line.put(wish)
        ensureDeferred(self._carry_out_all(request.channel, line))
        return wish.answered

    def _check_names(self, names: int, waiting: int) -> None:
        most = max(self._desk.lite.subscriptions.limit, LEAST_NAMES)
        if names > most:
            raise RequestRefused(
                ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"{names} lite topics in one request, the limit is {most} (maxLiteSubscriptionCount)",
            )
        if waiting and waiting + names > most:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"{waiting} lite topics of this connection wait already, the limit is {most} "
                "(maxLiteSubscriptionCount); try again later",
            )

    async def _carry_out_all(self, channel: Channel, line: _Line) -> None:
        """Carry out the requests in the line of a connection until none is left."""
        pace = _Pace(self._desk.turns, channel)
        while line.wishes:
            wish = line.wishes[0]
            try:
                for change in wish.changes:
                    await self._carry_out(wish.request, change, pace)
            except Exception as error:  # noqa: BLE001 - who waits for the answer gets it
                fail(wish.answered, error)
            else:
                wish.answered.callback(Answer())
            line.take()
        del self._lines[channel]

    async def _carry_out(self, request: Request, change: LiteSubscriptionChange, pace: _Pace) -> None:
        action, group, client_id = change.action, change.group, change.client_id
        if action not in SubscriptionAction.__members__:
            raise _illegal(f"action {action[:32]!r} is none of {', '.join(SubscriptionAction)}")
        if not 0 < len(client_id) <= MAX_NAME_CHARACTERS:
            raise _illegal(f"a client id has 1 to {MAX_NAME_CHARACTERS} characters")
        request.require(*consumer_needs(group, [change.topic]))
        await pace.step()
        subscriptions = self._desk.lite.subscriptions
        if action == SubscriptionAction.COMPLETE_REMOVE:
            client = subscriptions.find(group, client_id)
            if client is not None:
                await self._desk.lite.drop(client)
            return
        attributes = self._attributes(change)
        queues = []
        for name in change.lite_topic_set:
            queues.append(self._queue(change.topic, name))
            await pace.step()
        client = subscriptions.told(group, client_id, change.topic, request.channel, self._desk.clock())
        if is_wildcard(attributes):
            await self._add_everything(client, action, pace)
        elif action == SubscriptionAction.PARTIAL_REMOVE:
            await self._remove(client, queues, attributes, pace)
        else:
            if action == SubscriptionAction.COMPLETE_ADD:
                await self._remove_others(client, set(queues), pace)
            await self._add(client, queues, attributes, pace)
            if change.offset_option is not None:
                await self._move(client.group, queues, change.offset_option, pace)
            await pace.follow(self._desk.lite.offering(client, queues))

    def _attributes(self, change: LiteSubscriptionChange) -> Mapping[str, str]:
        """Return the attributes of the group; refuse a group that may not subscribe to lite topics of this parent."""
        config = self._desk.topics.get(change.topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic [{change.topic}] not exist, apply first please!")
        attributes = check_bound(self._desk.groups, config.attributes, change.topic, change.group)
        group = self._desk.groups.get(change.group)
        if group is None or not group.consume_enable:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "Consumer group is not allowed to consume.")
        return attributes

    def _queue(self, parent: str, lite_topic: str) -> str:
        queue = lite_queue(parent, lite_topic)
        if not lite_topic or not is_light_queue(queue):
            raise _illegal(f"{lite_topic[:64]!r} is no name of a lite topic of {parent}")
        return queue

    async def _add_everything(self, client: LiteClient, action: str, pace: _Pace) -> None:
        if action != SubscriptionAction.COMPLETE_ADD:
            raise _illegal("subscribe lite operation is not supported for this group: it has all lite topics")
        if not client.has_all:
            self._check_room(client)
            self._desk.lite.subscriptions.add_all(client)
            await pace.follow(self._desk.lite.offering_all([client]))

    async def _remove_others(self, client: LiteClient, wanted: set[str], pace: _Pace) -> None:
        for queue in list(client.queues):
            if queue not in wanted:
                self._desk.lite.subscriptions.remove(client, queue)
            await pace.step()

    async def _remove(self, client: LiteClient, queues: list[str], attributes: Mapping[str, str], pace: _Pace) -> None:
        for queue in queues:
            if self._desk.lite.subscriptions.remove(client, queue) and resets_on_unsubscribe(attributes):
                self._desk.lite.reset(queue, client.group, self._desk.lite.min_offset(queue))
                await pace.step(RESET_STEPS)
            await pace.step()

    async def _add(self, client: LiteClient, queues: list[str], attributes: Mapping[str, str], pace: _Pace) -> None:
        for queue in queues:
            if queue not in client.queues:
                self._check_known(client)
                self._check_room(client)
                self._desk.lite.add(client, queue, attributes)
            await pace.step()

    async def _move(self, group: str, queues: list[str], option: OffsetOption, pace: _Pace) -> None:
        for queue in queues:
            offset = await self._offset(queue, group, option)
            if offset is not None:
                self._desk.lite.reset(queue, group, offset)
            await pace.step(RESET_STEPS)

    async def _offset(self, queue: str, group: str, option: OffsetOption) -> int | None:
        """Return the offset at which the group goes on; None to stay at the group's present offset."""
        end = self._desk.store.max_offset(queue, LIGHT_QUEUE_ID)
        if option.type == OffsetKind.POLICY:
            return {POLICY_MIN: 0, POLICY_MAX: end}.get(option.value)
        if option.type == OffsetKind.OFFSET:
            return option.value
        if option.type == OffsetKind.TAIL_N:  # before where it is, or, for a new group, before the end
            committed = self._desk.offsets.query(group, queue, LIGHT_QUEUE_ID)
            return (committed if committed >= 0 else end) - max(option.value, 0)
        if option.type == OffsetKind.TIMESTAMP:
            return await self._desk.cold_reads.tool_result(
                lambda: self._desk.store.offset_at_time(queue, LIGHT_QUEUE_ID, option.value)
            )
        raise _illegal(f"offset option {option.type[:32]!r} is none of {', '.join(OffsetKind)}")

    def _check_known(self, client: LiteClient) -> None:
        """Refuse the rest of a long request if its client unsubscribed over another connection meanwhile."""
        if self._desk.lite.subscriptions.find(client.group, client.client_id) is not client:
            raise _illegal("the client unsubscribed from everything meanwhile")

    def _check_room(self, client: LiteClient) -> None:
        if not self._desk.lite.subscriptions.has_room(client):
            raise RequestRefused(
                ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"lite subscription quota exceeded {self._desk.lite.subscriptions.count} (maxLiteSubscriptionCount)",
            )


def _illegal(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.ILLEGAL_OPERATION, remark)
