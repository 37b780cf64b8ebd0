"""Pulling: the checks in their order, where to go on, and pulls that are held until something comes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.delivery.held_bytes import SHORT_BYTES
from gateway.in_thread import Failed
from gateway.remoting.dispatch import Request
from gateway.store.disk.files import FileLayer
from gateway.store.reading.get_result import GetResult
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionData, SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.headers.pull import BULK_READER
from wire.message.flags import PullFlag
from wire.message.record import parse_records

PULL = RequestCode.PULL_MESSAGE
LITE_PULL = RequestCode.LITE_PULL_MESSAGE
SUSPEND = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def filled(broker: WholeBroker, *tags: str, topic: str = "orders") -> Peer:
    """A client that has sent a message of each tag."""
    client = broker.connect()
    for tag in tags:
        broker.send(client, topic, tag.encode(), properties={"TAGS": tag})
    return client


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [message.body for message in parse_records(answer.body)]


def place(answer: RemotingCommand) -> tuple[int, str | None, int]:
    """Code, status and where to go on."""
    return answer.code, answer.remark, int(answer.ext_fields["nextBeginOffset"])


# -- what is found ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [PULL, LITE_PULL])
def test_messages_come_with_the_place_to_go_on_from(broker: WholeBroker, code: RequestCode) -> None:
    client = filled(broker, "a", "b", "c")
    answer = broker.ask(client, code, pulling(1))
    assert place(answer) == (ResponseCode.SUCCESS, "FOUND", 3)
    assert answer.ext_fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "3",
        "offsetDelta": "0",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    assert bodies(answer) == [b"b", b"c"]


def test_the_answer_carries_the_flags_of_topic_and_group(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.parts.topics.put(TopicConfig("orders", 4, 4, 6, topic_sys_flag=1))
    broker.parts.groups.put(SubscriptionGroupConfig("group", group_sys_flag=2))
    fields = broker.ask(client, PULL, pulling()).ext_fields
    assert (fields["topicSysFlag"], fields["groupSysFlag"]) == ("1", "2")


@pytest.mark.parametrize(("asked", "got"), [(2, 2), (100, 3), (0, 1), (-5, 1)])
def test_count_is_limited_by_request_and_broker_and_never_below_one(tmp_path: Path, asked: int, got: int) -> None:
    broker = WholeBroker(tmp_path / "store", max_transfer_count_on_message_in_memory=3)
    client = filled(broker, *"abcde")
    assert len(bodies(broker.ask(client, PULL, pulling(max_msg_nums=asked)))) == got


def test_a_reader_of_whole_ranges_has_limits_of_its_own(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", max_transfer_count_on_message_in_memory=1, bulk_read_count=3)
    client = filled(broker, *"abcde")
    assert len(bodies(broker.ask(client, PULL, pulling(request_source=BULK_READER)))) == 3
    assert len(bodies(broker.ask(client, PULL, pulling(request_source=BULK_READER, max_msg_nums=2)))) == 2
    assert len(bodies(broker.ask(client, PULL, pulling(request_source=0)))) == 1
    few_bytes = WholeBroker(tmp_path / "other", bulk_read_bytes=1)
    client = filled(few_bytes, *"ab")
    assert len(bodies(few_bytes.ask(client, PULL, pulling(request_source=BULK_READER)))) == 1


@pytest.mark.parametrize("limit", [1, -1])
def test_one_message_comes_however_few_bytes_are_asked_for(broker: WholeBroker, limit: int) -> None:
    client = filled(broker, "a", "b")
    assert bodies(broker.ask(client, PULL, pulling(max_msg_bytes=limit))) == [b"a"]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (2, (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 2)),
        (3, (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 2)),
        (-1, (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0)),
    ],
)
def test_offsets_outside_the_queue_are_corrected(
    broker: WholeBroker, offset: int, expected: tuple[int, str, int]
) -> None:
    answer = broker.ask(filled(broker, "a", "b"), PULL, pulling(offset))
    assert place(answer) == expected
    assert (answer.ext_fields["minOffset"], answer.ext_fields["maxOffset"]) == ("0", "2")


@pytest.mark.parametrize(("offset", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (5, ResponseCode.PULL_OFFSET_MOVED)])
def test_a_queue_without_messages_starts_at_zero(broker: WholeBroker, offset: int, code: ResponseCode) -> None:
    client = filled(broker, "a")
    answer = broker.ask(client, PULL, pulling(offset, queue_id=1))
    assert place(answer) == (code, "NO_MATCHED_LOGIC_QUEUE", 0)


# -- the checks, in their order ---------------------------------------------------------------------------------


def test_a_write_only_broker_gives_nothing(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", broker_permission=2)
    answer = broker.ask(broker.connect(), PULL, pulling(topic="missing"))
    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("changed", "settings", "code"),
    [
        ({"topic": "missing"}, {"auto_create_subscription_group": False}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"consumer_group": "../x"}, {}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"topic": "missing", "queue_id": 99}, {}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "../../x"}, {}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 4}, {}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": -1}, {}, ResponseCode.INVALID_PARAMETER),
        ({"subscription": "||"}, {}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression_type": "SQL92", "subscription": "a >"}, {}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression_type": "SQL92", "subscription": ""}, {}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression_type": "JAVA", "subscription": "a > 1"}, {}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (
            {"expression_type": "SQL92", "subscription": "a > 1"},
            {"enable_property_filter": False},
            ResponseCode.SYSTEM_ERROR,
        ),
        ({"sys_flag": 0}, {}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
    ],
)
def test_what_is_refused(tmp_path: Path, changed: dict[str, Any], settings: dict[str, Any], code: ResponseCode) -> None:
    broker = WholeBroker(tmp_path / "store", **settings)
    client = filled(broker, "a")
    answer = broker.ask(client, PULL, pulling(**changed))
    assert answer.code == code
    assert answer.remark
    assert broker.ask(client, PULL, pulling(consumer_group="CID_RMQ_SYS_x")).code == ResponseCode.SUCCESS


def test_a_group_or_topic_that_may_not_be_read_is_refused(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.parts.groups.put(SubscriptionGroupConfig("group", consume_enable=False))
    assert broker.ask(client, PULL, pulling(topic="missing")).code == ResponseCode.NO_PERMISSION
    broker.parts.topics.put(TopicConfig("orders", 4, 4, perm=2))
    assert broker.ask(client, PULL, pulling(consumer_group="other")).code == ResponseCode.NO_PERMISSION


def test_a_pull_without_its_own_subscription_needs_a_heartbeat_with_this_topic(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    filled(broker, "a", topic="other")
    broker.subscribe(client, expression="b")
    assert bodies(broker.ask(client, PULL, pulling(sys_flag=0))) == [b"b"]
    assert broker.ask(client, PULL, pulling(sys_flag=0, topic="other")).code == ResponseCode.SUBSCRIPTION_NOT_EXIST


def told(broker: WholeBroker, client: Peer, expression: str, kind: str, version: int) -> None:
    """A heartbeat."""
    wanted = subscription("orders", version, expression)
    if kind != "TAG":
        wanted = SubscriptionData("orders", expression, sub_version=version, expression_type=kind)
    data = HeartbeatData("client-1", consumers=(ConsumerData("group", subscriptions=(wanted,)),))
    broker.ask_all(client, RequestCode.HEART_BEAT, body=data.build())


# Java clients raise the version whenever they share out the queues. The heartbeat that tells it may be left out; the
# next one comes up to 30 s later. Until then nobody asks the client: its answer could need threads that are busy with
# waiting for answers of ours (docs/requests-to-clients.md).


def test_a_client_with_newer_tags_than_its_heartbeats_told_gets_everything_and_is_asked_nothing(
    broker: WholeBroker,
) -> None:
    client = filled(broker, "a", "b", "c")
    told(broker, client, "b", "TAG", 1)
    newer = pulling(sys_flag=0, sub_version=2, expression_type="TAG")
    assert bodies(broker.ask(client, PULL, newer)) == [b"a", b"b", b"c"]
    broker.wait(5)
    assert client.received() == []
    told(broker, client, "c", "TAG", 2)
    assert bodies(broker.ask(client, PULL, newer)) == [b"c"]


@pytest.mark.parametrize(("known", "newer"), [("TAG", "SQL92"), ("SQL92", "TAG"), ("SQL92", "SQL92")])
def test_a_newer_expression_waits_for_the_heartbeat_that_tells_it(broker: WholeBroker, known: str, newer: str) -> None:
    client = filled(broker, "a", "b")
    told(broker, client, "TAGS = 'b'" if known == "SQL92" else "b", known, 1)
    pull = pulling(sys_flag=0, sub_version=2, expression_type=newer)
    refused = broker.ask(client, PULL, pull)
    assert refused.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert "heartbeat" in (refused.remark or "")
    told(broker, client, "TAGS = 'a'" if newer == "SQL92" else "a", newer, 2)
    assert bodies(broker.ask(client, PULL, pull)) == [b"a"]


def test_a_newer_expression_that_the_pull_carries_waits_for_nothing(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    told(broker, client, "TAGS = 'b'", "SQL92", 1)
    pull = pulling(sub_version=2, expression_type="SQL92", subscription="TAGS = 'a'")
    assert bodies(broker.ask(client, PULL, pull)) == [b"a"]


def test_broadcasting_is_refused_to_groups_that_may_not(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.parts.groups.put(SubscriptionGroupConfig("group", consume_broadcast_enable=False))
    data = ConsumerData("group", message_model="BROADCASTING", subscriptions=(subscription("orders"),))
    broker.ask(client, RequestCode.HEART_BEAT, body=HeartbeatData("c", consumers=(data,)).build())
    assert broker.ask(client, PULL, pulling(sys_flag=0)).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(("field", "value"), [("queueOffset", None), ("maxMsgNums", "many")])
def test_missing_and_wrong_fields_are_named(broker: WholeBroker, field: str, value: str | None) -> None:
    fields = build_header(pulling())
    del fields[field]
    if value is not None:
        fields[field] = value
    answer = broker.ask(broker.connect(), PULL, fields=fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in (answer.remark or "")


# -- tags -------------------------------------------------------------------------------------------------------


def test_only_messages_with_the_tags_come_and_the_others_are_passed_over(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c", "a", "b")
    answer = broker.ask(client, PULL, pulling(subscription="a || c"))
    assert bodies(answer) == [b"a", b"c", b"a"]
    assert place(answer)[2] == 5
    nothing = broker.ask(client, PULL, pulling(subscription="d", sys_flag=SUSPEND))
    assert place(nothing) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 5)


# -- SQL92 ------------------------------------------------------------------------------------------------------

COLOURS: dict[str, Any] = {"expression_type": "SQL92", "subscription": "colour = 'red' OR size > 5"}


def coloured(broker: WholeBroker, *colours: str, queue_id: int = 0) -> Peer:
    """A client that has sent a message of each colour."""
    client = broker.connect()
    for colour in colours:
        broker.send(client, "orders", colour.encode(), properties={"colour": colour}, queue_id=queue_id)
    return client


def subscribe_to_colours(broker: WholeBroker, client: Peer, expression: str, version: int) -> None:
    wanted = SubscriptionData("orders", expression, sub_version=version, expression_type="SQL92")
    data = HeartbeatData("client-1", consumers=(ConsumerData("group", subscriptions=(wanted,)),))
    broker.ask_all(client, RequestCode.HEART_BEAT, body=data.build())


@pytest.mark.parametrize("code", [PULL, LITE_PULL])
def test_only_messages_whose_properties_match_come(broker: WholeBroker, code: RequestCode) -> None:
    client = coloured(broker, "red", "blue", "red", "green")
    broker.send(client, "orders", b"large", properties={"size": "6"})
    answer = broker.ask(client, code, pulling(**COLOURS))
    assert bodies(answer) == [b"red", b"red", b"large"]
    assert place(answer)[2] == 5
    assert bodies(broker.ask(client, code, pulling(max_msg_nums=2, **COLOURS))) == [b"red", b"red"]
    assert place(broker.ask(client, code, pulling(max_msg_nums=2, **COLOURS)))[2] == 3
    nothing = broker.ask(client, code, pulling(3, **{**COLOURS, "subscription": "colour = 'black'"}))
    assert place(nothing) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 5)


def test_what_has_to_be_read_from_the_disk_is_filtered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = coloured(broker, "red", "blue", "red")
    monkeypatch.setattr(broker.parts.store, "get_messages_now", lambda *_: None)
    assert bodies(broker.ask(client, PULL, pulling(**COLOURS))) == [b"red", b"red"]


def test_a_pull_without_its_own_expression_uses_the_heartbeat_s(broker: WholeBroker) -> None:
    client = coloured(broker, "red", "blue")
    subscribe_to_colours(broker, client, "colour = 'blue'", 5)
    assert bodies(broker.ask(client, PULL, pulling(sys_flag=0, sub_version=5))) == [b"blue"]
    subscribe_to_colours(broker, client, "colour =", 6)
    wrong = broker.ask(client, PULL, pulling(sys_flag=0, sub_version=6))
    assert wrong.code == ResponseCode.FILTER_DATA_NOT_LATEST
    subscribe_to_colours(broker, client, "colour = 'red'", 7)
    assert bodies(broker.ask(client, PULL, pulling(sys_flag=0, sub_version=7))) == [b"red"]


def test_an_expression_of_a_heartbeat_that_is_none_is_told_to_the_pull(broker: WholeBroker) -> None:
    client = coloured(broker, "red")
    subscribe_to_colours(broker, client, "colour > 'red'", 5)
    answer = broker.ask(client, PULL, pulling(sys_flag=0, sub_version=5))
    assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert "Value ''red'' cannot be compared." in (answer.remark or "")


def test_a_heartbeat_s_expression_is_refused_while_the_filter_is_off(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_property_filter=False)
    client = coloured(broker, "red")
    subscribe_to_colours(broker, client, "colour = 'red'", 5)
    assert broker.ask(client, PULL, pulling(sys_flag=0, sub_version=5)).code == ResponseCode.SYSTEM_ERROR


def test_a_filter_of_class_mode_lets_everything_through(broker: WholeBroker) -> None:
    client = coloured(broker, "red", "blue")
    wanted = SubscriptionData(
        "orders", "colour = 'red'", sub_version=1, expression_type="SQL92", class_filter_mode=True
    )
    data = HeartbeatData("client-1", consumers=(ConsumerData("group", subscriptions=(wanted,)),))
    broker.ask_all(client, RequestCode.HEART_BEAT, body=data.build())
    assert bodies(broker.ask(client, PULL, pulling(sys_flag=0))) == [b"red", b"blue"]


def test_a_held_pull_is_woken_by_properties_it_wants_only(broker: WholeBroker) -> None:
    client, producer = coloured(broker, "red"), broker.connect()
    assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND, **COLOURS)) == []
    broker.send(producer, properties={"colour": "blue"})
    broker.send(producer, properties={"size": "many"})
    assert client.received() == []
    broker.send(producer, properties={"size": "7"}, body=b"large")
    [answer] = client.received()
    assert (bodies(answer), place(answer)[2]) == ([b"large"], 4)


# -- offsets ----------------------------------------------------------------------------------------------------


def test_the_commit_bit_stores_the_group_s_progress_once_the_pull_is_allowed(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    flag = PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET
    broker.ask(client, PULL, pulling(sys_flag=flag, commit_offset=2))
    assert broker.parts.offsets.query("group", "orders", 0) == 2
    broker.ask(client, PULL, pulling(sys_flag=flag, commit_offset=9, queue_id=77))
    assert broker.parts.offsets.query("group", "orders", 77) == -1
    broker.ask(client, PULL, pulling(commit_offset=1))
    assert broker.parts.offsets.query("group", "orders", 0) == 2


# -- held pulls -------------------------------------------------------------------------------------------------


def test_a_pull_at_the_end_is_held_and_woken_by_the_next_message(broker: WholeBroker) -> None:
    client, producer = filled(broker, "a"), broker.connect()
    assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND)) == []
    broker.send(producer, queue_id=1)
    assert client.received() == []
    broker.send(producer, body=b"new")
    [answer] = client.received()
    assert place(answer) == (ResponseCode.SUCCESS, "FOUND", 2)
    assert bodies(answer) == [b"new"]
    broker.wait(20)
    assert client.received() == []


def test_a_held_pull_keeps_no_body(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND), b"x" * 1_000_000) == []
    (held,) = next(iter(broker.parts.held._by_queue.values()))
    assert held.resume.request.command.body == b""  # type: ignore[attr-defined]
    assert held.characters < SHORT_BYTES


def test_a_held_pull_takes_less_than_a_kilobyte(broker: WholeBroker) -> None:
    client, count = filled(broker, "a"), 200
    broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND))
    tracemalloc.start()
    try:
        for _ in range(count):
            assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND)) == []
        held_bytes = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert held_bytes < 900


def test_held_pulls_that_were_answered_are_gone_at_once(broker: WholeBroker) -> None:
    """Without a collection of garbage, which comes late and holds everybody up: in no circle, in no list."""
    client, producer = filled(broker, "a"), broker.connect()
    gc.collect()
    others = [each for each in gc.get_objects() if type(each) is Request]  # of tests before this one
    gc.disable()
    try:
        for offset in range(1, 21):
            assert broker.ask_all(client, PULL, pulling(offset, sys_flag=SUSPEND)) == []
            broker.send(producer)
            assert [place(answer)[1] for answer in client.received()] == ["FOUND"]
        left = [
            each for each in gc.get_objects() if type(each) is Request and not any(each is other for other in others)
        ]
    finally:
        gc.enable()
    assert len(left) <= 2, "the last of each connection, at most"


def test_a_pull_of_an_empty_queue_is_woken_by_its_first_message(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    assert broker.ask_all(client, PULL, pulling(queue_id=2, sys_flag=SUSPEND)) == []
    broker.send(broker.connect(), queue_id=2, body=b"first")
    assert [bodies(answer) for answer in client.received()] == [[b"first"]]


def test_a_held_pull_is_not_woken_by_tags_it_does_not_want(broker: WholeBroker) -> None:
    client, producer = filled(broker, "a"), broker.connect()
    assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND, subscription="b")) == []
    broker.send(producer, properties={"TAGS": "c"})
    assert client.received() == []
    broker.send(producer, properties={"TAGS": "b"}, body=b"b")
    [answer] = client.received()
    assert (bodies(answer), place(answer)[2]) == ([b"b"], 3)


@pytest.mark.parametrize(
    ("settings", "timeout_ms", "waited_s"),
    [({}, 15_000, 15), ({"long_polling_enable": False}, 15_000, 1), ({}, 10**9, 120)],
)
def test_a_held_pull_is_answered_when_its_time_is_over(
    tmp_path: Path, settings: dict[str, Any], timeout_ms: int, waited_s: int
) -> None:
    broker = WholeBroker(tmp_path / "store", server_channel_max_idle_time_seconds=1_000, **settings)
    client = filled(broker, "a")
    assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND, suspend_timeout_millis=timeout_ms)) == []
    broker.reactor.advance(waited_s - 0.5)
    broker.turn()
    assert client.received() == []
    broker.wait(1)
    [answer] = client.received()
    assert place(answer) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 1)


@pytest.mark.parametrize(
    "changed", [{"sys_flag": PullFlag.SUBSCRIPTION}, {"sys_flag": SUSPEND, "suspend_timeout_millis": 0}]
)
def test_a_pull_that_may_not_wait_is_answered_at_once(broker: WholeBroker, changed: dict[str, int]) -> None:
    assert broker.ask(filled(broker, "a"), PULL, pulling(1, **changed)).code == ResponseCode.PULL_NOT_FOUND


def test_more_than_the_limit_of_held_pulls_are_answered_at_once(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", held_pulls_limit=1)
    client = filled(broker, "a")
    assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND)) == []
    assert broker.ask(client, PULL, pulling(1, sys_flag=SUSPEND)).code == ResponseCode.PULL_NOT_FOUND


def test_a_held_pull_whose_client_left_is_dropped(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND))
    client.leave()
    broker.send(broker.connect())
    assert client.received() == []


# -- trouble ----------------------------------------------------------------------------------------------------


def test_a_held_pull_that_cannot_be_read_keeps_nobody_else_from_their_answers(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other, producer = filled(broker, "a"), broker.connect(), broker.connect()
    for consumer in (client, other):
        broker.ask_all(consumer, PULL, pulling(1, sys_flag=SUSPEND))
    real, calls = broker.parts.store.get_messages_now, []

    def fails_once(*args: Any, **kwargs: Any) -> GetResult | None:
        calls.append(args)
        if len(calls) == 1:
            raise OSError(5, "Input/output error")
        return real(*args, **kwargs)

    monkeypatch.setattr(broker.parts.store, "get_messages_now", fails_once)
    assert broker.send(producer).code == ResponseCode.SUCCESS
    assert [answer.code for answer in client.received()] == [ResponseCode.SYSTEM_ERROR]
    assert [answer.code for answer in other.received()] == [ResponseCode.SUCCESS]


# -- what is not in memory --------------------------------------------------------------------------------------


@pytest.fixture
def nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileLayer, "pread_now", lambda *_: None)


class Threads:
    """Cold reads that end when told to."""

    def __init__(self, broker: WholeBroker) -> None:
        broker.parts.store.flush()
        self.waiting: list[Callable[[], None]] = []
        broker.parts.cold_reads._in_thread = lambda work, done: self.waiting.append(lambda: done(work()))

    def end_one(self) -> None:
        self.waiting.pop(0)()


@pytest.mark.usefixtures("nothing_in_memory")
def test_cold_messages_are_read_in_a_thread_with_smaller_limits(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", max_transfer_count_on_message_in_disk=2)
    client = filled(broker, *"abcd")
    threads = Threads(broker)
    assert broker.ask_all(client, PULL, pulling()) == []
    threads.end_one()
    broker.turn()
    [answer] = client.received()
    assert bodies(answer) == [b"a", b"b"]


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_reader_of_whole_ranges_has_them_for_cold_messages_too(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", max_transfer_count_on_message_in_disk=1, bulk_read_count=3)
    client = filled(broker, *"abcd")
    threads = Threads(broker)
    assert broker.ask_all(client, PULL, pulling(request_source=BULK_READER)) == []
    threads.end_one()
    broker.turn()
    assert bodies(client.received()[0]) == [b"a", b"b", b"c"]


def test_messages_in_memory_are_read_at_once_however_far_behind(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", hot_bytes=1)
    client = filled(broker, *"abcd")
    threads = Threads(broker)
    assert bodies(broker.ask(client, PULL, pulling())) == [b"a", b"b", b"c", b"d"]
    assert threads.waiting == []


def test_where_the_system_cannot_tell_the_distance_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileLayer, "sees_memory", False)
    broker = WholeBroker(tmp_path / "store", hot_bytes=400)
    client = filled(broker, *"abcdef")
    threads = Threads(broker)
    assert bodies(broker.ask(client, PULL, pulling(5))) == [b"f"]
    assert broker.ask_all(client, PULL, pulling(0)) == []
    assert len(threads.waiting) == 1


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_failed_cold_read_is_a_system_error(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "a", "b")
    broker.parts.store.flush()
    broker.in_thread = lambda work, done: done(Failed(OSError(5, "Input/output error")))
    answer = broker.ask(client, PULL, pulling())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "Input/output error" in (answer.remark or "")


@pytest.mark.usefixtures("nothing_in_memory")
def test_more_cold_reads_than_may_wait_are_refused_as_busy_and_the_others_are_answered(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", cold_read_threads=1, cold_reads_limit=2)
    client = filled(broker, "a")
    threads = Threads(broker)
    for _ in range(3):
        assert broker.ask_all(client, PULL, pulling()) == []
    assert len(threads.waiting) == 1, "one runs, two wait"
    refused = broker.ask(client, PULL, pulling())
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert "gateway.coldReadsLimit" in (refused.remark or "")
    for _ in range(3):
        threads.end_one()
        broker.turn()
    assert [bodies(answer) for answer in client.received()] == [[b"a"]] * 3


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_cold_read_is_not_done_for_a_client_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "a")
    threads = Threads(broker)
    broker.ask_all(client, PULL, pulling())
    client.transport.loseConnection()
    monkeypatch.setattr(broker.parts.store, "get_messages", None)  # would fail when called
    threads.end_one()


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_pull_that_is_woken_for_messages_out_of_memory_is_answered_too(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client, producer = filled(broker, "a"), broker.connect()
    broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND))
    assert broker.send(producer, body=b"b").code == ResponseCode.SUCCESS
    broker.turn()
    assert [bodies(answer) for answer in client.received()] == [[b"b"]]


# -- peers that do not read -------------------------------------------------------------------------------------


def full(client: Peer) -> None:
    """Have it leave more unread than a peer may before more is made for it."""
    client.transport.full()
    client.channel.send(RemotingCommand(0, body=bytes(2 << 20)))


def after_the_unread(client: Peer) -> list[RemotingCommand]:
    return client.received()[1:]


def test_a_pull_of_a_peer_that_does_not_read_is_not_begun_before_it_has_read(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    full(client)
    assert broker.ask_all(client, PULL, pulling()) == []
    assert broker.parts.traffic.found_pulls == 0
    client.transport.empty()
    broker.turn()
    assert [bodies(answer) for answer in after_the_unread(client)] == [[b"a"]]


def test_a_held_pull_that_is_woken_waits_for_its_peer_too(broker: WholeBroker) -> None:
    client, producer = filled(broker, "a"), broker.connect()
    for _ in range(3):
        assert broker.ask_all(client, PULL, pulling(1, sys_flag=SUSPEND)) == []
    full(client)
    assert broker.send(producer, body=b"b").code == ResponseCode.SUCCESS
    assert broker.parts.traffic.found_pulls == 0
    client.transport.empty()
    broker.turn()
    assert [bodies(answer) for answer in after_the_unread(client)] == [[b"b"]] * 3


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_cold_read_whose_turn_has_come_waits_for_its_peer_too(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "a")
    threads = Threads(broker)
    assert broker.ask_all(client, PULL, pulling()) == []
    full(client)
    broker.turn()
    threads.end_one()
    broker.turn()
    assert (threads.waiting, broker.parts.traffic.found_pulls) == ([], 0)
    client.transport.empty()
    broker.turn()
    threads.end_one()
    broker.turn()
    assert [bodies(answer) for answer in after_the_unread(client)] == [[b"a"]]


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_pull_that_has_waited_for_its_peer_may_be_refused_as_busy(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", cold_read_threads=1, cold_reads_limit=1)
    client, other = filled(broker, "a"), broker.connect()
    threads = Threads(broker)
    assert broker.ask_all(client, PULL, pulling()) == []
    full(client)
    broker.turn()
    threads.end_one()
    for _ in range(2):
        assert broker.ask_all(other, PULL, pulling()) == []
    client.transport.empty()
    broker.turn()
    assert [answer.code for answer in after_the_unread(client)] == [ResponseCode.SYSTEM_BUSY]
