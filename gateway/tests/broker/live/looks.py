"""Looks at a running broker: each shows what one live setting does now, by what clients see.

A look can be repeated on the same broker. Each time it uses a topic and a group of its own, so that earlier looks leave
nothing that it would see.
"""

from __future__ import annotations

import os
from typing import Final
from unittest.mock import patch

from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport

from gateway.replication.master.role import _no_members
from gateway.store.disk.files import DiskSpace
from gateway.store.message_store import MessageStore
from gateway.tests.broker.lite import lite_client
from gateway.tests.broker.lite.lite_client import PARENT, LiteConsumer
from gateway.tests.broker.popping import Popped, ack, pop, popping
from gateway.tests.broker.whole_broker import WholeBroker, pulling, sending
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode
from wire.headers.pull import BULK_READER
from wire.headers.send import RecallMessageRequest
from wire.headers.topics import CreateTopicRequest
from wire.message.flags import PullFlag, SysFlag
from wire.message.recall_handle import RecallHandle
from wire.message.record import parse_records
from wire.replication.classic import build_report

GIB: Final = 1 << 30
LOG_FILE_BYTES: Final = 1 << 20
BODY_BYTES: Final = 1_000
SLAVE_HOST: Final = "10.0.0.2"
FIRST: Final = 2
"""The number of the topic of the first look."""


class Looks:
    """A broker, and a client that looks at it."""

    def __init__(self, broker: WholeBroker) -> None:
        self.broker = broker
        self.client = broker.connect()
        self.used_percent = 0
        broker.parts.store.deletion.disk_space = self._disk_space  # type: ignore[method-assign]
        self._number = 0
        self.begin()

    def begin(self) -> None:
        """Take another topic and another group."""
        self._number += 1
        self.topic, self.group = f"topic{self._number}", f"group{self._number}"

    def _disk_space(self) -> DiskSpace:
        return DiskSpace(100 * GIB, (100 - self.used_percent) * GIB)

    def _filled(self, count: int, **changed: object) -> None:
        for number in range(count):
            self.broker.send(self.client, self.topic, b"%d" % number * BODY_BYTES, **changed)

    def _put_topic(self, message_type: str) -> None:
        self.broker.parts.topics.put(TopicConfig(self.topic, 4, 4, 6, attributes={"message.type": message_type}))

    # -- sends and topics -----------------------------------------------------------------------------------

    def send(self) -> int:
        """Send to a topic that does not exist; return the code."""
        return self.broker.send(self.client, self.topic).code

    def send_half(self) -> int:
        """Send a half message; return the code."""
        properties = {"TRAN_MSG": "true", "PGROUP": "producers"}
        header = sending(self.topic, properties=properties, sys_flag=SysFlag.TRANSACTION_PREPARED)
        return self.broker.ask(self.client, RequestCode.SEND_MESSAGE, header, b"half").code

    def send_of_another_type(self) -> int:
        """Send a message with a sharding key to a topic for plain messages; return the code."""
        self._put_topic("NORMAL")
        return self.broker.send(self.client, self.topic, properties={"__SHARDINGKEY": "a"}).code

    def make_mixed(self) -> int:
        """Create a topic for messages of all types; return the code."""
        header = CreateTopicRequest(
            topic=self.topic,
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
            attributes="+message.type=MIXED",
        )
        return self.broker.ask(self.client, RequestCode.UPDATE_AND_CREATE_TOPIC, header).code

    def recall(self) -> int:
        """Recall a timer message; return the code."""
        self._filled(1)
        due = str(self.broker.clock() + 60_000)
        handle = RecallHandle(self.topic, "broker-a", due, f"KEY{self.topic}").build()
        header = RecallMessageRequest(producer_group="producers", topic=self.topic, recall_handle=handle)
        return self.broker.ask(self.client, RequestCode.RECALL_MESSAGE, header).code

    # -- pulls ----------------------------------------------------------------------------------------------

    def pull_code(self, code: int = RequestCode.PULL_MESSAGE) -> int:
        """Pull one message; return the code."""
        self.broker.parts.topics.put(TopicConfig(self.topic))
        self._filled(1)
        header = pulling(consumer_group=self.group, topic=self.topic)
        return self.broker.ask(self.client, code, header).code

    def lite_pull_code(self) -> int:
        """Pull one message as a lite pull consumer; return the code."""
        return self.pull_code(RequestCode.LITE_PULL_MESSAGE)

    def pull_of_an_unknown_group(self) -> int:
        """Pull for a group that does not exist; return the code."""
        return self.pull_code()

    def pulled(self, source: int | None = None) -> int:
        """Pull three messages; return how many come."""
        self._filled(3)
        header = pulling(consumer_group=self.group, topic=self.topic, request_source=source)
        return len(parse_records(self.broker.ask(self.client, RequestCode.PULL_MESSAGE, header).body))

    def pulled_in_bulk(self) -> int:
        """Pull three messages as a reader of whole ranges; return how many come."""
        return self.pulled(BULK_READER)

    def pulled_from_disk(self) -> int:
        """Pull three messages that are not in memory; return how many come."""
        with patch.object(MessageStore, "get_messages_now", lambda *_: None):
            return self.pulled()

    def held_s(self) -> int:
        """Pull where nothing is; return after how many seconds the broker has answered.

        The broker looks once a second for pulls whose time is over.
        """
        self._filled(1)
        flags = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND
        header = pulling(1, consumer_group=self.group, topic=self.topic, sys_flag=flags, suspend_timeout_millis=5_000)
        answers = self.broker.ask_all(self.client, RequestCode.PULL_MESSAGE, header)
        for second in range(10):
            if answers:
                return second
            self.broker.wait(1)
            answers = self.client.received()
        raise AssertionError("the pull is not answered")

    # -- pops -----------------------------------------------------------------------------------------------

    def _pop(self, count: int = 1, invisible_ms: int = 60_000) -> list[Popped]:
        wanted = {"topic": self.topic, "consumer_group": self.group, "max_msg_nums": count}
        return pop(self.broker, self.client, invisible_time=invisible_ms, **wanted)

    def _retried(self) -> None:
        """Let one message come again, with a new one beside it."""
        self._filled(1)
        self._pop(invisible_ms=1_000)
        self.broker.wait(3)
        self._filled(1)

    def times_of_popped(self) -> int:
        """Pop where a message that comes again and a new one wait; return how often the popped one came before."""
        self._retried()
        return self._pop()[0].record.reconsume_times

    def times_of_popped_by_priority(self) -> int:
        """Do the same in a topic with priorities."""
        self._put_topic("PRIORITY")
        return self.times_of_popped()

    def names_retry_topic(self) -> bool:
        """Pop a message that comes again; return whether the answer has it under its retry topic."""
        self._retried()
        return any(popped.record.topic != self.topic for popped in self._pop(2))

    def popped_priority(self) -> int:
        """Pop where messages of priorities 0 and 3 wait; return the priority that comes first."""
        self._put_topic("PRIORITY")
        for priority in ("0", "3"):
            self.broker.send(self.client, self.topic, properties={"_SYS_MSG_PRIORITY_": priority})
        return self._pop()[0].record.queue_id

    def second_pop(self) -> int:
        """Pop while a message is in hand; return the code, and acknowledge both."""
        self._filled(2)
        popped = self._pop()
        header = popping(topic=self.topic, consumer_group=self.group, max_msg_nums=1)
        code = self.broker.ask(self.client, RequestCode.POP_MESSAGE, header).code
        for message in popped:
            ack(self.broker, self.client, message, topic=self.topic, consumer_group=self.group)
        self.broker.wait(12)  # the second one is visible again
        return code

    # -- lite topics ----------------------------------------------------------------------------------------

    def is_lite_topic_left(self) -> bool:
        """Let the time of a lite topic pass; return whether the lite topic is still there."""
        lite_client.made(self.broker, lite_topic_expiration="1")
        lite_client.send(self.broker, self.topic, "text")
        self.broker.wait(65)
        return bool(self.broker.messages(f"%LMQ%${PARENT}${self.topic}"))

    def is_silent_client_left(self) -> bool:
        """Subscribe and be silent; return whether the broker still knows the client."""
        lite_client.made(self.broker)
        LiteConsumer(self.broker, self.group).subscribe(self.topic)
        self.broker.wait(3)
        return self.group in [client.client_id for client in self.broker.parts.lite.subscriptions]

    def subscribe_twice(self) -> int:
        """Subscribe to two lite topics; return the code, and unsubscribe."""
        lite_client.made(self.broker)
        consumer = LiteConsumer(self.broker)
        code = consumer.tell("PARTIAL_ADD", "a", "b").code
        consumer.tell("COMPLETE_REMOVE")
        return code

    # -- files ----------------------------------------------------------------------------------------------

    def _deleted(self, *, used: int = 0, hours: int = 0, asked: bool = False) -> int:
        """Let a round of deletion see two full log files of an age; return how many it deletes."""
        directory = self.broker.directory / "commitlog"
        end = self.broker.parts.store.max_commit_log_offset + 2 * LOG_FILE_BYTES
        while self.broker.parts.store.max_commit_log_offset < end:
            self.broker.send(self.client, self.topic, bytes(100_000))
        written_s = self.broker.clock() / 1_000 - hours * 3_600
        for path in directory.iterdir():
            os.utime(path, (written_s, written_s))
        before = set(directory.iterdir())
        self.used_percent = used
        if asked:
            self.broker.ask(self.client, RequestCode.DELETE_EXPIRED_COMMITLOG)
        self.broker.wait(11)  # one round, and its pause between two files
        self.used_percent = 0
        return min(2, len(before - set(directory.iterdir())))

    def deleted_when_asked(self) -> int:
        """Return how many of two log files of 100 hours go when an operator wants it."""
        return self._deleted(hours=100, asked=True)

    def deleted_by_the_hour(self) -> int:
        """Return how many of two log files of 100 hours go at the present hour."""
        return self._deleted(hours=100)

    def deleted_at_60_percent(self) -> int:
        """Return how many of two log files of 100 hours go while 60 % of the disk are used."""
        return self._deleted(used=60, hours=100)

    def deleted_by_force(self) -> int:
        """Return how many of two new log files go while 87 % of the disk are used."""
        return self._deleted(used=87)

    def send_to_a_disk_used_to_92_percent(self) -> int:
        """Send a message while 92 % of the disk are used; return the code."""
        self.used_percent = 92
        self.broker.wait(10)
        code = self.send()
        self.used_percent = 0
        self.broker.wait(10)
        return code

    # -- slaves ---------------------------------------------------------------------------------------------

    def is_log_sent(self) -> bool:
        """Connect as a new slave; return whether it gets a part of the log."""
        self._filled(1)
        master = self.broker.parts.master
        assert master is not None
        if self._number == FIRST:
            master.serve(self.broker.parts.store, _no_members)
        wire = _Wire(peerAddress=IPv4Address("TCP", SLAVE_HOST, 40_000))  # type: ignore[no-untyped-call]
        line = master._serving.buildProtocol(None)
        line.makeConnection(wire)  # type: ignore[no-untyped-call]
        line.dataReceived(build_report(0))
        self.broker.turn()
        sent: bytes = wire.value()  # type: ignore[no-untyped-call]
        return bool(sent)


class _Wire(StringTransport):
    """The transport of a slave's connection."""

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing."""
