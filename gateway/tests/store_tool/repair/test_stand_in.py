"""Records that take the place of damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store_tool.repair.stand_in import (
    LEAST_HIDDEN_BYTES,
    MAX_HIDDEN_BYTES,
    STAND_IN_TAG,
    build_hidden,
    build_stand_in,
    good_stand_in_bytes,
    least_stand_in_bytes,
)
from wire.message.flags import SysFlag
from wire.message.record import check_record, parse_record, parse_records

TOPICS = ("orders", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "%RETRY%" + "g" * 200)


@given(topic=st.sampled_from(TOPICS), more=st.integers(0, 3000))
def test_a_stand_in_has_the_size_and_place_asked_for(topic: str, more: int) -> None:
    size = least_stand_in_bytes(topic) + more
    record = build_stand_in((topic, 3, 77), 123_456, size, 1_700_000_000_000)
    assert check_record(record, 0, 123_456) == size == len(record)
    message = parse_record(record)
    assert (message.topic, message.queue_id, message.queue_offset) == (topic, 3, 77)
    assert not message.sys_flag & SysFlag.TRANSACTION_MASK
    if size >= good_stand_in_bytes(topic):
        assert message.property_map["TAGS"] == STAND_IN_TAG
        assert message.body.startswith(b"This message was damaged on disk")


@pytest.mark.parametrize(
    "size", [LEAST_HIDDEN_BYTES, 5000, MAX_HIDDEN_BYTES, MAX_HIDDEN_BYTES + 1, 3 * MAX_HIDDEN_BYTES + 50]
)
def test_hidden_records_fill_a_room_of_any_size(size: int) -> None:
    data = build_hidden(1000, size, 5)
    assert len(data) == size
    at = 1000
    for message in parse_records(data):
        assert message.commit_log_offset == at
        assert message.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_ROLLBACK
        at += message.total_size


def test_what_brokers_would_try_for_ever_is_made_so_that_they_drop_it() -> None:
    delayed = parse_record(build_stand_in(("SCHEDULE_TOPIC_XXXX", 2, 0), 0, 400, 0)).property_map
    assert (delayed["REAL_TOPIC"], delayed["REAL_QID"], delayed["DELAY"]) == ("RMQ_SYS_TRANS_HALF_TOPIC", "0", "3")
    half = parse_record(build_stand_in(("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0), 0, 400, 0)).property_map
    assert half["TRANSACTION_CHECK_TIMES"] == "2147483647"
