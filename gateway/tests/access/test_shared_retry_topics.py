"""``%RETRY%g_t`` belongs to the group ``g_t``, and to pops of ``t`` by ``g``: each way of reading keeps them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.access.guard import Guard
from gateway.remoting.declared import GET, SUB, Kind, Need
from gateway.tests.access.accounts import FakeAccount, everything, guard_of
from gateway.tests.access.test_guard import asked, broker_with, send_to
from gateway.tests.broker.popping import popping
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header, build_header
from wire.headers.pop import PeekMessageRequest
from wire.headers.pull import QueryMessageRequest
from wire.message.flags import PullFlag
from wire.message.record import parse_records

SHARED = "%RETRY%g_t"
ADMIN = FakeAccount("admin", is_admin=True)
BOTH = SUB | GET
CURIOUS = FakeAccount("curious", Need(Kind.GROUP, "g_t", BOTH), Need(Kind.GROUP, "h", BOTH))
OWNER = FakeAccount("owner", *CURIOUS._allowed, Need(Kind.GROUP, "g", BOTH), Need(Kind.TOPIC, "t", BOTH))
ALL_BUT_THE_TOPIC = FakeAccount("most", *everything(), denied=[Need(Kind.TOPIC, "t", ~SUB | SUB)])

Ask = Callable[[str], tuple[RequestCode, Header]]


def pull(group: str) -> tuple[RequestCode, Header]:
    return RequestCode.PULL_MESSAGE, pulling(consumer_group=group, topic=SHARED, sys_flag=PullFlag.SUBSCRIPTION)


def lite_pull(group: str) -> tuple[RequestCode, Header]:
    return RequestCode.LITE_PULL_MESSAGE, pull(group)[1]


def peek(group: str) -> tuple[RequestCode, Header]:
    return RequestCode.PEEK_MESSAGE, PeekMessageRequest(
        consumer_group=group, topic=SHARED, queue_id=-1, max_msg_nums=32
    )


def pop(group: str) -> tuple[RequestCode, Header]:
    return RequestCode.POP_MESSAGE, popping(consumer_group=group, topic=SHARED)


def query(_group: str) -> tuple[RequestCode, Header]:
    return RequestCode.QUERY_MESSAGE, QueryMessageRequest(
        topic=SHARED, key="k", max_num=32, begin_timestamp=0, end_timestamp=1 << 62
    )


WAYS: dict[str, Ask] = {"pull": pull, "lite pull": lite_pull, "peek": peek, "pop": pop, "query": query}


def keyed(text: bytes, topic: str) -> RemotingCommand:
    command = send_to(topic)
    command.ext_fields["i"] = "KEYS\x01k\x02"
    command.body = text
    return command


@pytest.fixture
def guard() -> Guard:
    return guard_of(ADMIN, CURIOUS, OWNER, ALL_BUT_THE_TOPIC)


@pytest.fixture
def broker(tmp_path: Path, guard: Guard) -> Iterator[WholeBroker]:
    """A broker with a message of both kinds in the shared retry topic."""
    broker = broker_with(tmp_path, guard)
    peer = broker.connect()
    assert asked(peer, keyed(b"popped", "t"), ADMIN).code == ResponseCode.SUCCESS
    command = RemotingCommand(
        RequestCode.POP_MESSAGE,
        ext_fields=build_header(popping(consumer_group="g", topic="t", invisible_time=1_000)),
    )
    assert asked(peer, command, ADMIN).code == ResponseCode.SUCCESS
    broker.wait(3)
    assert asked(peer, keyed(b"given back", "other"), ADMIN).code == ResponseCode.SUCCESS
    place = str(broker.messages("other")[-1].commit_log_offset)
    back = {"group": "g_t", "offset": place, "delayLevel": "1", "originTopic": "other"}
    command = RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, ext_fields=back)
    assert asked(peer, command, ADMIN).code == ResponseCode.SUCCESS
    broker.wait(2)
    assert [message.body for message in broker.messages(SHARED)] == [b"popped", b"given back"]
    yield broker
    broker.stop()


def read(broker: WholeBroker, peer: Peer, ask: Ask, group: str, account: FakeAccount) -> list[bytes]:
    code, header = ask(group)
    peer.send(account.sign(RemotingCommand(code, ext_fields=build_header(header))))
    broker.wait(0.1)
    (answer,) = peer.received()
    return [message.body for message in parse_records(answer.body)]


@pytest.mark.parametrize("account", [CURIOUS, ALL_BUT_THE_TOPIC], ids=["of the group", "of all but the topic"])
@pytest.mark.parametrize("group", ["g_t", "h"])
@pytest.mark.parametrize("way", WAYS)
def test_who_may_consume_with_a_group_reads_nothing_that_another_group_popped(
    broker: WholeBroker, way: str, group: str, account: FakeAccount
) -> None:
    assert read(broker, broker.connect(), WAYS[way], group, account) == [b"given back"]


@pytest.mark.parametrize("account", [ADMIN, OWNER], ids=["an administrator", "who has both rights"])
@pytest.mark.parametrize("way", ["pull", "lite pull", "peek", "query"])
def test_who_has_the_rights_of_both_reads_both(broker: WholeBroker, way: str, account: FakeAccount) -> None:
    assert read(broker, broker.connect(), WAYS[way], "h", account) == [b"popped", b"given back"]


@pytest.mark.parametrize("way", ["pull", "lite pull", "peek", "pop"])
def test_the_group_itself_gets_only_its_own_even_if_the_account_may_read_more(broker: WholeBroker, way: str) -> None:
    assert read(broker, broker.connect(), WAYS[way], "g_t", OWNER) == [b"given back"]


def test_a_held_pull_reads_what_its_account_may_read_when_a_message_comes(broker: WholeBroker, guard: Guard) -> None:
    consumer, admin = broker.connect(), broker.connect()
    flags = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND
    header = pulling(offset=2, consumer_group="h", topic=SHARED, sys_flag=flags)
    consumer.send(OWNER.sign(RemotingCommand(RequestCode.PULL_MESSAGE, ext_fields=build_header(header))))
    broker.turn()
    assert consumer.received() == []
    guard._accounts.accounts["owner"] = FakeAccount("owner", *CURIOUS._allowed)  # type: ignore[attr-defined]
    popped = build_header(popping(consumer_group="g", topic="t", invisible_time=1_000))
    assert asked(admin, RemotingCommand(RequestCode.POP_MESSAGE, ext_fields=popped), ADMIN).code == ResponseCode.SUCCESS
    broker.wait(3)
    assert [message.body for message in broker.messages(SHARED)][2:] == [b"popped"]
    assert [answer.body for answer in consumer.received()] in ([], [b""])
