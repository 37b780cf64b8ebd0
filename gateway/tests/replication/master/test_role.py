"""A whole broker as SYNC_MASTER: every kind of message and service goes on, with a slave, a late one, and none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from gateway.delivery.pop.revive_log import MAX_REPLAY
from gateway.metadata.names import HALF_TOPIC
from gateway.settings.replication import BrokerRole
from gateway.tests.broker.popping import POP, popping
from gateway.tests.broker.send_requests import BATCH, batch, short
from gateway.tests.broker.whole_broker import WholeBroker, sending
from gateway.tests.remoting.conversation import Peer
from wire.bodies.tools.statistics import ReplicaConnection, ReplicationState
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id

OK, LATE, NOBODY = ResponseCode.SUCCESS, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE
TIMEOUT_S = 3
HALF = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": "k"}


class SyncMaster(WholeBroker):
    """A broker of which the test is the slave."""

    def __init__(self, directory: Path, *args: Any, **changed: Any) -> None:
        super().__init__(directory, *args, broker_role=BrokerRole.SYNC_MASTER, **changed)
        assert self.parts.master is not None
        self.master = self.parts.master

    def report(self, end: int | None = None) -> None:
        """Report everything that is on disk here, or a part of it."""
        self.master._copies.report(1, self.parts.store.durable_end if end is None else end)
        self.master._reported()
        self.turn()

    def lose(self) -> None:
        self.master._copies.leave(1)

    def answer(self, peer: Peer) -> RemotingCommand:
        (answer,) = peer.received()
        return answer

    def bodies(self, topic: str = "orders") -> list[bytes]:
        return [message.body for message in self.messages(topic)]


@pytest.fixture
def broker(tmp_path: Path) -> SyncMaster:
    return SyncMaster(tmp_path)


def half(broker: SyncMaster) -> RemotingCommand:
    return broker.ask(broker.connect(), RequestCode.SEND_MESSAGE, sending(properties=HALF), b"paid")


def ending(sent: RemotingCommand, outcome: int) -> EndTransactionRequest:
    return EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=int(sent.ext_fields["queueOffset"]),
        commit_log_offset=parse_offset_message_id(sent.ext_fields["msgId"])[1],
        commit_or_rollback=outcome,
        from_transaction_check=False,
        msg_id="k",
        transaction_id="k",
    )


def end(broker: SyncMaster, sent: RemotingCommand, outcome: int) -> list[RemotingCommand]:
    return broker.ask_all(broker.connect(), RequestCode.END_TRANSACTION, ending(sent, outcome))


def test_senders_are_answered_by_what_slaves_have(broker: SyncMaster) -> None:
    peer = broker.connect()
    alone = broker.send(peer, body=b"alone")
    assert (alone.code, alone.remark, broker.bodies()) == (NOBODY, None, [])
    assert set(alone.ext_fields) == {"msgId", "queueId", "queueOffset", "transactionId", "MSG_REGION", "TRACE_ON"}
    broker.report(0)
    assert broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(), b"late") == []
    broker.wait(TIMEOUT_S)
    late = broker.answer(peer)
    assert (late.code, late.ext_fields["queueOffset"], broker.bodies()) == (LATE, "1", [])
    broker.report()
    assert broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(), b"good") == []
    broker.report()
    assert (broker.answer(peer).code, broker.bodies()) == (OK, [b"alone", b"late", b"good"])


def test_a_batch_waits_as_one(broker: SyncMaster) -> None:
    peer = broker.connect()
    two = batch((b"one", {}), (b"two", {}))
    answer = broker.ask(peer, BATCH, short(sending(batch=True)), two)
    assert (answer.code, answer.ext_fields["msgId"].count(",")) == (NOBODY, 1)
    broker.report()
    assert broker.ask_all(peer, BATCH, short(sending(batch=True)), two) == []
    broker.report()
    assert (broker.answer(peer).code, len(broker.bodies())) == (OK, 4)


def test_a_sender_that_does_not_wait_is_answered_ok_without_a_slave(broker: SyncMaster) -> None:
    answer = broker.send(broker.connect(), properties={"WAIT": "false"})
    assert (answer.code, broker.bodies()) == (OK, [])


@pytest.mark.parametrize("outcome", [SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK])
def test_a_transaction_ends_without_a_slave_and_is_seen_with_one(broker: SyncMaster, outcome: int) -> None:
    broker.report(0)
    peer = broker.connect()
    assert broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(properties=HALF), b"paid") == []
    broker.report()
    sent = broker.answer(peer)
    assert sent.code == OK
    broker.lose()
    assert [answer.code for answer in end(broker, sent, outcome)] == [NOBODY]
    assert broker.bodies() == []
    broker.report()
    assert broker.bodies() == ([b"paid"] if outcome == SysFlag.TRANSACTION_COMMIT else [])
    assert broker.parts.transactions.pending.count == 0


@pytest.mark.parametrize("outcome", [SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK])
def test_an_outcome_for_a_half_message_without_a_copy_counts_once_the_message_is_seen(
    broker: SyncMaster, outcome: int
) -> None:
    sent = half(broker)
    assert sent.code == NOBODY
    assert end(broker, sent, outcome) == [], "not durable yet"
    assert broker.parts.transactions.pending.count == 0
    broker.report()
    broker.report()
    assert len(broker.messages(HALF_TOPIC)) == 1
    assert broker.parts.transactions.pending.count == 0, "settled, so no check asks"
    assert broker.bodies() == ([b"paid"] if outcome == SysFlag.TRANSACTION_COMMIT else [])


def test_an_outcome_for_another_place_is_refused_when_that_is_known(broker: SyncMaster) -> None:
    peer = broker.connect()
    sent = broker.send(peer)
    header = EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=0,
        commit_log_offset=parse_offset_message_id(sent.ext_fields["msgId"])[1],
        commit_or_rollback=SysFlag.TRANSACTION_ROLLBACK,
        msg_id="k",
    )
    assert broker.ask_all(peer, RequestCode.END_TRANSACTION, header) == []
    broker.report()
    assert broker.answer(peer).code == ResponseCode.SYSTEM_ERROR


def test_tools_see_the_slaves(broker: SyncMaster) -> None:
    broker.master.serve(broker.parts.store, Deferred)
    broker.send(broker.connect())
    line = broker.master._serving.buildProtocol(None)
    line.peer, line.reported_end, line.sends, line.broker_id, line.sent_end = "10.0.0.2:40000", 10, True, 1, 20
    broker.master._serving._lines[line] = None
    answer = broker.ask(broker.connect(), RequestCode.GET_BROKER_HA_STATUS)
    state = ReplicationState.parse(answer.body)
    end = broker.parts.store.durable_end
    assert (state.master, state.master_commit_log_max_offset, state.in_sync_slave_nums) == (True, end, 1)
    assert state.connections == (ReplicaConnection("10.0.0.2:40000", 10, end - 10, True, 0, 20),)
    shown = {sample.name: sample.value for sample in broker.parts.registry.samples()}
    assert shown["rocketmq_gateway_replicas"] == 1
    assert shown["rocketmq_gateway_replica_lag_bytes"] == end - 10
    assert shown["rocketmq_gateway_replica_held_bytes"] == end


def test_delayed_messages_are_released_without_a_slave_and_seen_with_one(broker: SyncMaster) -> None:
    broker.report()
    peer = broker.connect()
    assert broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(properties={"DELAY": "1"}), b"later") == []
    broker.report()
    assert broker.answer(peer).code == OK
    broker.lose()
    broker.wait(3)
    assert broker.bodies() == []
    broker.report()
    broker.wait(3)
    assert broker.bodies() == [b"later"], "once"


def test_old_records_of_open_pops_are_written_again_once_while_no_slave_has_them(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path, revive_queue_num=1)
    broker.report()
    peer = broker.connect()
    for topic in ("orders", "others"):
        broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(topic), b"popped")
        broker.report()
        broker.ask_all(peer, POP, popping(topic=topic, order=topic == "others", invisible_time=600_000))
        broker.report()
    pops = broker.parts.pops
    (point,) = pops.check_points
    log, first = pops.revive_log, point.revive_offset
    broker.lose()
    log._last[0] += 2 * MAX_REPLAY
    broker.wait(2)
    end = broker.parts.store.durable_end
    broker.wait(60)
    assert broker.parts.store.durable_end == end
    broker.report()
    assert point.revive_offset > first
    log._last[0] += 2 * MAX_REPLAY
    broker.wait(2)
    assert broker.parts.store.durable_end > end


def test_a_stop_with_a_late_slave_answers_and_keeps_everything(broker: SyncMaster, tmp_path: Path) -> None:
    broker.report(0)
    peer = broker.connect()
    assert broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(), b"late") == []
    broker.wait(TIMEOUT_S)
    assert broker.answer(peer).code == LATE
    broker.stop()
    again = SyncMaster(tmp_path)
    assert again.bodies() == []
    again.report()
    assert again.bodies() == [b"late"]
    again.stop()


def test_too_much_without_a_copy_refuses_with_the_reason(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path, max_unreplicated_bytes=2_000)
    broker.master._store = broker.parts.store
    peer = broker.connect()
    answers = [broker.send(peer, body=b"x" * 200) for _ in range(8)]
    codes = [answer.code for answer in answers]
    assert codes == [NOBODY] * codes.index(ResponseCode.SERVICE_NOT_AVAILABLE) + [
        ResponseCode.SERVICE_NOT_AVAILABLE
    ] * codes.count(ResponseCode.SERVICE_NOT_AVAILABLE)
    assert "wait for slaves, more than gateway.maxUnreplicatedBytes allows" in (answers[-1].remark or "")
    broker.report()
    assert broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(), b"taken") == []
    broker.report()
    assert broker.answer(peer).code == OK
