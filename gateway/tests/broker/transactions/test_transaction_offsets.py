"""The offsets that say where transactions stand: no request moves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from gateway.settings.transaction import TransactionStateStore
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import CloneGroupOffsetRequest, ResetOffsetRequest, UpdateConsumerOffsetRequest
from wire.message.flags import PullFlag


@pytest.fixture(params=TransactionStateStore)
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> WholeBroker:
    """A broker with two pending half messages, ten seconds old."""
    broker = WholeBroker(tmp_path / "store", transaction_state_store=request.param)
    peer = broker.connect()
    for key in ("k0", "k1"):
        broker.send(peer, properties={"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": key})
    broker.wait(10)
    return broker


def ways(topic: str) -> list[tuple[RequestCode, Any]]:
    group: str = TRANSACTION_GROUP
    return [
        (
            RequestCode.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=0, commit_offset=2),
        ),
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffsetRequest(group=group, topic=topic, timestamp=-1)),
        (
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffsetRequest(group=group, topic=topic, timestamp=-1, queue_id=0, offset=2),
        ),
        (
            RequestCode.CLONE_GROUP_OFFSET,
            CloneGroupOffsetRequest(src_group="reader", dest_group=group, topic=topic, offline=True),
        ),
    ]


def test_requests_that_would_move_them_are_refused_and_nothing_pending_is_lost(broker: WholeBroker) -> None:
    offsets = broker.parts.offsets
    for topic in (HALF_TOPIC, OP_HALF_TOPIC):
        offsets.commit("reader", topic, 0, 2)
        before = offsets.of_topic(TRANSACTION_GROUP, topic)
        for code, header in ways(topic):
            answer = broker.ask(broker.connect(), code, header)
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert "CID_RMQ_SYS_TRANS" in (answer.remark or "")
            assert offsets.of_topic(TRANSACTION_GROUP, topic) == before
    again = broker.restart()
    assert again.parts.transactions.pending.count == 2
    again.stop()


def test_a_pull_under_the_group_s_name_reads_but_commits_nothing(broker: WholeBroker) -> None:
    before = broker.parts.offsets.of_topic(TRANSACTION_GROUP, HALF_TOPIC)
    flag = PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET
    header = pulling(consumer_group=TRANSACTION_GROUP, topic=HALF_TOPIC, sys_flag=flag, commit_offset=2)
    assert broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, header).code == ResponseCode.SUCCESS
    assert broker.parts.offsets.of_topic(TRANSACTION_GROUP, HALF_TOPIC) == before
    broker.stop()
