"""Acknowledging and hiding popped messages, with receipts that are good, used, too late, or somebody else's."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.pop.pop_ack import MAX_BATCH_MESSAGES
from gateway.delivery.pop.check_points import CheckPoints
from gateway.tests.broker.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    RETRY_TOPIC,
    Popped,
    ack,
    bodies,
    filled,
    pop,
)
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.bodies.pop import MAX_BATCH_BITS
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.disk.revive_log import BatchAckRecord
from wire.headers.declare import build_header

REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", pop_from_retry_probability=0)


def change(broker: WholeBroker, client: Peer, message: Popped, invisible_ms: int) -> RemotingCommand:
    return broker.ask(client, CHANGE, message.changing(invisible_ms))


def renewed(message: Popped, answer: RemotingCommand) -> str:
    """The receipt that a client makes of the answer to a change."""
    words = message.words
    fields = answer.ext_fields
    changed = [words[7], fields["popTime"], fields["invisibleTime"], fields["reviveQid"], *words[4:]]
    return " ".join(changed)


def batch(broker: WholeBroker, client: Peer, *entries: dict[str, Any], **changed: Any) -> RemotingCommand:
    body = {"brokerName": "broker-a", "acks": entries, **changed}
    return broker.ask(client, BATCH_ACK, body=json.dumps(body).encode())


# -- one --------------------------------------------------------------------------------------------------------


def test_an_acknowledgement_repeated_is_no_error(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    first, second = pop(broker, client)
    assert [ack(broker, client, first) for _ in range(2)] == [ResponseCode.SUCCESS] * 2
    assert [ack(broker, client, second) for _ in range(2)] == [ResponseCode.SUCCESS] * 2


def test_acknowledgements_of_one_read_are_one_record(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    popped = pop(broker, client)
    commands = [
        RemotingCommand(ACK, opaque=number, ext_fields=build_header(message.acking()))
        for number, message in enumerate([*popped, popped[0]])
    ]
    client.send(*commands)
    broker.turn()
    assert [(answer.opaque, answer.code) for answer in client.received()] == [(n, 0) for n in range(4)]
    queue_id = int(popped[0].words[3])
    records = broker.messages(REVIVE_TOPIC, queue_id)
    assert [record.property_map["TAGS"] for record in records] == ["ck", "bAck"]
    assert BatchAckRecord.parse(records[1].body).offsets == [0, 1, 2]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 4}, ResponseCode.MESSAGE_ILLEGAL),
        ({"queue_id": -1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": 9}, ResponseCode.NO_MESSAGE),
        ({"offset": -1}, ResponseCode.NO_MESSAGE),
        ({"offset": 1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"extra_info": ""}, ResponseCode.MESSAGE_ILLEGAL),
        ({"extra_info": "forged"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"extra_info": "0 1 2 3 0 broker-b 0 0"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"extra_info": "0 1749999999999 99999999999 3 0 broker-a 0 0"}, ResponseCode.NO_MESSAGE),
        ({"extra_info": "0 1750000000000 60000 999 0 broker-a 0 0"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"consumer_group": "others"}, ResponseCode.NO_MESSAGE),
    ],
)
def test_receipts_that_are_not_good_are_refused_and_settle_nothing(
    broker: WholeBroker, changed: dict[str, Any], code: ResponseCode
) -> None:
    client = filled(broker, "a", "b")
    popped = pop(broker, client)
    for message, request in ((popped[0], ACK), (popped[0], CHANGE)):
        header = message.acking(**changed) if request == ACK else message.changing(5_000, **changed)
        answer = broker.ask(client, request, header)
        assert answer.code == code
        assert answer.remark
    broker.wait(11)
    assert bodies(pop(broker, client)) == [b"a", b"b"]


def test_an_acknowledgement_that_comes_too_late_is_told_so(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    broker.wait(11)
    answer = broker.ask(client, ACK, message.acking())
    assert answer.code == ResponseCode.NO_MESSAGE
    assert "given out again" in (answer.remark or "")
    assert bodies(pop(broker, client)) == [b"a"]


def test_what_cannot_be_written_is_not_acknowledged(broker: WholeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    with monkeypatch.context() as full:
        full.setattr(broker.parts.store._admission, "refusal", "disk full")
        assert ack(broker, client, message) == ResponseCode.SERVICE_NOT_AVAILABLE
        assert change(broker, client, message, 50_000).code == ResponseCode.SYSTEM_ERROR
    assert ack(broker, client, message) == ResponseCode.SUCCESS


def test_what_could_not_be_acknowledged_comes_again(broker: WholeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    with monkeypatch.context() as full:
        full.setattr(broker.parts.store._admission, "refusal", "disk full")
        assert ack(broker, client, message) == ResponseCode.SERVICE_NOT_AVAILABLE
    broker.wait(11)
    assert bodies(pop(broker, client)) == [b"a"]


def test_strangers_records_in_the_revive_topic_do_no_harm(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    for tag, body in (("ck", b"{}"), ("ack", b"\xff"), ("bAck", b"[]"), ("other", b"x"), ("ck", b"")):
        broker.send(client, REVIVE_TOPIC, body or b" ", properties={"TAGS": tag}, queue_id=0)
    assert bodies(pop(broker, client)) == [b"a"]
    again = broker.restart()
    assert len(again.parts.pops.check_points) == 1


# -- many -------------------------------------------------------------------------------------------------------


def test_a_batch_settles_what_it_names_and_passes_over_the_rest(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    first, second, third = pop(broker, client)
    unknown = third.entry(pt=5)
    foreign = third.entry(c="others")
    assert batch(broker, client, first.entry(), second.entry(), unknown, foreign).code == ResponseCode.SUCCESS
    broker.wait(11)
    (again,) = pop(broker, client)
    assert again.record.body == b"c"
    assert batch(broker, client, again.entry()).code == ResponseCode.SUCCESS
    broker.wait(30)
    assert pop(broker, client) == []


def test_a_batch_can_name_ordered_messages(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    first, second = pop(broker, client, order=True)
    assert batch(broker, client, first.entry(), second.entry(), second.entry(pt=5)).code == ResponseCode.SUCCESS
    assert broker.parts.offsets.query("group", "orders", 0) == 2


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"acks": []}, ResponseCode.NO_MESSAGE),
        ({"brokerName": "broker-b"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"acks": [{"c": "group"}]}, ResponseCode.SYSTEM_ERROR),
        ({"acks": "x"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_batch_that_cannot_be_is_refused(broker: WholeBroker, changed: dict[str, Any], code: ResponseCode) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    assert batch(broker, client, message.entry(), **changed).code == code


def test_a_batch_names_only_so_many_messages(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    all_bits = message.entry(so=7, b=base64.b64encode(b"\xff" * (MAX_BATCH_BITS // 8)).decode())
    most = [all_bits] * (MAX_BATCH_MESSAGES // MAX_BATCH_BITS)
    assert batch(broker, client, *most).code == ResponseCode.SUCCESS
    answer = batch(broker, client, message.entry(), *most)
    assert (answer.code, answer.remark) == (
        ResponseCode.MESSAGE_ILLEGAL,
        f"the batch names more than {MAX_BATCH_MESSAGES} messages, the limit",
    )


def test_a_batch_of_nothing_known_is_answered_at_once(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    assert batch(broker, client, message.entry(so=7)).code == ResponseCode.SUCCESS


# -- hiding -----------------------------------------------------------------------------------------------------


def test_a_message_can_be_hidden_for_longer_and_its_new_receipt_is_the_good_one(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    first, second = pop(broker, client)
    broker.wait(5)
    answer = change(broker, client, first, 20_000)
    assert (answer.code, answer.ext_fields["invisibleTime"]) == (ResponseCode.SUCCESS, "20000")
    assert answer.ext_fields["popTime"] == str(broker.clock())
    broker.wait(7)
    assert bodies(pop(broker, client)) == [second.record.body]
    assert ack(broker, client, first) == ResponseCode.NO_MESSAGE
    assert ack(broker, client, first, extra_info=renewed(first, answer)) == ResponseCode.SUCCESS
    broker.wait(20)
    assert bodies(pop(broker, client)) == [second.record.body]


def test_a_message_can_be_given_back_at_once(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    assert change(broker, client, message, 0).code == ResponseCode.SUCCESS
    broker.wait(0.5)
    (again,) = pop(broker, client)
    assert (again.record.body, again.record.reconsume_times) == (b"a", 1)


def test_a_message_changed_twice_in_a_millisecond_is_still_there(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    once = change(broker, client, message, 5_000)
    header = message.changing(6_000, extra_info=renewed(message, once))
    twice = broker.ask(client, CHANGE, header)
    assert twice.code == ResponseCode.SUCCESS
    broker.wait(7)
    assert bodies(pop(broker, client)) == [b"a"]


def test_a_message_changed_again_and_again_in_a_millisecond_searches_no_taken_moments(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    looks: list[object] = []
    is_settled = CheckPoints.is_settled

    def counted(points: CheckPoints, key: Any) -> bool:
        looks.append(key)
        return is_settled(points, key)

    monkeypatch.setattr(CheckPoints, "is_settled", counted)
    receipt, moments = message.receipt, []
    for _ in range(20):
        looks.clear()
        answer = broker.ask(client, CHANGE, message.changing(5_000, extra_info=receipt))
        receipt = renewed(message, answer)
        moments.append(int(answer.ext_fields["popTime"]))
        assert len(looks) <= 2
    assert moments == list(range(moments[0], moments[0] + 20))


def test_a_changed_time_survives_a_kill(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    answer = change(broker, client, message, 60_000)
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    killed.wait(30)
    assert pop(killed, client) == []
    assert ack(killed, client, message, extra_info=renewed(message, answer)) == ResponseCode.SUCCESS
    killed.wait(60)
    assert pop(killed, client) == []


def test_an_ordered_message_can_be_hidden_for_longer_or_less(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client, order=True)
    answer = change(broker, client, message, 20_000)
    assert (answer.ext_fields["popTime"], answer.ext_fields["reviveQid"]) == (message.words[1], "999")
    broker.wait(15)
    assert pop(broker, client, order=True) == []
    assert change(broker, client, message, 0).code == ResponseCode.SUCCESS
    (again,) = pop(broker, client, order=True)
    assert change(broker, client, message, 0).code == ResponseCode.NO_MESSAGE
    assert ack(broker, client, message) == ResponseCode.NO_MESSAGE
    assert ack(broker, client, again) == ResponseCode.SUCCESS


@pytest.mark.parametrize("invisible_ms", [-1, 1 << 40])
def test_times_that_cannot_be_are_refused(broker: WholeBroker, invisible_ms: int) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    assert change(broker, client, message, invisible_ms).code == ResponseCode.INVALID_PARAMETER


def test_retried_messages_are_acknowledged_in_their_retry_topic(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client, invisible_time=1_000)
    broker.wait(2)
    (again,) = pop(broker, client)
    assert again.acking().topic == RETRY_TOPIC
    assert ack(broker, client, again, topic="orders") == ResponseCode.NO_MESSAGE
    assert ack(broker, client, again) == ResponseCode.SUCCESS


@pytest.mark.parametrize("bodies_sent", [("a",), ("a", "b")], ids=["alone", "of several"])
def test_a_replaced_receipt_acknowledges_nothing(broker: WholeBroker, bodies_sent: tuple[str, ...]) -> None:
    client = filled(broker, *bodies_sent)
    message = pop(broker, client)[0]
    answer = change(broker, client, message, 8_000)
    refusal = broker.ask(client, ACK, message.acking())
    assert refusal.code == ResponseCode.NO_MESSAGE
    assert "replaced" in (refusal.remark or "")
    assert batch(broker, client, message.entry()).code == ResponseCode.SUCCESS
    broker.wait(9)
    assert bodies(pop(broker, client)) == [b"a"]
    assert ack(broker, client, message, extra_info=renewed(message, answer)) == ResponseCode.NO_MESSAGE


def test_a_receipt_that_is_being_replaced_acknowledges_nothing(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    message = pop(broker, client)[0]
    client.send(
        RemotingCommand(CHANGE, opaque=1, ext_fields=build_header(message.changing(8_000))),
        RemotingCommand(ACK, opaque=2, ext_fields=build_header(message.acking())),
    )
    broker.turn()
    assert {answer.opaque: answer.code for answer in client.received()} == {1: 0, 2: ResponseCode.NO_MESSAGE}


def test_a_receipt_that_could_not_be_replaced_is_still_good(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a")
    (message,) = pop(broker, client)
    with monkeypatch.context() as full:
        full.setattr(broker.parts.store._admission, "refusal", "disk full")
        assert change(broker, client, message, 50_000).code == ResponseCode.SYSTEM_ERROR
    assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.wait(60)
    assert pop(broker, client) == []


def test_an_ordered_acknowledgement_that_is_repeated_is_answered_when_the_first_is_on_disk(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    first, _ = pop(broker, client, order=True)
    work: list[Callable[[], None]] = []
    broker.in_log_thread = lambda job, done: work.append(lambda: done(job()))
    for opaque in (1, 2):
        client.send(RemotingCommand(ACK, opaque=opaque, ext_fields=build_header(first.acking())))
        broker.turn()
    assert client.received() == []
    while work:
        work.pop(0)()
        broker.turn()
    assert [(answer.opaque, answer.code) for answer in client.received()] == [(1, 0), (2, 0)]
    assert ack(broker, client, first) == ResponseCode.SUCCESS


def test_an_acknowledgement_that_fails_while_neighbours_come_again_leaves_its_message_to_come_again(
    broker: WholeBroker,
) -> None:
    client = filled(broker, "a", "b")
    message, _ = pop(broker, client, invisible_time=1_000)
    point = broker.parts.pops.check_points.find(("orders", "group", 0, 0, int(message.words[1])))
    assert point is not None
    point.acking = point.bit_of(1)  # as while its record is on the way to the disk
    broker.wait(2)
    point.acking = 0  # it did not get there
    assert bodies(pop(broker, client)) == [b"a"]
    broker.wait(3)
    assert bodies(pop(broker, client)) == [b"b"]
