"""Popping: where messages come from, how they are hidden, what comes again, and what a kill leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.pop import AckMessageRequest, ChangeInvisibleTimeRequest, PopMessageRequest
from wire.message.record import StoredMessage, parse_records

POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", pop_from_retry_probability=0)


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


def infos(text: str | None) -> dict[tuple[str, int], str]:
    """Kind of topic and queue → the third word."""
    words = [entry.split(" ") for entry in (text or "").split(";") if entry]
    return {(retry, int(queue_id)): rest for retry, queue_id, rest in words}


class Popped:
    """One message of an answer, with the receipt a Java client makes of it."""

    def __init__(self, record: StoredMessage, fields: Mapping[str, str], retry: str = "0") -> None:
        self.record = record
        starts = infos(fields["startOffsetInfo"])
        made = (
            f"{starts.get((retry, record.queue_id))} {fields['popTime']} {fields['invisibleTime']} "
            f"{fields['reviveQid']} {retry} broker-a {record.queue_id} {record.queue_offset}"
        )
        self.receipt = record.property_map.get("POP_CK", made)

    @property
    def topic(self) -> str:
        kind = self.receipt.split(" ")[4]
        return {"0": "orders", "1": "%RETRY%group_orders", "2": "%RETRY%group+orders"}[kind]

    def acking(self, **changed: Any) -> AckMessageRequest:
        values: dict[str, Any] = {
            "consumer_group": "group",
            "topic": self.topic,
            "queue_id": self.record.queue_id,
            "extra_info": self.receipt,
            "offset": self.record.queue_offset,
        }
        return AckMessageRequest(**{**values, **changed})

    def changing(self, invisible_ms: int) -> ChangeInvisibleTimeRequest:
        header = self.acking()
        return ChangeInvisibleTimeRequest(
            consumer_group=header.consumer_group,
            topic=header.topic,
            queue_id=header.queue_id,
            extra_info=header.extra_info,
            offset=header.offset,
            invisible_time=invisible_ms,
        )


def messages(answer: RemotingCommand) -> list[Popped]:
    return [Popped(record, answer.ext_fields) for record in parse_records(answer.body)]


def pop(broker: WholeBroker, client: Peer, **changed: Any) -> list[Popped]:
    """The messages of a pop that finds some, or none."""
    answer = broker.ask(client, POP, popping(**changed))
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        return []
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return messages(answer)


def bodies(popped: list[Popped]) -> list[bytes]:
    return sorted(message.record.body for message in popped)


def filled(broker: WholeBroker, *texts: str, **changed: Any) -> Peer:
    client = broker.connect()
    for text in texts:
        broker.send(client, body=text.encode(), **changed)
    return client


def ack(broker: WholeBroker, client: Peer, message: Popped, **changed: Any) -> int:
    return broker.ask(client, ACK, message.acking(**changed)).code


# -- what is found ----------------------------------------------------------------------------------------------


def test_a_pop_brings_messages_of_all_queues_with_what_their_receipts_are_made_of(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    broker.send(client, body=b"c", queue_id=2)
    answer = broker.ask(client, POP, popping())
    assert answer.code == ResponseCode.SUCCESS
    assert bodies(messages(answer)) == [b"a", b"b", b"c"]
    fields = answer.ext_fields
    assert infos(fields["startOffsetInfo"]) == {("0", 0): "0", ("0", 2): "0"}
    assert infos(fields["msgOffsetInfo"]) == {("0", 0): "0,1", ("0", 2): "0"}
    assert (fields["popTime"], fields["invisibleTime"]) == (str(broker.clock()), "10000")
    assert 0 <= int(fields["reviveQid"]) < 8
    assert fields["restNum"] == "0"


def test_what_is_popped_is_hidden_from_the_group_and_not_from_others(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    assert bodies(pop(broker, client)) == [b"a", b"b"]
    assert pop(broker, client) == []
    assert bodies(pop(broker, client, consumer_group="others")) == [b"a", b"b"]


def test_what_does_not_fit_is_told_as_rest(broker: WholeBroker) -> None:
    client = filled(broker, *"abcde")
    answer = broker.ask(client, POP, popping(max_msg_nums=2))
    assert bodies(messages(answer)) == [b"a", b"b"]
    assert answer.ext_fields["restNum"] == "3"


def test_acknowledged_messages_never_come_again(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    for message in pop(broker, client):
        assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.wait(60)
    assert pop(broker, client) == []
    assert len(broker.parts.pops.check_points) == 0


def test_what_is_not_acknowledged_comes_again_from_the_retry_topic(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    first = pop(broker, client)
    assert ack(broker, client, first[1]) == ResponseCode.SUCCESS
    broker.wait(9)
    assert pop(broker, client) == []
    broker.wait(2)
    again = pop(broker, client)
    assert bodies(again) == [b"a", b"c"]
    assert [message.record.topic for message in again] == ["orders", "orders"]
    assert [message.record.reconsume_times for message in again] == [1, 1]
    assert {message.receipt.split(" ")[4] for message in again} == {"1"}
    assert [message.record.property_map["1ST_POP_TIME"] for message in again] == [first[0].receipt.split(" ")[1]] * 2
    for message in again:
        assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.wait(60)
    assert pop(broker, client) == []


def test_a_kill_loses_nothing_that_is_open_and_forgets_nothing_that_is_done(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b", "c")
    popped = pop(broker, client)
    ack(broker, client, popped[0])
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    assert pop(killed, client) == []
    assert ack(killed, client, popped[1]) == ResponseCode.SUCCESS
    killed.wait(11)
    assert bodies(pop(killed, client)) == [b"c"]
