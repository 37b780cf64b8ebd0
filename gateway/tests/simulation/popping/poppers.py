"""A group that pops: it acknowledges some of what it gets, and lets the rest come again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gateway.client.consume.pop.pop_handles import NORMAL, RETRY_V1, PopReceipts, ReceiptWords, parse_receipt
from gateway.metadata.names import revive_topic
from gateway.tests.simulation.clients import LATE_TOPIC, QUEUES
from gateway.tests.simulation.ledger import Ledger, Place
from gateway.tests.simulation.process import Process
from gateway.tests.simulation.world import World
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.disk.config_json import OrderInfoEntry
from wire.disk.revive_log import STATE_TAG, StateRecord
from wire.headers.declare import read_header
from wire.headers.pop import AckMessageRequest, PopMessageRequest, PopMessageResponse
from wire.message.properties import PropertyName
from wire.message.record import parse_records
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

POPPERS = "poppers"
TOPICS = tuple(dict.fromkeys(topic for topic, _ in QUEUES))
MOST = 32
READ_BYTES = 1 << 20
LAST_INVISIBLE_MS = 60_000
"""How long messages stay invisible that are popped, and acknowledged at once, in the end."""


class Popped(NamedTuple):
    """A popped message that was not acknowledged yet."""

    key: str
    topic: str
    receipt: ReceiptWords


class Poppers:
    """The consumers of one group that pops, in one history.

    :param master: returns the process that takes requests now; None while there is none.
    :param in_order: whether the group pops in order.
    """

    def __init__(self, world: World, ledger: Ledger, master: Callable[[], Process | None], *, in_order: bool) -> None:
        self._world = world
        self._random = world.random
        self._ledger = ledger
        self._master = master
        self._in_order = in_order
        self._held: list[Popped] = []
        self._last: dict[tuple[str, str], list[Popped]] = {}
        """The messages of the last pop in order that was answered, by topic and queue."""
        self._acknowledged: set[str] = set()
        """The keys of messages that the group is done with, whether the acknowledgement was answered or not."""
        self.popped = 0

    def pop(self) -> None:
        """Pop some messages of a topic, for a short time."""
        self._pop(
            self._random.choice(TOPICS),
            self._random.choice((1, 3, MOST)),
            self._random.choice((1_000, 10_000, 60_000) if self._in_order else (1_000, 3_000, 10_000)),
            self._held.append,
        )

    def _pop(self, topic: str, count: int, invisible_ms: int, take: Callable[[Popped], None]) -> None:
        master = self._master()
        if master is None:
            return
        header = PopMessageRequest(
            consumer_group=POPPERS,
            topic=topic,
            queue_id=-1,
            max_msg_nums=count,
            invisible_time=invisible_ms,
            born_time=0,
            order=self._in_order,
        )

        def answered(answer: RemotingCommand) -> None:
            self._world.tell(f"pop of {topic} answered {answer.code} {answer.remark}")
            if answer.code == ResponseCode.SUCCESS:
                self._took(answer, master, take)

        master.ask(RequestCode.POP_MESSAGE, header, on_answer=answered)

    def _took(self, answer: RemotingCommand, master: Process, take: Callable[[Popped], None]) -> None:
        receipts = PopReceipts(read_header(PopMessageResponse, answer), master.settings.broker_name)
        taken: dict[tuple[str, str], list[Popped]] = {}
        for record in parse_records(answer.body):
            self.popped += 1
            properties = record.property_map
            key, given = properties.get(PropertyName.UNIQ_KEY, ""), properties.get(PropertyName.POP_CK)
            if given is not None:
                receipt = parse_receipt(given)
            else:
                kind = RETRY_V1 if record.topic.startswith(RETRY_TOPIC_PREFIX) else NORMAL
                receipt = receipts.next_receipt(kind, record.queue_id, record.queue_offset)
            place = Place(receipt.real_topic(record.topic, POPPERS), int(receipt.queue_id), int(receipt.queue_offset))
            self._world.tell(f"popped {key} {place}")
            if place not in self._ledger.shown:
                self._ledger.look(master)  # what a start hid is shown without a word
            if place not in self._ledger.shown:
                self._world.break_promise(f"popped {key} of {place}, which nobody showed")
            popped = Popped(key, place.topic, receipt)
            taken.setdefault((place.topic, receipt.queue_id), []).append(popped)
        if self._in_order:
            for queue, messages in taken.items():
                self._check_closed(queue, messages[0], master)
                self._last[queue] = messages
        for messages in taken.values():
            for popped in messages:
                take(popped)

    def _check_closed(self, queue: tuple[str, str], popped: Popped, master: Process) -> None:
        """Break a promise if the group had messages of a queue in hand, by what the master's log says."""
        now_ms = int(popped.receipt.popped_at_ms)
        for former in self._last.get(queue, ()):
            popped_at_ms = int(former.receipt.popped_at_ms)
            is_open = now_ms < popped_at_ms + int(former.receipt.invisible_ms) and former.key not in self._acknowledged
            if is_open and popped_at_ms == _last_pop_but(now_ms, queue, master):
                self._world.break_promise(f"popped {popped.key} of {queue} while {former.key} is in hand")

    def acknowledge(self) -> None:
        """Acknowledge a message: mostly once, sometimes again."""
        if self._held:
            index = self._random.randrange(len(self._held))
            self._acknowledge(self._held[index] if self._random.random() < 0.1 else self._held.pop(index))

    def _acknowledge(self, popped: Popped) -> None:
        master = self._master()
        if master is None:
            return
        header = AckMessageRequest(
            consumer_group=POPPERS,
            topic=popped.topic,
            queue_id=int(popped.receipt.queue_id),
            extra_info=str(popped.receipt),
            offset=int(popped.receipt.queue_offset),
        )

        self._acknowledged.add(popped.key)
        self._world.tell(f"acknowledgement of {popped.key}")
        master.ask(RequestCode.ACK_MESSAGE, header, on_answer=partial(self._answered, popped))

    def _answered(self, popped: Popped, answer: RemotingCommand) -> None:
        self._world.tell(f"acknowledgement of {popped.key} answered {answer.code} {answer.remark}")

    # -- the end ------------------------------------------------------------------------------------------------

    def left(self) -> str | None:
        """Return a message of the topics that the group has not got and acknowledged; None if there is none."""
        ledger = self._ledger
        keys = {key for key, stored in ledger.stored.items() if stored.place.topic in TOPICS}
        keys.update(ledger.due)
        keys.update(key for key, outcome in ledger.outcomes.items() if outcome == "commit")
        return min(keys - self._acknowledged, default=None)

    def pop_the_rest(self) -> None:
        """Pop everything there is, and acknowledge it at once."""
        for topic in (*TOPICS, LATE_TOPIC):
            self._pop(topic, MOST, LAST_INVISIBLE_MS, self._acknowledge)


def _last_pop_but(now_ms: int, queue: tuple[str, str], master: Process) -> int | None:
    """Return the time of the last pop in order before this moment's that a log has of a queue; None if it has none."""
    store, newest = master.parts.store, (-1, -1)
    revive = revive_topic(master.settings.broker_cluster_name)
    for topic, queue_id in store.queues():
        offset = store.min_offset(topic, queue_id)
        while topic == revive and offset < store.max_offset(topic, queue_id):
            read = store.get_messages(topic, queue_id, offset, MOST, READ_BYTES)
            for message in parse_records(b"".join(read.parts)):
                if message.property_map.get(PropertyName.TAGS) != STATE_TAG:
                    continue
                state = StateRecord.parse(message.body)
                if (state.topic, str(state.queue_id), state.group) == (*queue, POPPERS) and state.order:
                    popped_at_ms = OrderInfoEntry.parse(state.order).popped_at_ms
                    if popped_at_ms != now_ms:
                        newest = max(newest, (message.commit_log_offset, popped_at_ms))
            offset = max(read.next_begin_offset, offset + 1)
    return None if newest[0] < 0 else newest[1]
