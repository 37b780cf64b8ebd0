"""A broker that becomes the master of a log that it copied, or that was cut: offsets, delays, transactions, time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.takeover import FILE_NAME, CopyMark, cut_directory
from gateway.metadata.names import HALF_TOPIC, TRANSACTION_GROUP
from gateway.settings.replication import BrokerRole
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, small_settings
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest

DELAY_1_S = {"DELAY": "1"}


def delayed(broker: WholeBroker, count: int, first: int = 0) -> None:
    peer = broker.connect()
    for number in range(first, first + count):
        properties = {**DELAY_1_S, "UNIQ_KEY": f"key-{number}"}
        answer = broker.send(peer, body=b"%d" % number, properties=properties)
        assert answer.code == ResponseCode.SUCCESS


def bodies(broker: WholeBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for message in broker.messages(topic)]


def set_level(directory: Path, offset: int) -> None:
    """Write the progress of the first level as a copy of a master's table."""
    path = directory / "config" / "delayOffset.json"
    path.write_text(json.dumps({"offsetTable": {"1": offset}}))
    path.with_name("delayOffset.json.bak").unlink(missing_ok=True)


@pytest.mark.parametrize("known", [0, 1, 2, 3, 9], ids=lambda known: f"table-says-{known}")
def test_delayed_messages_come_once_whatever_the_copied_table_says(tmp_path: Path, known: int) -> None:
    broker = WholeBroker(tmp_path)
    delayed(broker, 3)
    broker.wait(2)
    delayed(broker, 2, first=3)
    assert bodies(broker) == [b"0", b"1", b"2"]
    broker.stop()
    set_level(tmp_path, known)
    CopyMark(tmp_path).set()

    again = WholeBroker(tmp_path, broker.clock())
    again.wait(2)

    assert bodies(again) == [b"0", b"1", b"2", b"3", b"4"]
    assert not CopyMark(tmp_path).is_set
    again.stop()


def test_without_the_mark_the_table_is_believed(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    delayed(broker, 3)
    broker.wait(2)
    broker.stop()
    set_level(tmp_path, 1)
    again = WholeBroker(tmp_path, broker.clock())
    again.wait(1)
    assert bodies(again) == [b"0", b"1", b"2", b"1", b"2"]
    again.stop()


def test_a_message_that_is_sent_back_again_and_again_is_not_taken_for_delivered(tmp_path: Path) -> None:
    """It keeps its key; only what was stored after it is its delivery."""
    broker = WholeBroker(tmp_path)
    peer = broker.connect()
    for _ in range(2):
        broker.send(peer, body=b"retry", properties={**DELAY_1_S, "UNIQ_KEY": "one-key"})
        if not bodies(broker):
            broker.wait(2)
    broker.stop()
    set_level(tmp_path, 0)
    CopyMark(tmp_path).set()
    again = WholeBroker(tmp_path, broker.clock())
    again.wait(2)
    assert bodies(again) == [b"retry", b"retry"]
    again.stop()


def test_messages_whose_delivery_was_cut_off_are_delivered_again(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    delayed(broker, 3)
    end = broker.parts.store.stored_end
    broker.wait(2)
    assert len(bodies(broker)) == 3
    broker.stop()
    cut_directory(small_settings(tmp_path), end)
    again = WholeBroker(tmp_path, broker.clock())
    assert bodies(again) == []
    again.wait(1)
    assert bodies(again) == [b"0", b"1", b"2"]
    again.stop()


GROUP: dict[str, Any] = {"consumer_group": "group", "topic": "orders", "queue_id": 0}


def offset(broker: WholeBroker) -> str | None:
    answer = broker.ask(broker.connect(), RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequest(**GROUP))
    return answer.ext_fields.get("offset")


def with_offset(directory: Path, committed: int) -> WholeBroker:
    broker = WholeBroker(directory)
    peer = broker.connect()
    for _ in range(4):
        broker.send(peer)
    broker.subscribe(peer)
    header = UpdateConsumerOffsetRequest(**GROUP, commit_offset=committed)
    answer = broker.ask(peer, RequestCode.UPDATE_CONSUMER_OFFSET, header)
    assert answer.code == ResponseCode.SUCCESS
    return broker


def test_consumer_offsets_beyond_the_end_are_the_end(tmp_path: Path) -> None:
    broker = with_offset(tmp_path, 4)
    place = broker.messages("orders")[3].commit_log_offset
    broker.stop()
    cut_directory(small_settings(tmp_path), place)
    again = WholeBroker(tmp_path, broker.clock())
    assert offset(again) == "3"
    again.stop()
    assert offset(WholeBroker(tmp_path, broker.clock())) == "3"


def test_an_offset_within_the_queue_stays(tmp_path: Path) -> None:
    broker = with_offset(tmp_path, 2)
    broker.stop()
    CopyMark(tmp_path).set()
    assert offset(WholeBroker(tmp_path, broker.clock())) == "2"


def test_a_copied_progress_of_transactions_is_not_believed(tmp_path: Path) -> None:
    """The master wrote it after outcomes that the log of the slave may not have."""
    broker = WholeBroker(tmp_path)
    half = broker.send(
        broker.connect(), sys_flag=4, properties={"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": "half"}
    )
    assert half.code == ResponseCode.SUCCESS
    broker.parts.offsets.keep(TRANSACTION_GROUP, HALF_TOPIC, 0, 1)
    broker.stop()
    CopyMark(tmp_path).set()
    again = WholeBroker(tmp_path, broker.clock())
    assert again.parts.transactions.pending.count == 1
    again.stop()


def test_a_clock_that_is_behind_does_not_set_store_times_back(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    broker.wait(10)
    broker.send(broker.connect())
    broker.stop()
    CopyMark(tmp_path).set()
    again = WholeBroker(tmp_path, START_MS)
    again.send(again.connect())
    first, second = again.messages("orders")
    assert first.stored_at_ms <= second.stored_at_ms
    again.stop()


def test_a_slave_marks_its_directory(tmp_path: Path) -> None:
    WholeBroker(tmp_path, broker_role=BrokerRole.SLAVE, broker_id=1).stop()
    assert (tmp_path / FILE_NAME).exists()
    WholeBroker(tmp_path).stop()
    assert not (tmp_path / FILE_NAME).exists()
