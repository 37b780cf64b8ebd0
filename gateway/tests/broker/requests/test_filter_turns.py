"""Filters that cost much: whoever asks with them goes on in turns, gets every message once, and holds up nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.popping import POP, messages, popping
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.remoting.conversation import Peer
from wire.bodies.consumers import CheckClientRequest
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionData
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.message.flags import PullFlag
from wire.message.record import parse_records

PULL = RequestCode.PULL_MESSAGE
COSTLY = " OR ".join(["a < 0.5"] * 1_000 + ["b = 'rare'"])
"""12,000 steps for each message."""
MESSAGES = 120
RARE = [number for number in range(MESSAGES) if number % 17 == 3]


class TurnedBroker(WholeBroker):
    """A broker whose turns of filters are ended by the test."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, pop_from_retry_probability=0)
        self.ends: list[Callable[[], None]] = []
        self.parts.filter_turns._soon = lambda function: self.ends.append(function)

    def end_turn(self) -> None:
        """End one turn."""
        ends, self.ends = self.ends, []
        for function in ends:
            function()
        self.turn()

    def fill(self, count: int = MESSAGES) -> None:
        """Send messages whose properties were never seen before, some of them rare."""
        producer = self.connect()
        for number in range(count):
            properties = {"a": f"{number + 1:0300}", "b": "rare" if number in RARE else "often"}
            self.send(producer, body=b"%d" % number, properties=properties)

    def ask_turned(self, peer: Peer, code: int, header: Any) -> RemotingCommand:
        """Ask, and end turns until the answer comes."""
        answers = self.ask_all(peer, code, header)
        for _ in range(1_000):
            if answers:
                break
            self.end_turn()
            answers = peer.received()
        assert len(answers) == 1
        return answers[0]


@pytest.fixture
def broker(tmp_path: Path) -> TurnedBroker:
    return TurnedBroker(tmp_path / "store")


def costly(offset: int = 0, **changed: Any) -> Any:
    return pulling(offset, **{"expression_type": "SQL92", "subscription": COSTLY, **changed})


def bodies(answer: RemotingCommand) -> list[int]:
    return [int(message.body) for message in parse_records(answer.body)]


def test_a_pull_with_a_costly_filter_is_answered_with_what_was_found_so_far(broker: TurnedBroker) -> None:
    broker.fill()
    client = broker.connect()
    found: list[int] = []
    offset, pulls = 0, 0
    while offset < MESSAGES:
        answer = broker.ask_turned(client, PULL, costly(offset))
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
        found += bodies(answer)
        before, offset = offset, int(answer.ext_fields["nextBeginOffset"])
        assert before < offset <= before + 40
        pulls += 1
    assert found == RARE
    assert pulls >= 5


@pytest.mark.parametrize("is_known", [False, True])
def test_many_pulls_with_costly_filters_have_turns_and_others_go_on_between(
    broker: TurnedBroker, is_known: bool
) -> None:
    broker.fill(30)
    peers = [broker.connect() for _ in range(20)]
    if is_known:
        broker.ask_turned(peers[0], PULL, costly())
        while broker.ends:
            broker.end_turn()
    header = build_header(costly())
    for peer in peers:
        peer.send(*(RemotingCommand(PULL, opaque=number, ext_fields=header) for number in range(8)))
    assert broker.send(broker.connect(), body=b"0").code == ResponseCode.SUCCESS
    answered = [len(peer.received()) for peer in peers]
    assert sum(answered) <= 2, "a turn has steps for two of these pulls at most"
    turns = 0
    while broker.ends:
        broker.end_turn()
        turns += 1
        before, answered = answered, [many + len(peer.received()) for many, peer in zip(answered, peers, strict=True)]
        assert sum(answered) <= sum(before) + 2
        assert max(answered) <= min(answered) + 3, "one of each connection after the other"
    assert answered == [8] * 20
    assert turns >= 60


def test_who_leaves_while_a_pull_waits_for_its_turn_is_forgotten(broker: TurnedBroker) -> None:
    broker.fill(30)
    header = build_header(costly())
    leaving, staying = broker.connect(), broker.connect()
    for peer in (leaving, staying):
        peer.send(*(RemotingCommand(PULL, opaque=number, ext_fields=header) for number in range(4)))
    leaving.transport.loseConnection()
    while broker.ends:
        broker.end_turn()
    assert len(staying.received()) == 4


def test_a_pull_that_waits_is_told_that_its_topic_is_gone(broker: TurnedBroker) -> None:
    broker.fill(30)
    client = broker.connect()
    broker.parts.filter_turns.spend(1 << 40)
    assert broker.ask_all(client, PULL, costly(topic="gone")) == []
    broker.end_turn()
    [answer] = client.received()
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_message_beside_many_held_pulls_wakes_each_once_and_is_found_once(broker: TurnedBroker) -> None:
    peers = [broker.connect() for _ in range(60)]
    broker.fill(1)
    offsets = [1] * len(peers)
    held = {"sys_flag": PullFlag.SUBSCRIPTION | PullFlag.SUSPEND}
    for peer in peers:
        assert broker.ask_all(peer, PULL, costly(1, **held)) == []
    while broker.ends:
        broker.end_turn()
    found: list[list[int]] = [[] for _ in peers]
    producer = broker.connect()
    turns = 0
    for body, kind in ((b"1", "often"), (b"2", "rare"), (b"3", "often"), (b"4", "rare")):
        broker.send(producer, body=body, properties={"a": body.decode() * 300, "b": kind})
        for _ in range(1_000):
            for number, peer in enumerate(peers):
                for answer in peer.received():
                    found[number] += bodies(answer)
                    offsets[number] = int(answer.ext_fields["nextBeginOffset"])
                    broker.ask_all(peer, PULL, costly(offsets[number], **held))
            if not broker.ends:
                break
            broker.end_turn()
            turns += 1
    assert found == [[2, 4]] * len(peers)
    assert len(broker.parts.held) == len(peers)
    assert turns >= 10


def test_pops_with_costly_filters_have_turns_and_find_every_message_once(broker: TurnedBroker) -> None:
    broker.fill()
    peers = [broker.connect() for _ in range(3)]
    terms = {"exp_type": "SQL92", "exp": COSTLY, "poll_time": 15_000, "max_msg_nums": 2, "invisible_time": 60_000}
    waiting = dict.fromkeys(range(len(peers)), True)
    for peer in peers:
        peer.send(RemotingCommand(POP, ext_fields=build_header(popping(born_time=broker.clock(), **terms))))
    found: list[int] = []
    turns = 0
    while len(found) < len(RARE):
        broker.end_turn()
        turns += 1
        assert turns < 1_000
        for number, peer in enumerate(peers):
            for answer in peer.received():
                assert answer.code == ResponseCode.SUCCESS
                found += [int(each.record.body) for each in messages(answer)]
                waiting[number] = False
        for number, peer in enumerate(peers):
            if not waiting[number]:
                peer.send(RemotingCommand(POP, ext_fields=build_header(popping(born_time=broker.clock(), **terms))))
                waiting[number] = True
    assert sorted(found) == RARE
    assert turns >= 5


def test_a_heartbeat_with_a_hundred_long_expressions_compiles_few_of_them(broker: TurnedBroker) -> None:
    client = broker.connect()
    wanted = [
        SubscriptionData(f"t{number}", f"a = {number}" + " " * 15_000, sub_version=1, expression_type="SQL92")
        for number in range(100)
    ]
    consumers = tuple(ConsumerData(f"g{number}", subscriptions=(each,)) for number, each in enumerate(wanted))
    answers = broker.ask_all(
        client, RequestCode.HEART_BEAT, body=HeartbeatData("client-1", consumers=consumers).build()
    )
    assert answers
    assert 1 <= len(broker.parts.filters) <= 2


def test_expressions_are_checked_in_turns(broker: TurnedBroker) -> None:
    client = broker.connect()
    for number in range(20):
        text = f"a = {number} AND test_expressions IS NULL" + " " * 15_000
        wanted = SubscriptionData("orders", text if number % 2 else "=" + text, expression_type="SQL92")
        body = CheckClientRequest("client-1", "group", "", subscription=wanted).build()
        client.send(RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, opaque=number, body=body))
    answers = client.received()
    assert len(answers) <= 1
    while broker.ends:
        broker.end_turn()
        several = client.received()
        assert len(several) <= 1
        answers += several
    assert [answer.opaque for answer in answers] == list(range(20))
    codes = [answer.code for answer in answers]
    assert codes == [ResponseCode.SUBSCRIPTION_PARSE_FAILED, ResponseCode.SUCCESS] * 10
