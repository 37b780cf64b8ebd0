"""A client that pops, as tests read it: what it asks, what it gets, and the receipts it makes of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.offsets import ResetOffsetRequest
from wire.headers.pop import AckMessageRequest, ChangeInvisibleTimeRequest, PopMessageRequest
from wire.message.record import StoredMessage, parse_records

POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE
BATCH_ACK, CHANGE = RequestCode.BATCH_ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME
RETRY_TOPIC = "%RETRY%group_orders"
TOPICS = {"0": "orders", "1": RETRY_TOPIC, "2": "%RETRY%group+orders"}


def popping(**changed: Any) -> PopMessageRequest:
    """The header of a pop as the Java client makes it: of any queue, not to be held."""
    values: dict[str, Any] = {
        "consumer_group": "group",
        "topic": "orders",
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": 10_000,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
        "exp_type": "TAG",
        "exp": "*",
    }
    return PopMessageRequest(**{**values, **changed})


def infos(text: str | None) -> dict[tuple[str, str], str]:
    """Kind of topic and queue → the third word."""
    words = [entry.split(" ") for entry in (text or "").split(";") if entry]
    return {(retry, queue_id): rest for retry, queue_id, rest in words}


class Popped:
    """One message of an answer, with the receipt a Java client makes of it."""

    def __init__(self, record: StoredMessage, fields: Mapping[str, str]) -> None:
        self.record = record
        retry = {topic: kind for kind, topic in TOPICS.items()}.get(record.topic, "0")
        start = infos(fields["startOffsetInfo"]).get((retry, str(record.queue_id)))
        made = (
            f"{start} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} {retry} broker-a "
            f"{record.queue_id} {record.queue_offset}"
        )
        self.receipt = record.property_map.get("POP_CK", made)

    @property
    def words(self) -> list[str]:
        return self.receipt.split(" ")

    def acking(self, **changed: Any) -> AckMessageRequest:
        values: dict[str, Any] = {
            "consumer_group": "group",
            "topic": TOPICS[self.words[4]],
            "queue_id": self.record.queue_id,
            "extra_info": self.receipt,
            "offset": self.record.queue_offset,
        }
        return AckMessageRequest(**{**values, **changed})

    def changing(self, invisible_ms: int, **changed: Any) -> ChangeInvisibleTimeRequest:
        ack = self.acking(**changed)
        return ChangeInvisibleTimeRequest(
            consumer_group=ack.consumer_group,
            topic=ack.topic,
            queue_id=ack.queue_id,
            extra_info=ack.extra_info,
            offset=ack.offset,
            invisible_time=invisible_ms,
        )

    def entry(self, **changed: Any) -> dict[str, Any]:
        """Return an entry of a batch of acknowledgements, which names one bit."""
        words = self.words
        bit = self.record.queue_offset - int(words[0])
        values: dict[str, Any] = {
            "c": "group",
            "t": "orders",
            "r": words[4],
            "so": int(words[0]),
            "q": int(words[6]),
            "rq": int(words[3]),
            "pt": int(words[1]),
            "it": int(words[2]),
            "b": list((1 << bit).to_bytes(8, "little")),
        }
        return {**values, **changed}


def messages(answer: RemotingCommand) -> list[Popped]:
    """The messages of an answer."""
    return [Popped(record, answer.ext_fields) for record in parse_records(answer.body)]


def pop(broker: WholeBroker, client: Peer, **changed: Any) -> list[Popped]:
    """The messages of a pop that finds some, or none."""
    answer = broker.ask(client, POP, popping(**changed))
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        return []
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return messages(answer)


def ack(broker: WholeBroker, client: Peer, message: Popped, **changed: Any) -> int:
    """The code that an acknowledgement is answered."""
    return broker.ask(client, ACK, message.acking(**changed)).code


def bodies(popped: list[Popped]) -> list[bytes]:
    """Return the bodies of messages, sorted, because queues come in any order."""
    return sorted(message.record.body for message in popped)


def filled(broker: WholeBroker, *texts: str, **changed: Any) -> Peer:
    """A client that has sent messages with these bodies."""
    client = broker.connect()
    for text in texts:
        broker.send(client, body=text.encode(), **changed)
    return client


def reset(offset: int) -> ResetOffsetRequest:
    """The request that sends the group of the tests elsewhere."""
    return ResetOffsetRequest(topic="orders", group="group", queue_id=0, timestamp=-1, is_force=True, offset=offset)
