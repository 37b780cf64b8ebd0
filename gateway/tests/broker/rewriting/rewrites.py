"""All ways in which a broker rewrites a message, asked of any broker with the same requests.

``deliveries`` makes one message for each way and returns it as its consumer gets it. What Apache RocketMQ 4.9.7, 5.3.3
and 5.5.0 delivered is in ``rewrites.json``, recorded by ``compat_tests/record_rewrites.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode, ResponseCode
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import PullFlag, SysFlag
from wire.message.message_id import parse_offset_message_id, unpack_host
from wire.message.properties import build_properties, parse_properties
from wire.message.record import StoredMessage, parse_records

RECORDED: Final = Path(__file__).with_name("rewrites.json")
"""By version of Apache RocketMQ, then by way."""
SETTINGS: Final = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s", "recallMessageEnable": "true"}
"""Of a broker that is asked, by Apache RocketMQ's names."""

WHEEL: Final = "rmq_sys_wheel_timer"
REPLIES: Final = "DefaultCluster_REPLY_TOPIC"
LONGEST_WAIT_S: Final = 20.0
PAUSE_S: Final = 0.25
BORN_AT_MS: Final = 1_750_000_000_000
FLAG: Final = 9
TRANSACTIONAL: Final = {"TRAN_MSG": "true", "PGROUP": "producers"}
CLIENT: Final = "rewrites@1"
OLD_CLIENT: Final = 293
"""A 4.3 client, which marks retries of transactional messages as half messages."""

_TIMES: Final = frozenset(
    {
        "TIMER_OUT_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
        "TIMER_DELIVER_MS",
        "1ST_POP_TIME",
        "BORN_TIMESTAMP",
        "PUSH_REPLY_TIME",
    }
)

Row = dict[str, Any]
"""A message as it is delivered: ``properties`` and those fields of its record that a broker may change."""


class Answer(NamedTuple):
    """The answer of a broker."""

    code: int
    fields: Mapping[str, str]
    body: bytes
    remark: str


class Broker(Protocol):
    """A connection to a broker.

    ``address`` is that of the client. ``pushed`` are the header fields of the broker's own requests, which are answered
    with SUCCESS.
    """

    address: tuple[str, int]
    pushed: list[tuple[int, Mapping[str, str]]]

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"", *, version: int = 479) -> Answer:
        """Send one request and return its answer."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def now_ms(self) -> int:
        """The broker's time."""


class NotTakenError(Exception):
    """The broker does not take a request.

    :param code: its answer.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{code}: {remark}")
        self.code = code


class Way:
    """One way: a topic, a group, a body and a unique key of its own."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        word = name.replace(" ", "-")
        self.body = word.encode()
        self.topic, self.group, self.key = f"T_{word}", f"G_{word}", f"unique-{word}"
        self.sent_id = ""

    # -- what a client does ---------------------------------------------------------------------------------

    def send(
        self,
        more: Mapping[str, str] | None = None,
        *,
        topic: str = "",
        version: int = 479,
        fields: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send the message with the properties of a stock producer and ``more``."""
        more = more or {}
        properties = {"KEYS": "k1 k2", "TAGS": "green", "UNIQ_KEY": self.key, "WAIT": "true", "mine": "1", **more}
        header = self.header(topic or self.topic, properties)
        if "TRAN_MSG" in more:
            header["sysFlag"] = str(int(SysFlag.TRANSACTION_PREPARED))
        answer = self.taken(
            self.broker.ask(RequestCode.SEND_MESSAGE, {**header, **(fields or {})}, self.body, version=version)
        )
        self.sent_id = answer.fields["msgId"].partition(",")[0]
        return answer

    def header(self, topic: str, properties: Mapping[str, str]) -> dict[str, str]:
        """The fields of a send."""
        return {
            "producerGroup": "producers",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "1",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": str(BORN_AT_MS),
            "flag": str(FLAG),
            "properties": build_properties(properties).decode(),
            "reconsumeTimes": "0",
            "unitMode": "false",
            "batch": "false",
        }

    def taken(self, answer: Answer) -> Answer:
        """:raises NotTakenError: the broker did not take what it was asked."""
        if answer.code != ResponseCode.SUCCESS:
            raise NotTakenError(answer.code, answer.remark)
        return answer

    def received(self, topic: str = "", wanted: Callable[[StoredMessage], bool] | None = None) -> StoredMessage:
        """Pull until the message is there."""
        waited = 0.0
        while waited < LONGEST_WAIT_S:
            for record in self.pulled(topic or self.topic):
                if record.body == self.body if wanted is None else wanted(record):
                    return record
            self.broker.wait(PAUSE_S)
            waited += PAUSE_S
        raise TimeoutError(f"{self.body!r} is not in {topic or self.topic} after {LONGEST_WAIT_S} s")

    def stored(self) -> StoredMessage:
        """The message as it waits: the record that the answer to the send named."""
        fields = {"offset": str(parse_offset_message_id(self.sent_id)[1]), "topic": self.topic}
        [record] = parse_records(self.taken(self.broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, fields)).body)
        return record

    def pulled(self, topic: str) -> list[StoredMessage]:
        """All messages of the first queue."""
        found: list[StoredMessage] = []
        while True:
            fields = {
                "consumerGroup": self.group,
                "topic": topic,
                "queueId": "0",
                "queueOffset": str(found[-1].queue_offset + 1 if found else 0),
                "maxMsgNums": "32",
                "sysFlag": str(int(PullFlag.SUBSCRIPTION)),
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
                "expressionType": "TAG",
            }
            answer = self.broker.ask(RequestCode.PULL_MESSAGE, fields)
            if answer.code != ResponseCode.SUCCESS:
                return found
            found += parse_records(answer.body)

    def commit(self, sent: Answer) -> None:
        """Commit the half message."""
        fields = {
            "topic": self.topic,
            "producerGroup": "producers",
            "tranStateTableOffset": sent.fields["queueOffset"],
            "commitLogOffset": str(parse_offset_message_id(sent.fields["msgId"])[1]),
            "commitOrRollback": str(int(SysFlag.TRANSACTION_COMMIT)),
            "fromTransactionCheck": "false",
            "msgId": self.key,
            "transactionId": self.key,
        }
        self.taken(self.broker.ask(RequestCode.END_TRANSACTION, fields))

    def send_back(self, record: StoredMessage, level: int) -> StoredMessage:
        """Say that consuming a message failed; the message that comes of it."""
        fields = {
            "offset": str(record.commit_log_offset),
            "group": self.group,
            "delayLevel": str(level),
            "originMsgId": self.key,
            "originTopic": record.topic,
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        }
        self.taken(self.broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields))
        times = record.reconsume_times + 1
        topic = f"%DLQ%{self.group}" if level < 0 else self.retry_topic
        return self.received(topic, lambda found: found.reconsume_times == times)

    @property
    def retry_topic(self) -> str:
        return f"%RETRY%{self.group}"

    def pop_again(self, topic: str = "") -> StoredMessage:
        """Pop the message without acknowledging it; the message that comes of it."""
        fields = {
            "consumerGroup": self.group,
            "topic": topic or self.topic,
            "queueId": "-1",
            "maxMsgNums": "32",
            "invisibleTime": "1000",
            "pollTime": "0",
            "bornTime": "0",
            "initMode": "0",
            "expType": "TAG",
            "exp": "*",
            "order": "false",
        }
        self.taken(self.broker.ask(RequestCode.POP_MESSAGE, fields))
        return self.received(f"%RETRY%{self.group}_{self.topic}")

    # -- how it is compared ---------------------------------------------------------------------------------

    def row(self, record: StoredMessage) -> Row:
        """The message as the table has it: names and ids of this way alone have words instead."""
        return {
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "reconsumeTimes": record.reconsume_times,
            "bornTimestamp": "kept" if record.born_at_ms == BORN_AT_MS else "changed",
            "bornHost": "kept" if unpack_host(record.born_host) == self.broker.address else "changed",
            "preparedTransactionOffset": "0" if record.prepared_transaction_offset == 0 else "set",
            "properties": self.words(record.property_map),
        }

    def words(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Properties in which what differs each time is replaced."""
        return {name: self._word(name, properties[name]) for name in sorted(properties)}

    def _word(self, name: str, value: str) -> str:
        if name in _TIMES:
            return "(ms)" if value.isdecimal() else value
        if name in ("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID") and value != self.key:
            return "(offset id)" if value == self.sent_id else "(another offset id)"
        if name == "POP_CK":
            return "(receipt)"
        for text, word in ((self.key, "(unique key)"), (self.topic, "(topic)"), (self.group, "(group)")):
            value = value.replace(text, word)
        return value


def plain(way: Way) -> StoredMessage:
    way.send()
    return way.received()


def level(way: Way, more: Mapping[str, str] | None = None) -> StoredMessage:
    way.send({"DELAY": "1", **(more or {})})
    return way.received()


def level_and_time(way: Way) -> StoredMessage:
    return level(way, {"TIMER_DELAY_SEC": "60"})


def level_waiting(way: Way) -> StoredMessage:
    way.send({"DELAY": "1"})
    return way.stored()


def time_ms(way: Way) -> StoredMessage:
    way.send({"TIMER_DELAY_MS": "1500"})
    return way.received()


def time_seconds(way: Way) -> StoredMessage:
    way.send({"TIMER_DELAY_SEC": "2"})
    return way.received()


def time_absolute(way: Way) -> StoredMessage:
    way.send({"TIMER_DELIVER_MS": str(way.broker.now_ms() + 2_000)})
    return way.received()


def time_over(way: Way) -> StoredMessage:
    way.send({"TIMER_DELAY_MS": "0"})
    return way.received()


def time_waiting(way: Way) -> StoredMessage:
    way.send({"TIMER_DELAY_SEC": "3"})
    return way.stored()


def half(way: Way) -> StoredMessage:
    way.send(TRANSACTIONAL)
    return way.stored()


def committed(way: Way) -> StoredMessage:
    way.commit(way.send(TRANSACTIONAL))
    return way.received()


def sent_back(way: Way) -> StoredMessage:
    return way.send_back(plain(way), 1)


def sent_back_twice(way: Way) -> StoredMessage:
    return way.send_back(sent_back(way), 1)


def level_sent_back(way: Way) -> StoredMessage:
    return way.send_back(level(way), 2)


def time_sent_back(way: Way) -> StoredMessage:
    return way.send_back(time_ms(way), 1)


def committed_sent_back(way: Way) -> StoredMessage:
    return way.send_back(committed(way), 1)


def dead_letter(way: Way) -> StoredMessage:
    return way.send_back(plain(way), -1)


def dead_letter_after_retry(way: Way) -> StoredMessage:
    return way.send_back(sent_back(way), -1)


def dead_letter_after_level(way: Way) -> StoredMessage:
    return way.send_back(level(way), -1)


def dead_letter_after_commit(way: Way) -> StoredMessage:
    return way.send_back(committed(way), -1)


def client_retry(
    way: Way, times: int = 1, topic: str = "", version: int = 479, more: Mapping[str, str] | None = None
) -> StoredMessage:
    """Send a message to the retry topic, as a Java consumer does when sending it back failed."""
    way.pulled(way.topic)  # which makes the group
    way.send(
        {"RETRY_TOPIC": way.topic, "DELAY": "1", **(more or {})},
        topic=way.retry_topic,
        version=version,
        fields={"reconsumeTimes": str(times), "maxReconsumeTimes": "16"},
    )
    return way.received(topic or way.retry_topic)


def client_retry_of_transaction(way: Way) -> StoredMessage:
    return client_retry(way, version=OLD_CLIENT, more=TRANSACTIONAL)


def client_dead_letter(way: Way) -> StoredMessage:
    return client_retry(way, 17, f"%DLQ%{way.group}")


def pop_retry(way: Way) -> StoredMessage:
    way.send()
    return way.pop_again()


def pop_retry_after_level(way: Way) -> StoredMessage:
    level(way)
    return way.pop_again()


def pop_retry_after_time(way: Way) -> StoredMessage:
    time_ms(way)
    return way.pop_again()


def pop_retry_after_commit(way: Way) -> StoredMessage:
    committed(way)
    return way.pop_again()


def request(way: Way) -> StoredMessage:
    way.send({"CORRELATION_ID": "c1", "REPLY_TO_CLIENT": CLIENT, "TTL": "3000"})
    return way.received()


def _replied(way: Way) -> None:
    data = HeartbeatData(CLIENT, producers=("repliers",))
    way.broker.ask(RequestCode.HEART_BEAT, {}, data.build())
    properties = {"CORRELATION_ID": "c1", "REPLY_TO_CLIENT": CLIENT, "TTL": "3000", "MSG_TYPE": "reply"}
    properties |= {"UNIQ_KEY": way.key, "WAIT": "true"}
    way.taken(way.broker.ask(RequestCode.SEND_REPLY_MESSAGE, way.header(REPLIES, properties), way.body))


def reply_stored(way: Way) -> StoredMessage:
    _replied(way)
    return way.received(REPLIES)


def reply_pushed(way: Way) -> Row:
    _replied(way)
    [fields] = [fields for code, fields in way.broker.pushed if way.key in fields.get("properties", "")]
    return {
        "flag": int(fields["flag"]),
        "sysFlag": int(fields["sysFlag"]),
        "reconsumeTimes": int(fields["reconsumeTimes"]),
        "bornTimestamp": "kept" if int(fields["bornTimestamp"]) == BORN_AT_MS else "changed",
        "bornHost": "kept" if fields["bornHost"].lstrip("/") == ":".join(map(str, way.broker.address)) else "changed",
        "preparedTransactionOffset": "0",
        "properties": way.words(parse_properties(fields["properties"])),
    }


def recall_marker(way: Way) -> StoredMessage:
    answer = way.send({"TIMER_DELAY_SEC": "5"})
    handle = answer.fields.get("recallHandle")
    if handle is None:
        raise NotTakenError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no recall handle")
    fields = {"producerGroup": "producers", "topic": way.topic, "recallHandle": handle}
    way.taken(way.broker.ask(RequestCode.RECALL_MESSAGE, fields))
    return way.received(WHEEL, lambda record: way.key in record.property_map.get("TIMER_DEL_UNIQKEY", ""))


def batch(way: Way, more: Mapping[str, str] | None = None) -> StoredMessage:
    inner = {"TAGS": "green", "UNIQ_KEY": way.key, "WAIT": "true", "mine": "1"}
    header = {**way.header(way.topic, {"WAIT": "true", "UNIQ_KEY": "of-the-batch", **(more or {})}), "batch": "true"}
    body = build_batch([BatchPart(FLAG, way.body, build_properties(inner)), BatchPart(0, b"other", b"")])
    way.sent_id = way.taken(way.broker.ask(RequestCode.SEND_MESSAGE, header, body)).fields["msgId"].partition(",")[0]
    return way.received()


def batch_with_header(way: Way) -> StoredMessage:
    return batch(way, {"theirs": "2"})


WAYS: Final[dict[str, Callable[[Way], StoredMessage | Row]]] = {
    "sent": plain,
    "level, waiting": level_waiting,
    "level": level,
    "level and time": level_and_time,
    "time, waiting": time_waiting,
    "time in milliseconds": time_ms,
    "time in seconds": time_seconds,
    "time as a date": time_absolute,
    "time that is over": time_over,
    "half message": half,
    "committed": committed,
    "sent back": sent_back,
    "sent back twice": sent_back_twice,
    "level, sent back": level_sent_back,
    "time, sent back": time_sent_back,
    "committed, sent back": committed_sent_back,
    "dead letter": dead_letter,
    "dead letter after a retry": dead_letter_after_retry,
    "dead letter after a level": dead_letter_after_level,
    "dead letter after a commit": dead_letter_after_commit,
    "client's own retry": client_retry,
    "old client's retry of a transactional message": client_retry_of_transaction,
    "client's own dead letter": client_dead_letter,
    "pop retry": pop_retry,
    "pop retry after a level": pop_retry_after_level,
    "pop retry after a time": pop_retry_after_time,
    "pop retry after a commit": pop_retry_after_commit,
    "request": request,
    "reply, stored": reply_stored,
    "reply, pushed": reply_pushed,
    "recall marker": recall_marker,
    "batch": batch,
    "batch with a property in its header": batch_with_header,
}


def deliveries(broker: Broker) -> dict[str, Row]:
    """Return the deliveries of a broker, by way."""
    rows: dict[str, Row] = {}
    for number, (name, deliver) in enumerate(WAYS.items()):
        way = Way(broker, f"way {number}")
        try:
            found = deliver(way)
        except NotTakenError as refusal:
            rows[name] = {"refused": refusal.code}
        except TimeoutError:
            rows[name] = {"refused": "never delivered"}
        else:
            rows[name] = found if isinstance(found, dict) else way.row(found)
    return rows


def recorded() -> dict[str, dict[str, Row]]:
    """Return the deliveries of Apache RocketMQ, by version and way."""
    found: dict[str, dict[str, Row]] = json.loads(RECORDED.read_text())
    return found
