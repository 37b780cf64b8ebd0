"""Being told that there is something to pop, counting who waits, and looking without taking."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from sys import getsizeof
from typing import Any

import pytest

from gateway.shares import Shares
from gateway.tests.broker.popping import POP, ack, filled, pop, popping
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.headers.pop import NotificationRequest, PeekMessageRequest, PollingInfoRequest
from wire.message.record import parse_records

NOTIFICATION, POLLING_INFO = RequestCode.NOTIFICATION, RequestCode.POLLING_INFO
PEEK = RequestCode.PEEK_MESSAGE


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", pop_from_retry_probability=0)


def asking(**changed: Any) -> NotificationRequest:
    values: dict[str, Any] = {"consumer_group": "group", "topic": "orders", "queue_id": -1, "poll_time": 0}
    return NotificationRequest(**{**values, **changed})


def told(fields: dict[str, str]) -> tuple[str, str]:
    return fields["hasMsg"], fields["pollingFull"]


def test_who_asks_is_told_at_once_when_there_is_a_message(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    assert told(broker.ask(client, NOTIFICATION, asking(poll_time=5_000)).ext_fields) == ("true", "false")
    pop(broker, client)
    assert told(broker.ask(client, NOTIFICATION, asking()).ext_fields) == ("false", "false")


def test_who_waits_is_told_when_a_message_comes_or_when_the_time_is_over(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    waiting = [broker.connect() for _ in range(2)]
    for peer in waiting:
        assert broker.ask_all(peer, NOTIFICATION, asking(poll_time=5_000)) == []
    broker.send(client, body=b"b")
    assert [told(peer.received()[0].ext_fields) for peer in waiting] == [("true", "false")] * 2
    pop(broker, client)
    assert broker.ask_all(client, NOTIFICATION, asking(poll_time=2_000)) == []
    broker.wait(3)
    assert told(client.received()[0].ext_fields) == ("false", "false")


def test_messages_that_come_again_are_told_of(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client, invisible_time=1_000)
    assert broker.ask_all(client, NOTIFICATION, asking(poll_time=5_000)) == []
    broker.wait(2)
    assert told(client.received()[0].ext_fields) == ("true", "false")


def test_a_closed_queue_has_nothing_until_it_opens(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    (first,) = pop(broker, client, order=True, max_msg_nums=1)
    assert told(broker.ask(client, NOTIFICATION, asking(order=True)).ext_fields) == ("false", "false")
    waiting = broker.connect()
    assert broker.ask_all(waiting, NOTIFICATION, asking(order=True, poll_time=60_000)) == []
    ack(broker, client, first)
    broker.wait(11)
    assert told(waiting.received()[0].ext_fields) == ("true", "false")


def test_too_many_who_wait_are_told_so(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", pop_polling_size=1)
    client, other = filled(broker, "a"), broker.connect()
    pop(broker, client)
    assert broker.ask_all(client, NOTIFICATION, asking(poll_time=5_000)) == []
    assert told(broker.ask(other, NOTIFICATION, asking(poll_time=5_000)).ext_fields) == ("false", "true")
    assert broker.ask_all(client, POP, popping(poll_time=5_000)) == []
    assert broker.ask(other, POP, popping(poll_time=5_000)).code == ResponseCode.POLLING_FULL


def test_what_long_expressions_take_is_counted_over_pops_and_questions_also_if_they_wait_again(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, expression = filled(broker, "a"), "||".join(f"tag{number}" for number in range(2_000))
    text_bytes = getsizeof(expression)
    pop(broker, client, invisible_time=300_000)
    used: list[int] = []
    counted = broker.parts.pops.held._held_bytes
    for request, header in ((POP, popping), (NOTIFICATION, asking)):
        for _ in range(2):
            assert broker.ask_all(client, request, header(poll_time=60_000, exp=expression, exp_type="TAG")) == []
            used.append(counted.used)
    first, *added = (after - before for before, after in pairwise([0, *used]))
    assert added == [text_bytes, *[text_bytes + getsizeof("")] * 2]
    assert text_bytes + 64_000 < first < text_bytes + 300_000, "the filter counts once"
    broker.parts.pops.held.wake("orders", "group")  # it looks, and waits again
    assert counted.used == used[-1]
    broker.wait(61)
    assert (len(client.received()), counted.used) == (4, 0)
    monkeypatch.setattr(counted, "_shares", Shares(text_bytes))
    answer = broker.ask(client, NOTIFICATION, asking(poll_time=5_000, exp=expression))
    assert told(answer.ext_fields) == ("false", "true")
    assert broker.ask(client, POP, popping(poll_time=5_000, exp=expression)).code == ResponseCode.POLLING_FULL


def test_a_question_that_came_too_late_is_not_held(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    answer = broker.ask(client, NOTIFICATION, asking(born_time=1_000, poll_time=10))
    assert told(answer.ext_fields) == ("false", "false")


def test_who_waits_is_counted(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    for queue_id in (-1, -1, 2):
        broker.ask_all(broker.connect(), POP, popping(queue_id=queue_id, poll_time=5_000))
    counts = [
        broker.ask(client, POLLING_INFO, PollingInfoRequest(consumer_group="group", topic="orders", queue_id=queue_id))
        for queue_id in (-1, 2, 3)
    ]
    assert [answer.ext_fields["pollingNum"] for answer in counts] == ["2", "1", "0"]


def test_a_look_takes_nothing(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    header = PeekMessageRequest(consumer_group="group", topic="orders", queue_id=-1, max_msg_nums=1)
    for _ in range(2):
        answer = broker.ask(client, PEEK, header)
        assert [message.body for message in parse_records(answer.body)] == [b"a"]
        assert answer.ext_fields["restNum"] == "1"
    pop(broker, client)
    assert broker.ask(client, PEEK, header).code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (asking(topic="missing"), ResponseCode.TOPIC_NOT_EXIST),
        (asking(queue_id=9), ResponseCode.INVALID_PARAMETER),
        (asking(consumer_group="../x"), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (asking(exp_type="SQL92", exp="a >", poll_time=1_000), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (PollingInfoRequest(consumer_group="group", topic="missing"), ResponseCode.TOPIC_NOT_EXIST),
        (PeekMessageRequest(consumer_group="group", topic="orders", max_msg_nums=99), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_questions_that_may_not_be_asked_are_refused(broker: WholeBroker, header: Any, code: ResponseCode) -> None:
    client = filled(broker, "a")
    codes = {"NotificationRequest": NOTIFICATION, "PollingInfoRequest": POLLING_INFO, "PeekMessageRequest": PEEK}
    assert broker.ask(client, codes[type(header).__name__], header).code == code
