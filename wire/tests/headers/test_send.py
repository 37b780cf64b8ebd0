"""The send request in its two forms."""

from __future__ import annotations

import msgspec
import pytest

from wire.errors import FieldError
from wire.headers.declare import build_header, parse_header
from wire.headers.send import SendMessageRequest, SendMessageResponse, ShortSendMessageRequest

# Ext fields as a 5.x client sends them with code 310, and with code 10 under their long names.
SHORT = {
    "a": "PID_orders",
    "b": "orders",
    "c": "TBW102",
    "d": "4",
    "e": "2",
    "f": "0",
    "g": "1732112345678",
    "h": "0",
    "i": "UNIQ_KEY\x01AC11000200000000000000AB\x02WAIT\x01true\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
LONG = {
    "producerGroup": "PID_orders",
    "topic": "orders",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "2",
    "sysFlag": "0",
    "bornTimestamp": "1732112345678",
    "flag": "0",
    "properties": SHORT["i"],
    "reconsumeTimes": "0",
    "unitMode": "false",
    "batch": "false",
    "bname": "broker-a",
}


def test_both_forms_say_the_same() -> None:
    short, long = parse_header(ShortSendMessageRequest, SHORT), parse_header(SendMessageRequest, LONG)

    assert msgspec.structs.asdict(short) == msgspec.structs.asdict(long)
    assert (long.producer_group, long.topic, long.default_topic) == ("PID_orders", "orders", "TBW102")
    assert (long.queue_id, long.born_timestamp, long.batch, long.broker_name) == (
        2,
        1732112345678,
        False,
        "broker-a",
    )
    assert long.max_reconsume_times is None


def test_either_form_is_written_as_it_was_read() -> None:
    assert build_header(parse_header(ShortSendMessageRequest, SHORT)) == SHORT
    assert build_header(parse_header(SendMessageRequest, LONG)) == LONG


@pytest.mark.parametrize("letter", "abcdefgh")
def test_the_first_eight_letters_are_required(letter: str) -> None:
    fields = {name: value for name, value in SHORT.items() if name != letter}

    with pytest.raises(FieldError) as caught:
        parse_header(ShortSendMessageRequest, fields)

    assert caught.value.field == letter


def test_the_letter_l_is_the_maximum_of_reconsumptions() -> None:
    assert parse_header(ShortSendMessageRequest, SHORT | {"l": "16"}).max_reconsume_times == 16


def test_the_answer_carries_region_and_trace_under_their_odd_names() -> None:
    answer = SendMessageResponse(
        msg_id="C0A8",
        queue_id=1,
        queue_offset=2,
        transaction_id="AC11",
        msg_region="DefaultRegion",
        trace_on=True,
    )

    assert build_header(answer) == {
        "msgId": "C0A8",
        "queueId": "1",
        "queueOffset": "2",
        "transactionId": "AC11",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
