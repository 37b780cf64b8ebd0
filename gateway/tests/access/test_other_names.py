"""Requests that reach a topic under another name, or without its name, need what they need under its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gateway.remoting.declared import Action, Kind, Need
from gateway.tests.access.accounts import FakeAccount, everything, guard_of
from gateway.tests.access.test_guard import asked, broker_with, send_to
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand

EVERY_ACTION = ~Action(0)
DENIED = (Need(Kind.TOPIC, "secret", EVERY_ACTION), Need(Kind.GROUP, "victims", EVERY_ACTION))
ADMIN = FakeAccount("admin", is_admin=True)
CURIOUS = FakeAccount("curious", *everything(), denied=DENIED)
"""An account that may do everything but with one topic, and with the group that consumes it."""


def broker_of(directory: Path) -> tuple[WholeBroker, Peer]:
    broker = broker_with(directory, guard_of(ADMIN, CURIOUS))
    return broker, broker.connect()


def ask(peer: Peer, account: FakeAccount, code: RequestCode, fields: Mapping[str, str]) -> RemotingCommand:
    return asked(peer, RemotingCommand(code, ext_fields=dict(fields)), account)


def given_back(broker: WholeBroker, peer: Peer, group: str) -> int:
    """Let a group give back a message of the topic ``secret``; return the place of the message that comes again."""
    assert asked(peer, send_to("secret"), ADMIN).code == ResponseCode.SUCCESS
    broker.parts.groups.find(group)
    place = str(broker.messages("secret")[-1].commit_log_offset)
    back = {"group": group, "offset": place, "delayLevel": "1", "originTopic": "secret"}
    assert ask(peer, ADMIN, RequestCode.CONSUMER_SEND_MSG_BACK, back).code == ResponseCode.SUCCESS
    broker.wait(2)
    return broker.messages(f"%RETRY%{group}")[-1].commit_log_offset


def test_a_message_that_a_group_gave_back_is_read_by_its_place_only_by_who_may_read_of_the_group(
    tmp_path: Path,
) -> None:
    broker, peer = broker_of(tmp_path)
    place = {"offset": str(given_back(broker, peer, "victims"))}
    assert ask(peer, ADMIN, RequestCode.VIEW_MESSAGE_BY_ID, place).code == ResponseCode.SUCCESS
    answer = ask(peer, CURIOUS, RequestCode.VIEW_MESSAGE_BY_ID, place)
    assert (answer.code, answer.body) == (ResponseCode.NO_PERMISSION, b"")
    place = {"offset": str(given_back(broker, peer, "others"))}
    assert ask(peer, CURIOUS, RequestCode.VIEW_MESSAGE_BY_ID, place).code == ResponseCode.SUCCESS
    broker.stop()


def test_a_list_of_topics_changes_the_retry_topic_of_a_group_only_for_who_may_create_the_group(tmp_path: Path) -> None:
    broker, peer = broker_of(tmp_path)
    for name, code in (("%RETRY%victims", ResponseCode.NO_PERMISSION), ("%RETRY%others", ResponseCode.SUCCESS)):
        body = json.dumps({"topicConfigList": [{"topicName": name, "readQueueNums": 1, "perm": 0}]}).encode()
        answer = asked(peer, RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body), CURIOUS)
        assert answer.code == code, answer.remark
    assert broker.parts.topics.get("%RETRY%victims") is None
    broker.stop()


def test_offsets_of_all_topics_are_copied_only_by_who_may_change_them_in_each(tmp_path: Path) -> None:
    broker, peer = broker_of(tmp_path)
    offsets = broker.parts.offsets
    broker.parts.groups.find("mine")
    offsets.commit("ahead", "orders", 0, 7)
    offsets.commit("ahead", "%RETRY%ahead", 0, 1)
    cloning = {"srcGroup": "ahead", "destGroup": "mine", "topic": "", "offline": "true"}
    assert ask(peer, CURIOUS, RequestCode.CLONE_GROUP_OFFSET, cloning).code == ResponseCode.SUCCESS
    assert offsets.of_topic("mine", "orders") == {0: 7}
    offsets.commit("ahead", "secret", 0, 5)
    offsets.commit("ahead", "orders", 0, 8)
    answer = ask(peer, CURIOUS, RequestCode.CLONE_GROUP_OFFSET, cloning)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert (offsets.of_topic("mine", "secret"), offsets.of_topic("mine", "orders")) == ({}, {0: 7})
    assert ask(peer, ADMIN, RequestCode.CLONE_GROUP_OFFSET, cloning).code == ResponseCode.SUCCESS
    assert offsets.of_topic("mine", "secret") == {0: 5}
    broker.stop()
