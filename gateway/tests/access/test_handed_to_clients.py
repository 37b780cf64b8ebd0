"""The broker hands nothing to clients of an account that was shut out meanwhile, and the audit file tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.access.audit import Told
from gateway.access.guard import Guard
from gateway.broker.requests.sending.reply import PUSHES_AT_ONCE
from gateway.remoting.declared import SUB, Kind, Need
from gateway.tests.access.accounts import FakeAccount, guard_of
from gateway.tests.access.test_guard import asked, broker_with, send_to
from gateway.tests.access.test_waiting_requests import changed
from gateway.tests.broker.whole_broker import WholeBroker, sending
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.message.message_id import build_offset_message_id

ADMIN = FakeAccount("admin", is_admin=True)
RIGHTS = Need(Kind.TOPIC, "orders", SUB), Need(Kind.GROUP, "group", SUB)
REPLY = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "waits"}
REASONS = {"deleted": "no such account", "disabled": "disabled account", "password": "wrong signature"}


class House:
    """A broker with a client of the account ``shop``, and what the audit is told."""

    def __init__(self, directory: Path) -> None:
        self.told: list[Told] = []
        self.account = FakeAccount("shop", *RIGHTS)
        self.guard: Guard = guard_of(ADMIN, self.account, told=self.told)
        self.broker: WholeBroker = broker_with(directory, self.guard)
        self.client, self.other = self.broker.conversation.connect("10.0.0.7"), self.broker.connect()
        body = HeartbeatData("waits", producers=("p",), consumers=(ConsumerData(group="group"),)).build()
        heartbeat = RemotingCommand(RequestCode.HEART_BEAT, version=500, body=body)
        assert asked(self.client, heartbeat, self.account).code == ResponseCode.SUCCESS

    def becomes(self, account: FakeAccount | None) -> None:
        """Replace the client's account; None deletes it."""
        accounts = self.guard._accounts.accounts  # type: ignore[attr-defined]
        accounts.pop("shop")
        if account is not None:
            accounts["shop"] = account

    def reply(self) -> None:
        """Send a reply for the client."""
        fields = build_header(sending(topic="DefaultCluster_REPLY_TOPIC", properties=REPLY, queue_id=-1))
        self.other.send(ADMIN.sign(RemotingCommand(RequestCode.SEND_REPLY_MESSAGE, ext_fields=fields, body=b"yes")))
        self.broker.turn()

    def refusal(self, code: RequestCode, resource: str, action: str, rule: str) -> Told:
        """Return what the audit has to tell of the client."""
        return Told("shop", "10.0.0.7", code, resource, action, rule, "waits")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A broker with a client."""
    house = House(tmp_path)
    yield house
    house.broker.stop()


def pushed(peer: Peer) -> list[bytes]:
    return [command.body for command in peer.received() if command.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT]


@pytest.mark.parametrize("how", REASONS)
def test_a_reply_is_not_pushed_to_a_client_whose_account_was_shut_out(house: House, how: str) -> None:
    house.becomes(changed(how))
    house.reply()
    assert pushed(house.client) == []
    (answer,) = house.other.received()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "push reply message fail, the account of <waits> is not let in any more."
    assert house.told == [house.refusal(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, "", "", REASONS[how])]


def test_a_reply_is_pushed_to_a_client_whose_account_has_other_rights_now(house: House) -> None:
    house.becomes(FakeAccount("shop"))
    house.reply()
    assert pushed(house.client) == [b"yes"]
    assert house.told == []
    house.client.leave()
    house.broker.turn()


def test_a_reply_that_waits_for_others_is_judged_when_its_turn_comes(house: House) -> None:
    for _ in range(PUSHES_AT_ONCE + 1):
        house.reply()
    pushes = [command for command in house.client.received() if not command.is_response]
    assert len(pushes) == PUSHES_AT_ONCE
    house.becomes(None)
    house.client.send(pushes[0].response(ResponseCode.SUCCESS))
    house.broker.turn()
    assert pushed(house.client) == []
    codes = [answer.code for answer in house.other.received()]
    assert sorted(codes) == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR]
    house.client.leave()
    house.broker.turn()


@pytest.mark.parametrize("how", [*REASONS, "denied"])
def test_a_message_is_not_consumed_directly_by_who_was_shut_out_and_the_audit_tells_of_the_client(
    house: House, how: str
) -> None:
    assert asked(house.other, send_to("orders"), ADMIN).code == ResponseCode.SUCCESS
    (message,) = house.broker.messages("orders")
    house.becomes(changed(how))
    message_id = build_offset_message_id(message.store_host, message.commit_log_offset)
    fields = {"consumerGroup": "group", "clientId": "waits", "msgId": message_id}
    house.other.send(ADMIN.sign(RemotingCommand(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext_fields=fields)))
    house.broker.turn()
    (answer,) = house.other.received()
    assert (answer.code, house.client.received()) == (ResponseCode.NO_PERMISSION, [])
    expected = ("Topic:orders", "Sub", "no matched policies") if how == "denied" else ("", "", REASONS[how])
    assert house.told == [house.refusal(RequestCode.CONSUME_MESSAGE_DIRECTLY, *expected)]
