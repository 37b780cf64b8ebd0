"""Offsets of groups and bounds of queues as a client sees them."""

from __future__ import annotations

import pytest

from gateway.tests.broker.requests.small_broker import SmallBroker
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand

QUEUE = {"topic": "t", "queueId": "0"}
PLACE = {"consumerGroup": "g", **QUEUE}


@pytest.fixture
def known(broker: SmallBroker) -> SmallBroker:
    """A broker that knows topic ``t`` and group ``g``."""
    broker.topics.put(TopicConfig("t", 4, 4))
    broker.groups.find("g")
    return broker


def commit(
    broker: SmallBroker, changed: dict[str, str] | None = None, *, oneway: bool = False
) -> list[RemotingCommand]:
    fields = {**PLACE, "commitOffset": "10", **(changed or {})}
    return broker.connect().ask_all(RequestCode.UPDATE_CONSUMER_OFFSET, fields=fields, oneway=oneway)


def query(broker: SmallBroker, **changed: str) -> RemotingCommand:
    return broker.connect().ask(RequestCode.QUERY_CONSUMER_OFFSET, fields={**PLACE, **changed})


def test_a_committed_offset_is_found_again(known: SmallBroker) -> None:
    (answer,) = commit(known)
    assert answer.code == ResponseCode.SUCCESS
    assert query(known).ext_fields == {"offset": "10"}
    commit(known, {"commitOffset": "3"})
    assert query(known).ext_fields == {"offset": "3"}


def test_a_one_way_commit_is_not_answered(known: SmallBroker) -> None:
    assert commit(known, oneway=True) == []
    assert known.offsets.query("g", "t", 0) == 10


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"consumerGroup": "unknown"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": "x"}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": ""}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": "-1"}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": "4"}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": "-5"}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": "99999999999999999999"}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_a_commit_that_makes_no_sense_is_refused_and_changes_nothing(
    known: SmallBroker, changed: dict[str, str], code: ResponseCode
) -> None:
    (answer,) = commit(known, changed)
    assert answer.code == code
    assert answer.remark
    assert known.offsets.all() == {}


def test_a_new_group_begins_at_zero_while_the_whole_queue_is_in_memory(known: SmallBroker) -> None:
    known.stand_in.put("t", 0, 100, 200)
    answer = query(known)
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {"offset": "0"})


def test_a_new_group_that_wants_to_know_is_told_that_it_has_no_offset(known: SmallBroker) -> None:
    known.stand_in.put("t", 0, 100, 200)
    assert query(known, setZeroIfNotFound="false").code == ResponseCode.QUERY_NOT_FOUND
    assert query(known, setZeroIfNotFound="true").code == ResponseCode.SUCCESS


def test_a_new_group_of_a_queue_with_messages_that_left_memory_decides_itself(known: SmallBroker) -> None:
    known.stand_in.put("t", 1, 100, first=5)
    known.stand_in.put("t", 2, 100, cold=True)
    for queue_id in (1, 2):
        assert query(known, queueId=str(queue_id)).code == ResponseCode.QUERY_NOT_FOUND


def test_a_new_group_begins_at_the_end_of_a_queue_that_holds_nothing(known: SmallBroker) -> None:
    """Without an offset a client would ask for the end in a second question, and miss what is stored in between."""
    known.stand_in.put("t", 0)
    known.stand_in.put("t", 1, first=5)
    for queue_id, offset in ((0, "0"), (1, "5"), (3, "0")):
        answer = query(known, queueId=str(queue_id))
        assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {"offset": offset})
        assert query(known, queueId=str(queue_id), setZeroIfNotFound="false").code == ResponseCode.QUERY_NOT_FOUND


def test_the_bounds_of_a_queue_are_told(known: SmallBroker) -> None:
    known.stand_in.put("t", 0, 100, 200, 300, first=5)
    peer = known.connect()
    assert peer.ask(RequestCode.GET_MAX_OFFSET, fields=QUEUE).ext_fields == {"offset": "8"}
    assert peer.ask(RequestCode.GET_MIN_OFFSET, fields=QUEUE).ext_fields == {"offset": "5"}
    answer = peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, fields=QUEUE)
    assert answer.ext_fields == {"timestamp": "100"}


def test_an_unknown_queue_begins_and_ends_at_zero(broker: SmallBroker) -> None:
    peer = broker.connect()
    assert peer.ask(RequestCode.GET_MAX_OFFSET, fields=QUEUE).ext_fields == {"offset": "0"}
    assert peer.ask(RequestCode.GET_MIN_OFFSET, fields=QUEUE).ext_fields == {"offset": "0"}
    answer = peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, fields=QUEUE)
    assert answer.ext_fields == {"timestamp": "-1"}


def test_an_offset_is_searched_by_time_with_either_boundary(known: SmallBroker) -> None:
    peer = known.connect()
    for boundary in ({}, {"boundaryType": "LOWER"}, {"boundaryType": "UPPER"}, {"boundaryType": "upper"}):
        fields = {**QUEUE, "timestamp": "150", **boundary}
        assert peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields=fields).ext_fields == {"offset": "7"}
    assert [upper for *_, upper in known.stand_in.searched] == [False, False, True, True]


@pytest.mark.parametrize(
    "code", [RequestCode.GET_MAX_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_MIN_OFFSET]
)
@pytest.mark.parametrize("fields", [{}, {"topic": "t"}, {**PLACE, "queueId": "first"}])
def test_missing_and_non_numeric_fields_are_named_in_the_error(
    broker: SmallBroker, code: RequestCode, fields: dict[str, str]
) -> None:
    answer = broker.connect().ask(code, fields=fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "field" in answer.remark


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, "5"), ({"committed": "true"}, "3"), ({"committed": "false"}, "9")]
)
def test_the_end_of_a_queue_is_that_of_what_is_seen_on_disk_or_accepted(
    known: SmallBroker, fields: dict[str, str], expected: str
) -> None:
    known.stand_in.put("t", 0, 1, 2, 3, 4, 5)
    known.stand_in.not_durable = 2
    known.stand_in.on_the_way = 4
    answer = known.connect().ask(RequestCode.GET_MAX_OFFSET, fields={**QUEUE, **fields})
    assert answer.ext_fields == {"offset": expected}
