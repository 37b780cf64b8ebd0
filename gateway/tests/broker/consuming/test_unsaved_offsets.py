"""Answers about an offset while the file of the offsets cannot be written."""

from __future__ import annotations

from pathlib import Path

from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import UpdateConsumerOffsetRequest


def commit(offset: int) -> UpdateConsumerOffsetRequest:
    return UpdateConsumerOffsetRequest(consumer_group="group", topic="orders", queue_id=0, commit_offset=offset)


def test_point_8_an_offset_that_cannot_be_saved_is_not_answered_as_if_it_were(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client)
    broker.subscribe(client)
    in_the_way = tmp_path / "config" / "consumerOffset.json.tmp"
    in_the_way.mkdir()
    assert broker.ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, commit(1)).code == ResponseCode.SUCCESS
    broker.wait(broker.parts.settings.flush_consumer_offset_interval_ms / 1_000)
    refused = broker.ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, commit(1))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "offset of group group in queue 0 of topic orders: in force, but not written to disk" in str(refused.remark)
    in_the_way.rmdir()
    broker.wait(broker.parts.settings.flush_consumer_offset_interval_ms / 1_000)
    assert broker.ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, commit(1)).code == ResponseCode.SUCCESS
