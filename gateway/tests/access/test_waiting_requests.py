"""A request that waited is judged by the account as it is then: who was shut out gets no message that comes later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.access.audit import Told
from gateway.access.guard import MAX_NOTED, MORE, Guard
from gateway.delivery.filters.turns import TURN_STEPS
from gateway.remoting.declared import SUB, Kind, Need
from gateway.tests.access.accounts import FakeAccount, guard_of
from gateway.tests.access.test_guard import asked, broker_with, send_to
from gateway.tests.broker.popping import popping
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header, build_header
from wire.headers.pop import NotificationRequest
from wire.message.flags import PullFlag
from wire.message.record import parse_records

ADMIN = FakeAccount("admin", is_admin=True)
RIGHTS = Need(Kind.TOPIC, "orders", SUB), Need(Kind.GROUP, "group", SUB)
HELD: dict[RequestCode, Header] = {
    RequestCode.PULL_MESSAGE: pulling(sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND, offset=1),
    RequestCode.POP_MESSAGE: popping(poll_time=15_000),
    RequestCode.NOTIFICATION: NotificationRequest(
        consumer_group="group", topic="orders", queue_id=-1, poll_time=15_000, born_time=0
    ),
}


def changed(how: str) -> FakeAccount | None:
    """Return what an account has become; None if it was deleted."""
    account = FakeAccount("shop", *RIGHTS, is_enabled=how != "disabled")
    if how == "denied":
        return FakeAccount("shop", RIGHTS[1])
    if how == "password":
        account.secret = b"another one"
    return None if how == "deleted" else account


def held(directory: Path, code: RequestCode) -> tuple[WholeBroker, Guard, Peer]:
    """Return a broker that holds a request of an account."""
    account = FakeAccount("shop", *RIGHTS)
    guard = guard_of(ADMIN, account)
    broker = broker_with(directory, guard)
    sender, consumer = broker.connect(), broker.connect()
    assert asked(sender, send_to("orders"), ADMIN).code == ResponseCode.SUCCESS
    if code != RequestCode.PULL_MESSAGE:
        command = RemotingCommand(RequestCode.POP_MESSAGE, ext_fields=build_header(popping()))
        assert asked(consumer, command, account).code == ResponseCode.SUCCESS
    consumer.send(account.sign(RemotingCommand(code, opaque=5, ext_fields=build_header(HELD[code]))))
    broker.turn()
    assert consumer.received() == []
    return broker, guard, consumer


def sent(broker: WholeBroker) -> None:
    assert asked(broker.connect(), send_to("orders"), ADMIN).code == ResponseCode.SUCCESS
    broker.wait(1)


@pytest.mark.parametrize("how", ["deleted", "disabled", "denied", "password"])
@pytest.mark.parametrize("code", HELD)
def test_a_held_request_of_who_was_shut_out_is_refused_when_a_message_comes(
    tmp_path: Path, code: RequestCode, how: str
) -> None:
    broker, guard, consumer = held(tmp_path, code)
    now = changed(how)
    accounts = guard._accounts.accounts  # type: ignore[attr-defined]
    del accounts["shop"]
    if now is not None:
        accounts["shop"] = now
    sent(broker)
    (answer,) = consumer.received()
    texts = {"deleted": "not found", "disabled": "is disabled", "denied": "Topic:orders", "password": "signature"}
    assert (answer.code, answer.body) == (ResponseCode.NO_PERMISSION, b"")
    assert texts[how] in (answer.remark or "")
    broker.stop()


@pytest.mark.parametrize("code", HELD)
def test_a_held_request_of_an_account_that_changed_otherwise_gets_the_message(
    tmp_path: Path, code: RequestCode
) -> None:
    broker, guard, consumer = held(tmp_path, code)
    guard._accounts.accounts["shop"] = FakeAccount("shop", *RIGHTS)  # type: ignore[attr-defined]
    sent(broker)
    (answer,) = consumer.received()
    assert answer.code == ResponseCode.SUCCESS
    if code == RequestCode.NOTIFICATION:
        assert answer.ext_fields["hasMsg"] == "true"
    else:
        assert len(parse_records(answer.body)) == 1
    broker.stop()


def test_a_message_that_woke_a_pop_of_who_was_shut_out_goes_to_the_next_one(tmp_path: Path) -> None:
    broker, guard, consumer = held(tmp_path, RequestCode.POP_MESSAGE)
    other = broker.connect()
    command = RemotingCommand(RequestCode.POP_MESSAGE, ext_fields=build_header(popping(poll_time=15_000)))
    other.send(ADMIN.sign(command))
    broker.turn()
    del guard._accounts.accounts["shop"]  # type: ignore[attr-defined]
    sent(broker)
    assert [answer.code for answer in consumer.received()] == [ResponseCode.NO_PERMISSION]
    assert [answer.code for answer in other.received()] == [ResponseCode.SUCCESS]
    broker.stop()


@pytest.mark.parametrize("code", [RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.CLONE_GROUP_OFFSET])
def test_a_request_that_waits_until_its_peer_reads_is_judged_once_more(tmp_path: Path, code: RequestCode) -> None:
    boss = FakeAccount("boss", is_admin=True)
    guard = guard_of(ADMIN, boss)
    broker = broker_with(tmp_path, guard)
    peer = broker.connect()
    assert asked(broker.connect(), send_to("orders"), ADMIN).code == ResponseCode.SUCCESS
    broker.parts.offsets.commit("ahead", "orders", 0, 7)
    peer.transport.full()
    peer.channel.send(RemotingCommand(0, body=bytes(2 << 20)))
    broker.conversation.server.flush_group.flush()
    fields = {"offset": "0", "srcGroup": "ahead", "destGroup": "mine", "topic": "orders", "offline": "true"}
    peer.send(boss.sign(RemotingCommand(code, opaque=5, ext_fields=fields)))
    broker.turn()
    del guard._accounts.accounts["boss"]  # type: ignore[attr-defined]
    peer.transport.empty()
    broker.wait(1)
    (answer,) = [answer for answer in peer.received() if answer.opaque == 5]
    assert (answer.code, answer.body) == (ResponseCode.NO_PERMISSION, b"")
    assert broker.parts.offsets.of_topic("mine", "orders") == {}
    broker.stop()


@pytest.mark.parametrize("cut", ["before it looks", "while it looks"])
def test_a_pop_that_waited_for_a_turn_and_then_until_its_peer_reads_is_judged_once_more(
    tmp_path: Path, cut: str
) -> None:
    account = FakeAccount("shop", *RIGHTS)
    guard = guard_of(ADMIN, account)
    broker = broker_with(tmp_path, guard)
    make = {"topic": "orders", "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    make |= {"readQueueNums": "600", "writeQueueNums": "600"}
    message = send_to("orders")
    message.ext_fields["e"] = "599"
    for command in (RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, ext_fields=make), message):
        assert asked(broker.connect(), command, ADMIN).code == ResponseCode.SUCCESS
    consumer = broker.connect()
    broker.parts.filter_turns.spend(TURN_STEPS if cut == "before it looks" else TURN_STEPS - 1)
    consumer.send(account.sign(RemotingCommand(RequestCode.POP_MESSAGE, ext_fields=build_header(popping()))))
    consumer.transport.full()
    consumer.channel.send(RemotingCommand(0, body=bytes(2 << 20)))
    broker.wait(1)
    del guard._accounts.accounts["shop"]  # type: ignore[attr-defined]
    consumer.transport.empty()
    broker.wait(1)
    assert [answer.code for answer in consumer.received()] == [0, ResponseCode.NO_PERMISSION]
    broker.stop()


def test_a_refused_pull_that_was_held_is_noted_by_itself_after_a_request_with_many_refusals(tmp_path: Path) -> None:
    told: list[Told] = []
    account = FakeAccount("shop", *RIGHTS)
    guard = guard_of(ADMIN, account, told=told)
    broker = broker_with(tmp_path, guard)
    consumer, other = broker.connect(), broker.connect()
    assert asked(other, send_to("orders"), ADMIN).code == ResponseCode.SUCCESS
    code = RequestCode.PULL_MESSAGE
    consumer.send(account.sign(RemotingCommand(code, opaque=5, ext_fields=build_header(HELD[code]))))
    broker.turn()
    queues = [{"topic": f"t{number}", "brokerName": "b", "queueId": 0} for number in range(2 * MAX_NOTED)]
    body = json.dumps({"consumerGroup": "group", "clientId": "c", "mqSet": queues}).encode()
    asked(other, RemotingCommand(RequestCode.LOCK_BATCH_MQ, body=body), account)
    assert told[-1].rule == MORE
    guard._accounts.accounts["shop"] = FakeAccount("shop", RIGHTS[1])  # type: ignore[attr-defined]
    broker.parts.held.wake_topic("orders")
    broker.wait(1)
    (answer,) = consumer.received()
    assert answer.code == ResponseCode.NO_PERMISSION
    assert (told[-1].code, told[-1].resource) == (code, "Topic:orders")
    broker.stop()
