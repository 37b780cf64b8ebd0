"""Subscriptions that a client's pulls name and its heartbeats did not bring yet: it is asked for them.

A Java client raises the versions of its subscriptions whenever it shares out the queues, and tells them by a heartbeat,
which it leaves out while another of its threads sends one: the next comes up to 30 s later. Upstream refuses its
pulls until then. What a client is asked for is GET_CONSUMER_RUNNING_INFO, which tells the subscriptions it has now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import ensureDeferred

from gateway.broker.client_calls import RUNNING_INFO_SINCE_VERSION, ask_client
from gateway.errors import RequestRefused
from gateway.telemetry.logs import EventLog
from wire.bodies.subscriptions import RunningSubscriptions
from wire.codes import RequestCode, ResponseCode
from wire.errors import WireError
from wire.headers.admin import GetConsumerRunningInfoRequest

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from gateway.clock import Milliseconds
    from gateway.membership.clients import Client
    from gateway.membership.consumers import Consumers
    from gateway.remoting.channel import Channel

log = EventLog("pull")

REPEAT_MS = 3_000
"""How often a client is asked for one group at most: as often as a Java client repeats a pull that was refused."""
ANSWER_TIMEOUT_S = 3.0


class NewerSubscriptions:
    """Asks clients, and gives the groups what they tell."""

    def __init__(self, consumers: Consumers, clock: Milliseconds) -> None:
        self._consumers = consumers
        self._clock = clock

    def ask(self, channel: Channel, group: str) -> None:
        """A member of a group knows newer subscriptions; the group has them when the client has answered."""
        connected = self._consumers.group(group)
        client = None if connected is None else connected.members.get(channel)
        if client is None or client.version < RUNNING_INFO_SINCE_VERSION:
            return
        now_ms = self._clock()
        if 0 <= now_ms - client.asked_groups.get(group, -REPEAT_MS) < REPEAT_MS:
            return
        client.asked_groups[group] = now_ms
        ensureDeferred(self._take_over(client, group)).addErrback(self._failed, group)

    async def _take_over(self, client: Client, group: str) -> None:
        question = GetConsumerRunningInfoRequest(consumer_group=group, client_id=client.client_id, jstack_enable=False)
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        answer = await ask_client(client, code, question, timeout_s=ANSWER_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"it answered {answer.code}: {answer.remark}")
        told = RunningSubscriptions.parse(answer.body)
        self._consumers.renew(group, client, told.subscriptions)

    def _failed(self, failure: Failure, group: str) -> None:
        """Its next heartbeat brings them."""
        if failure.check(RequestRefused, WireError):  # type: ignore[no-untyped-call]
            log.info("a client did not tell its subscriptions", group=group, reason=str(failure.value))
        else:
            log.error("subscriptions not asked for", group=group, error=repr(failure.value))
