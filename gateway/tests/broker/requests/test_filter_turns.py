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
from wire.headers.offsets import UpdateConsumerOffsetRequest
from wire.headers.topics import DeleteTopicRequest
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
        self.clock_failures = 0
        super().__init__(directory, pop_from_retry_probability=0)
        self.ends: list[Callable[[], None]] = []
        self.parts.filter_turns._soon = lambda function: self.ends.append(function)

    def clock(self) -> int:
        """A clock like that of other brokers; fails as often as the test asks."""
        if self.clock_failures:
            self.clock_failures -= 1
            raise ZeroDivisionError("the clock is broken")
        return super().clock()

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


def test_a_pull_with_a_short_expression_is_not_behind_long_ones_of_others(broker: TurnedBroker) -> None:
    broker.fill(1)
    attackers = [broker.connect() for _ in range(20)]
    for number, attacker in enumerate(attackers):
        expression = f"{COSTLY} OR c = {number}"
        assert broker.ask_all(attacker, PULL, costly(subscription=expression)) == [] or number == 0
    honest = broker.connect()
    assert broker.ask_all(honest, PULL, costly(subscription="b IS NOT NULL")) == []
    broker.end_turn()
    assert [answer.code for answer in honest.received()] == [ResponseCode.SUCCESS]
    assert sum(len(attacker.received()) for attacker in attackers[1:]) <= 1


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
    assert broker.ask_all(client, PULL, costly()) == []
    delete = DeleteTopicRequest(topic="orders")
    assert broker.ask(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, delete).code == ResponseCode.SUCCESS
    broker.end_turn()
    [answer] = client.received()
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


LARGE = bytes(600_000)
"""Two of these fill a connection."""
OTHERS = pulling(expression_type="SQL92", subscription="c IS NULL", max_msg_nums=1)


def filled_with_large(directory: Path) -> TurnedBroker:
    """A broker with one large message, after which pulls cost what they cost."""
    broker = TurnedBroker(directory)
    broker.send(broker.connect(), body=LARGE, properties={"a": "1"})
    return broker


def ask_many(broker: TurnedBroker, peer: Peer, header: Any, many: int) -> None:
    """Let requests arrive in one read, in a turn of which filters have used up everything."""
    broker.parts.filter_turns.spend(1 << 40)
    fields = build_header(header)
    peer.send(*(RemotingCommand(PULL, opaque=number, ext_fields=fields) for number in range(many)))


def test_pulls_that_waited_for_a_turn_wait_until_their_peer_has_read(tmp_path: Path) -> None:
    broker = filled_with_large(tmp_path / "store")
    peer = broker.connect()
    ask_many(broker, peer, OTHERS, 60)
    answers = peer.received()
    for _ in range(200):
        peer.transport.full()
        broker.end_turn()
        assert peer.channel.unsent_bytes <= 3 << 20
        peer.transport.empty()
        answers += peer.received()
    assert [answer.opaque for answer in answers] == list(range(60))
    assert {len(answer.body) > len(LARGE) for answer in answers} == {True}
    assert not broker.ends


def test_a_pop_that_waited_for_a_turn_takes_nothing_until_its_peer_has_read(tmp_path: Path) -> None:
    broker = filled_with_large(tmp_path / "store")
    full, reading = broker.connect(), broker.connect()
    broker.parts.filter_turns.spend(1 << 40)
    full.send(RemotingCommand(POP, ext_fields=build_header(popping(exp_type="SQL92", exp="c IS NULL"))))
    full.transport.full()
    full.channel.send(RemotingCommand(1, body=bytes(2 << 20)))
    for _ in range(3):
        broker.end_turn()
    broker.send(broker.connect(), body=b"second")
    assert [each.record.body for each in messages(broker.ask(reading, POP, popping(max_msg_nums=1)))] == [LARGE]
    full.transport.empty()
    for _ in range(3):
        broker.end_turn()
    assert [each.record.body for each in messages(full.received()[-1])] == [b"second"]


def test_a_connection_that_closes_while_its_pulls_wait_for_room_and_for_a_turn(tmp_path: Path) -> None:
    broker = filled_with_large(tmp_path / "store")
    leaving, staying = broker.connect(), broker.connect()
    for peer in (leaving, staying):
        ask_many(broker, peer, OTHERS, 8)
    leaving.transport.full()
    broker.end_turn()
    leaving.leave()
    for _ in range(50):
        broker.end_turn()
    assert len(staying.received()) == 8
    assert not broker.ends
    assert broker.conversation.server.room.total_bytes == 0


HELD = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND
COMMITTING = {"sys_flag": PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET, "commit_offset": 1}


def committed(broker: TurnedBroker) -> int:
    """Return the offset of the group after a commit."""
    return broker.parts.offsets.query("group", "orders", 0)


@pytest.mark.parametrize("waits_for", ["room", "a turn"])
def test_an_offset_committed_while_a_pull_waits_is_not_set_back(tmp_path: Path, waits_for: str) -> None:
    broker = filled_with_large(tmp_path / "store")
    peer, other = broker.connect(), broker.connect()
    if waits_for == "room":
        peer.transport.full()
        peer.channel.send(RemotingCommand(1, body=bytes(2 << 20)))
        asked = pulling(**COMMITTING)
    else:
        broker.parts.filter_turns.spend(1 << 40)
        asked = costly(**COMMITTING)
    assert broker.ask_all(peer, PULL, asked) == []
    assert committed(broker) == 1
    update = UpdateConsumerOffsetRequest(consumer_group="group", topic="orders", queue_id=0, commit_offset=5)
    assert broker.ask(other, RequestCode.UPDATE_CONSUMER_OFFSET, update).code == ResponseCode.SUCCESS
    if waits_for == "room":
        peer.transport.empty()
    for _ in range(5):
        broker.end_turn()
    assert peer.received()[-1].code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
    assert committed(broker) == 5


def test_a_pull_that_fails_in_its_turn_is_answered_and_others_go_on(tmp_path: Path) -> None:
    broker = filled_with_large(tmp_path / "store")
    failing, other = broker.connect(), broker.connect()
    held = pulling(1, expression_type="SQL92", subscription="c IS NULL", sys_flag=HELD)
    ask_many(broker, failing, held, 1)
    ask_many(broker, other, OTHERS, 1)
    broker.clock_failures = 1
    broker.end_turn()
    assert [answer.code for answer in failing.received()] == [ResponseCode.SYSTEM_ERROR]
    assert [answer.code for answer in other.received()] == [ResponseCode.SUCCESS]


def test_a_pop_that_fails_in_its_turn_is_answered_and_others_go_on(tmp_path: Path) -> None:
    broker = filled_with_large(tmp_path / "store")
    failing, other = broker.connect(), broker.connect()
    broker.parts.filter_turns.spend(1 << 40)
    failing.send(RemotingCommand(POP, ext_fields=build_header(popping(exp_type="SQL92", exp="c IS NULL"))))
    ask_many(broker, other, OTHERS, 1)
    broker.clock_failures = 1
    broker.end_turn()
    assert [answer.code for answer in failing.received()] == [ResponseCode.SYSTEM_ERROR]
    assert [answer.code for answer in other.received()] == [ResponseCode.SUCCESS]


def full_and_reading(broker: TurnedBroker) -> tuple[Peer, Peer]:
    """Two members of a group whose pops are held; the first does not read what is sent to it."""
    full, reading = broker.connect(), broker.connect()
    for peer in (full, reading):
        header = popping(poll_time=10_000, born_time=broker.clock())
        assert broker.ask_all(peer, POP, header) == []
    full.transport.full()
    full.channel.send(RemotingCommand(1, body=bytes(2 << 20)))
    broker.conversation.server.flush_group.flush()
    return full, reading


def test_a_woken_pop_of_a_peer_that_does_not_read_leaves_the_message_to_another(broker: TurnedBroker) -> None:
    producer = broker.connect()
    broker.send(producer, body=b"first")
    assert len(broker.ask(producer, POP, popping(invisible_time=60_000)).body) > 0
    _, reading = full_and_reading(broker)
    broker.send(producer, body=b"second")
    broker.turn()
    [answer] = reading.received()
    assert [each.record.body for each in messages(answer)] == [b"second"]


def test_a_woken_pop_that_waits_for_room_until_its_time_is_over_takes_nothing(broker: TurnedBroker) -> None:
    producer = broker.connect()
    broker.send(producer, body=b"first")
    assert len(broker.ask(producer, POP, popping(invisible_time=60_000)).body) > 0
    full, reading = full_and_reading(broker)
    reading.leave()
    broker.send(producer, body=b"second")
    broker.wait(11)
    full.transport.empty()
    broker.turn()
    assert full.received()[-1].code == ResponseCode.POLLING_TIMEOUT
    assert [each.record.body for each in messages(broker.ask(producer, POP, popping()))] == [b"second"]


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
