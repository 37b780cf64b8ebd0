"""A client of lite topics as tests read it: what it subscribes to, pops and acknowledges."""

from __future__ import annotations

import json
from typing import Any

from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.lite import PopLiteMessageRequest
from wire.headers.pop import AckMessageRequest, ChangeInvisibleTimeRequest
from wire.message.record import StoredMessage, parse_records

POP, CTL = RequestCode.POP_LITE_MESSAGE, RequestCode.LITE_SUBSCRIPTION_CTL
PARENT, GROUP = "parent", "group"
INVISIBLE_MS = 10_000


def made(broker: WholeBroker, *, attributes: dict[str, str] | None = None, group: str = GROUP, **topic: str) -> None:
    """A parent topic, and a group that is bound to it."""
    named = {name.replace("_", "."): value for name, value in topic.items()}
    broker.parts.topics.put(TopicConfig(PARENT, 4, 4, 6, attributes={"message.type": "LITE", **named}))
    bound = {"lite.bind.topic": PARENT, **(attributes or {})}
    broker.parts.groups.put(SubscriptionGroupConfig(group_name=group, attributes=bound))


def send(broker: WholeBroker, lite_topic: str, *texts: str, topic: str = PARENT, **properties: str) -> None:
    """Messages of a lite topic."""
    client = broker.connect()
    for text in texts:
        named = {"__LITE_TOPIC": lite_topic, **properties}
        assert broker.send(client, topic, text.encode(), properties=named).code == ResponseCode.SUCCESS


class Popped:
    """One message, with the receipt that the proxy makes of it."""

    def __init__(self, record: StoredMessage, fields: dict[str, str], counts: str) -> None:
        self.record = record
        self.text = record.body.decode()
        self.lite_topic = record.property_map["__LITE_TOPIC"]
        self.offset = int(record.property_map["INNER_MULTI_QUEUE_OFFSET"])
        self.times = int(counts.split(" ")[-1])
        self.receipt = (
            f"0 {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 broker-a 0 {self.offset} "
            f"{record.commit_log_offset}"
        )


class LiteConsumer:
    """A client of a group."""

    def __init__(self, broker: WholeBroker, client_id: str = "client-1", group: str = GROUP) -> None:
        self.broker = broker
        self.client_id = client_id
        self.group = group
        self.peer: Peer = broker.connect()

    def tell(self, action: str, /, *lite_topics: str, **changed: Any) -> RemotingCommand:
        """Tell subscriptions, whatever the answer."""
        wish = {
            "action": action,
            "clientId": self.client_id,
            "group": self.group,
            "topic": PARENT,
            "liteTopicSet": list(lite_topics),
            "version": 0,
            **changed,
        }
        return self.broker.ask(self.peer, CTL, body=json.dumps({"subscriptionSet": [wish]}).encode())

    def subscribe(self, *lite_topics: str, **changed: Any) -> LiteConsumer:
        answer = self.tell("PARTIAL_ADD", *lite_topics, **changed)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return self

    def popping(self, **changed: Any) -> PopLiteMessageRequest:
        values: dict[str, Any] = {
            "client_id": self.client_id,
            "consumer_group": self.group,
            "topic": PARENT,
            "max_msg_num": 32,
            "invisible_time": INVISIBLE_MS,
            "poll_time": 0,
            "born_time": 0,
        }
        return PopLiteMessageRequest(**{**values, **changed})

    def pop(self, **changed: Any) -> list[Popped]:
        """The messages of a pop that finds some, or none."""
        return popped_of(self.broker.ask(self.peer, POP, self.popping(**changed)))

    def texts(self, **changed: Any) -> list[str]:
        return [message.text for message in self.pop(**changed)]

    def wait(self, poll_ms: int = 15_000, **changed: Any) -> None:
        """Pop when there is nothing."""
        header = self.popping(poll_time=poll_ms, **changed)
        assert self.broker.ask_all(self.peer, POP, header) == []

    def woken(self) -> list[Popped]:
        """Return what the waiting pop has brought."""
        self.broker.turn()
        return [message for answer in self.peer.received() for message in popped_of(answer)]

    def ack(self, *messages: Popped, **changed: Any) -> RemotingCommand:
        """Acknowledge; the last answer."""
        for message in messages:
            values: dict[str, Any] = {
                "consumer_group": self.group,
                "topic": PARENT,
                "queue_id": 0,
                "extra_info": message.receipt,
                "offset": message.offset,
                "lite_topic": message.lite_topic,
            }
            answer = self.broker.ask(self.peer, RequestCode.ACK_MESSAGE, AckMessageRequest(**{**values, **changed}))
        return answer

    def hide(self, message: Popped, invisible_ms: int, **changed: Any) -> RemotingCommand:
        """Change the invisible time of a message."""
        values: dict[str, Any] = {
            "consumer_group": self.group,
            "topic": PARENT,
            "queue_id": 0,
            "extra_info": message.receipt,
            "offset": message.offset,
            "invisible_time": invisible_ms,
            "lite_topic": message.lite_topic,
        }
        header = ChangeInvisibleTimeRequest(**{**values, **changed})
        return self.broker.ask(self.peer, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)


def popped_of(answer: RemotingCommand) -> list[Popped]:
    """The messages of an answer to a pop."""
    fields = answer.ext_fields
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        assert fields["orderCountInfo"] == ""
        return []
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    records = parse_records(answer.body)
    counts = fields["orderCountInfo"].split(";")
    return [Popped(record, dict(fields), count) for record, count in zip(records, counts, strict=True)]
