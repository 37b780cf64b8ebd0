"""Steps of producers and consumers, as requests of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.metadata.names import HALF_TOPIC
from gateway.tests.simulation.ledger import GROUP, Ledger, Place
from gateway.tests.simulation.process import Process
from gateway.tests.simulation.world import World
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.offsets import UpdateConsumerOffsetRequest
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.headers.topics import CreateTopicRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.properties import PropertyName, build_properties

QUEUES = ("A", 0), ("A", 1), ("B", 0)
LATE_TOPIC = "C"
SIZES = (0, 10, 100, 300, 900)
PRODUCERS = "producers"


@dataclass(frozen=True, slots=True)
class Half:
    """A half message that its producer knows of."""

    key: str
    queue_offset: int
    log_offset: int


class Clients:
    """The clients of one history.

    :param master: returns the process that takes requests now; None while there is none.
    """

    def __init__(self, world: World, ledger: Ledger, master: Callable[[], Process | None]) -> None:
        self._world = world
        self._random = world.random
        self._ledger = ledger
        self._master = master
        self._halves: list[Half] = []
        self._asked: dict[str, Process] = {}
        self._topics = 0
        self._known = {topic for topic, _ in QUEUES}
        self.has_late_topic = False
        """True if delayed messages make ``LATE_TOPIC``, which gets no other ones."""
        self.sent = self.answered_ok = self.answered_without = self.refused = 0

    # -- sends --------------------------------------------------------------------------------------------------

    def _message(self) -> tuple[str, bytes]:
        self.sent += 1
        key = f"U{self.sent:05d}"
        return key, key.encode() + b"." * self._random.choice(SIZES)

    def send(self, *, waits: bool = True) -> None:
        """Send a message."""
        master = self._master()
        if master is None:
            return
        key, body = self._message()
        topic, queue_id = self._random.choice(QUEUES)
        header = self._header(topic, queue_id, {PropertyName.UNIQ_KEY: key, PropertyName.WAIT: str(waits).lower()})
        self._ask_send(master, RequestCode.SEND_MESSAGE, header, body, partial(self._sent, master, key, body, waits))

    def send_delayed(self) -> None:
        """Send a message with a delay level."""
        master = self._master()
        if master is None:
            return
        key, body = self._message()
        topic, queue_id = self._random.choice(QUEUES)
        if self.has_late_topic and self.sent % 2:
            topic, queue_id = LATE_TOPIC, 0
        self._ledger.delayed.add(key)  # whether it is answered or not
        properties = {PropertyName.UNIQ_KEY: key, PropertyName.DELAY: self._random.choice("12")}
        header = self._header(topic, queue_id, properties)
        done = partial(self._delayed_sent, master, key, body, topic)
        self._ask_send(master, RequestCode.SEND_MESSAGE, header, body, done)

    def _delayed_sent(self, master: Process, key: str, body: bytes, topic: str, answer: RemotingCommand) -> None:
        if self._counted(answer):
            (log_offset,) = _log_offsets(answer.ext_fields["msgId"])
            record = master.parts.store.message_at(log_offset)
            if record is None:
                self._world.break_promise(f"{key} is acknowledged and not in the log of its master")
                return
            place = Place(record.topic, record.queue_id, record.queue_offset)
            self._ledger.acknowledge(key, body, place, log_offset, master)
            self._ledger.due[key] = topic

    def send_hasty(self) -> None:
        """Send a message and wait for no disk."""
        self.send(waits=False)

    def send_batch(self) -> None:
        """Send some messages as one."""
        master = self._master()
        if master is None:
            return
        topic, queue_id = self._random.choice(QUEUES)
        messages = [self._message() for _ in range(self._random.randint(2, 5))]
        parts = [BatchPart(0, body, build_properties({PropertyName.UNIQ_KEY: key})) for key, body in messages]
        plain = self._header(topic, queue_id, {PropertyName.WAIT: "true"})
        names = {name: getattr(plain, name) for name in plain.__struct_fields__}
        header = ShortSendMessageRequest(**{**names, "batch": True})
        done = partial(self._batch_sent, master, messages, topic)
        self._ask_send(master, RequestCode.SEND_BATCH_MESSAGE, header, build_batch(parts), done)

    def _header(self, topic: str, queue_id: int, properties: dict[str, str]) -> SendMessageRequest:
        return SendMessageRequest(
            producer_group=PRODUCERS,
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=2,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=self._world.now_us // 1_000,
            flag=0,
            properties=build_properties(properties).decode(),
        )

    def _ask_send(self, master: Process, code: int, header: Any, body: bytes, done: Any) -> None:
        master.ask(code, header, body, on_answer=done)

    def _counted(self, answer: RemotingCommand, count: int = 1) -> bool:
        """Return whether messages were answered SEND_OK."""
        self._world.tell(f"answer {answer.code}")
        if answer.code == ResponseCode.SUCCESS:
            self.answered_ok += count
            return True
        if answer.code in (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT):
            self.answered_without += count
        else:
            self.refused += count
        return False

    def _sent(self, master: Process, key: str, body: bytes, waits: bool, answer: RemotingCommand) -> None:
        if self._counted(answer) and waits:
            fields = answer.ext_fields
            (log_offset,) = _log_offsets(fields["msgId"])
            record = master.parts.store.message_at(log_offset)
            topic = "" if record is None else record.topic
            place = Place(topic, int(fields["queueId"]), int(fields["queueOffset"]))
            self._ledger.acknowledge(key, body, place, log_offset, master)

    def _batch_sent(
        self, master: Process, messages: list[tuple[str, bytes]], topic: str, answer: RemotingCommand
    ) -> None:
        if self._counted(answer, len(messages)):
            fields = answer.ext_fields
            queue_id, first = int(fields["queueId"]), int(fields["queueOffset"])
            places = _log_offsets(fields["msgId"])
            for number, ((key, body), log_offset) in enumerate(zip(messages, places, strict=True)):
                self._ledger.acknowledge(key, body, Place(topic, queue_id, first + number), log_offset, master)

    # -- transactions -------------------------------------------------------------------------------------------

    def half(self) -> None:
        """Send a half message."""
        master = self._master()
        if master is None:
            return
        key, body = self._message()
        topic, queue_id = self._random.choice(QUEUES)
        properties = {
            PropertyName.UNIQ_KEY: key,
            PropertyName.TRAN_MSG: "true",
            PropertyName.PGROUP: PRODUCERS,
        }
        header = self._header(topic, queue_id, properties)
        self._ask_send(master, RequestCode.SEND_MESSAGE, header, body, partial(self._half_sent, master, key, body))

    def _half_sent(self, master: Process, key: str, body: bytes, answer: RemotingCommand) -> None:
        is_ok = self._counted(answer)
        fields = answer.ext_fields
        if "queueOffset" not in fields:
            return
        (log_offset,) = _log_offsets(fields["msgId"])
        half = Half(key, int(fields["queueOffset"]), log_offset)
        if is_ok:
            self._ledger.acknowledge(key, body, Place(HALF_TOPIC, 0, half.queue_offset), log_offset, master)
            self._halves.append(half)
        else:  # its producer rolls it back
            self._end(master, half, "rollback")

    def end(self) -> None:
        """Tell an outcome: mostly a new one, sometimes again or the contrary."""
        master = self._master()
        if master is None or not self._halves:
            return
        index = self._random.randrange(len(self._halves))
        half = self._halves[index] if self._random.random() < 0.3 else self._halves.pop(index)
        self._end(master, half, self._random.choice(("commit", "rollback")))

    def _end(self, master: Process, half: Half, outcome: str) -> None:
        self._world.tell(f"{outcome} {half.key}")
        kind = SysFlag.TRANSACTION_COMMIT if outcome == "commit" else SysFlag.TRANSACTION_ROLLBACK
        header = EndTransactionRequest(
            producer_group=PRODUCERS,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=int(kind),
            msg_id=half.key,
        )
        first = self._asked.setdefault(half.key, master)
        done = partial(self._ended, half.key, outcome, first is master)
        master.ask(RequestCode.END_TRANSACTION, header, on_answer=done)

    def _ended(self, key: str, outcome: str, is_new: bool, answer: RemotingCommand) -> None:
        self._world.tell(f"answer {answer.code} {answer.remark}")
        if answer.code == ResponseCode.SUCCESS and is_new:  # a restarted master knows what no slave has
            self._ledger.decide(key, outcome)

    # -- consumers and tables -----------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit an offset of messages that were read."""
        master = self._master()
        if master is None:
            return
        queue = self._random.choice(QUEUES)
        ends = [
            place.offset + 1
            for place, (_, is_weak) in self._ledger.shown.items()
            if (place.topic, place.queue_id) == queue and not is_weak
        ]
        before = self._ledger.values.get(queue, -1)
        end = max(ends, default=0)
        if end <= before:
            return
        offset = self._random.randint(before + 1, end)
        header = UpdateConsumerOffsetRequest(
            consumer_group=GROUP, topic=queue[0], queue_id=queue[1], commit_offset=offset
        )
        done = partial(self._committed, queue, offset, master)
        master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header, on_answer=done)

    def _committed(self, queue: tuple[str, int], offset: int, master: Process, answer: RemotingCommand) -> None:
        if answer.code == ResponseCode.SUCCESS:
            self._ledger.commit(queue, offset, master)

    def create_topic(self, topic: str = "") -> None:
        """Create a topic."""
        master = self._master()
        if master is None:
            return
        self._topics += not topic
        header = CreateTopicRequest(
            topic=topic or f"T{self._topics}",
            default_topic="TBW102",
            read_queue_nums=2,
            write_queue_nums=2,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header, on_answer=lambda _: None)


def _log_offsets(message_ids: str) -> list[int]:
    return [parse_offset_message_id(text)[1] for text in message_ids.split(",")]
