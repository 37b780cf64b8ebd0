"""The gateway's own requests about transactions, on a whole broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.rare.transaction_control import MAX_ID_CHARACTERS
from gateway.settings.transaction import OperatorAccess
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from gateway.transaction.operators.overview import Overview
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.tools.transactions import ListedTransaction, TransactionList, TransactionStatistics
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.transaction import (
    CheckTransactionRequest,
    EndTransactionRequest,
    ListTransactionsRequest,
    ResumeTransactionRequest,
    SettleTransactionRequest,
    ShowTransactionRequest,
    TransactionStatisticsRequest,
)
from wire.message.flags import SysFlag


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeBroker]:
    monkeypatch.setattr("gateway.broker.parts.steady_clock", lambda clock_ms: clock_ms)  # the reactor's time counts
    broker = WholeBroker(tmp_path, operator_access=OperatorAccess.EVERYWHERE)
    yield broker
    broker.stop()


def half(broker: WholeBroker, peer: Peer, key: str, group: str = "g", topic: str = "orders", **more: str) -> int:
    """Send a half message; its half offset."""
    properties = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": key, "KEYS": f"key of {key}", **more}
    answer = broker.send(peer, topic, b"body", properties=properties, producer_group=group, queue_id=1)
    assert answer.code == ResponseCode.SUCCESS, answer
    return int(answer.ext_fields["queueOffset"])


def listing(broker: WholeBroker, peer: Peer, **fields: Any) -> TransactionList:
    header = ListTransactionsRequest(**fields)
    return TransactionList.parse(broker.ask(peer, RequestCode.GATEWAY_LIST_TRANSACTIONS, header).body)


def settle(broker: WholeBroker, peer: Peer, id_: str, outcome: str, reason: str | None = None) -> RemotingCommand:
    header = SettleTransactionRequest(id=id_, outcome=outcome, operator="alice", reason=reason)
    return broker.ask(peer, RequestCode.GATEWAY_SETTLE_TRANSACTION, header)


def audit(broker: WholeBroker) -> list[dict[str, Any]]:
    path = broker.directory / "transaction" / "audit.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def join(broker: WholeBroker, peer: Peer, group: str = "g") -> None:
    broker.ask_all(peer, RequestCode.HEART_BEAT, body=HeartbeatData("c1", producers=(group,)).build())


def test_a_page_lists_pending_half_messages_oldest_first_with_what_people_ask(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    broker.wait(2)
    half(broker, peer, "k1", group="other", topic="payments")
    [first, second] = listing(broker, peer).transactions
    assert (first.half_offset, first.group, first.topic, first.queue_id) == (0, "g", "orders", 1)
    assert (first.keys, first.transaction_id, first.state) == ("key of k0", "k0", "PENDING")
    assert (first.checks, first.conflicts, first.age_ms) == (0, 0, 2_000)
    assert first.next_check_in_ms == 4_000
    assert first.waits_for_producer
    assert first.last_producer
    assert (second.half_offset, second.topic, second.age_ms) == (1, "payments", 0)


def test_a_page_is_filtered_by_group_topic_and_age_and_continued(broker: WholeBroker) -> None:
    peer = broker.connect()
    for number in range(5):
        half(broker, peer, f"k{number}", group=f"g{number % 2}", topic=("orders", "payments")[number % 2])
    broker.wait(1)
    half(broker, peer, "young", group="g0")

    def offsets(**fields: Any) -> list[int]:
        return [entry.half_offset for entry in listing(broker, peer, **fields).transactions]

    assert offsets(producer_group="g0") == [0, 2, 4, 5]
    assert offsets(producer_group="g0", min_age_ms=1_000) == [0, 2, 4]
    assert offsets(topic="payments") == [1, 3]
    assert offsets(producer_group="nobody") == offsets(topic="nothing") == []
    page = listing(broker, peer, max_num=2)
    assert ([entry.half_offset for entry in page.transactions], page.next_after) == ([0, 1], 1)
    assert offsets(after=1, max_num=100) == [2, 3, 4, 5]


def test_a_page_ends_after_a_bounded_search(broker: WholeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.transaction.operators.overview.MAX_SCANNED", 3)
    peer = broker.connect()
    for number in range(7):
        half(broker, peer, f"k{number}", group="late" if number == 6 else "g")
    page = listing(broker, peer, producer_group="late")
    assert (list(page.transactions), page.next_after) == ([], 2)
    page = listing(broker, peer, producer_group="late", after=5)
    assert [entry.half_offset for entry in page.transactions] == [6]


@pytest.mark.parametrize("way", ["half offset", "message id", "unique key"])
def test_a_half_message_is_found_by_each_of_its_names(broker: WholeBroker, way: str) -> None:
    peer = broker.connect()
    half(broker, peer, "7F00000100002A9F0000000000000BB8")
    half(broker, peer, "another")
    message_id = listing(broker, peer).transactions[0].message_id
    name = {"half offset": "0", "message id": message_id, "unique key": "7F00000100002A9F0000000000000BB8"}[way]
    answer = broker.ask(peer, RequestCode.GATEWAY_SHOW_TRANSACTION, ShowTransactionRequest(id=name))
    found = ListedTransaction.parse(answer.body)
    assert (found.half_offset, found.properties["REAL_TOPIC"]) == (0, "orders")


@pytest.mark.parametrize("name", ["99", "no such key", "0" * 32])
def test_a_name_that_stands_for_nothing_is_refused_with_advice(broker: WholeBroker, name: str) -> None:
    answer = broker.ask(broker.connect(), RequestCode.GATEWAY_SHOW_TRANSACTION, ShowTransactionRequest(id=name))
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert "transactions list" in (answer.remark or "")


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.GATEWAY_SHOW_TRANSACTION, ShowTransactionRequest),
        (RequestCode.GATEWAY_CHECK_TRANSACTION, partial(CheckTransactionRequest, operator="alice")),
        (RequestCode.GATEWAY_RESUME_TRANSACTION, partial(ResumeTransactionRequest, operator="alice")),
        (RequestCode.GATEWAY_SETTLE_TRANSACTION, partial(SettleTransactionRequest, operator="alice", outcome="commit")),
    ],
)
def test_an_id_that_no_message_can_have_is_refused_before_any_search(
    broker: WholeBroker, code: RequestCode, header: Callable[..., Header], monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[str] = []
    for name in ("find", "find_given_up"):
        monkeypatch.setattr(Overview, name, lambda _, text: searches.append(text))
    peer = broker.connect()
    answer = broker.ask(peer, code, header(id="k" * (MAX_ID_CHARACTERS + 1)))
    assert (answer.code, searches) == (ResponseCode.INVALID_PARAMETER, [])
    assert len(answer.remark or "") < 100
    assert broker.ask(peer, code, header(id="k" * MAX_ID_CHARACTERS)).code == ResponseCode.QUERY_NOT_FOUND
    assert len(searches) == 1


def test_a_manual_commit_delivers_once_and_is_audited(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    answer = settle(broker, peer, "0", "commit", "paid")
    assert answer.code == ResponseCode.SUCCESS
    found = ListedTransaction.parse(answer.body)
    assert found.state == "COMMITTED"
    assert found.decided_by.startswith("operator alice@")
    assert settle(broker, peer, "0", "commit").code == ResponseCode.SUCCESS
    assert [message.body for message in broker.messages("orders", 1)] == [b"body"]
    asked, done = audit(broker)[:2]
    assert (asked["event"], asked["operator"], asked["action"], asked["reason"]) == ("asked", "alice", "commit", "paid")
    assert (done["event"], done["code"], done["state"]) == ("done", "SUCCESS", "COMMITTED")
    assert (done["group"], done["topic"], done["half_offset"]) == ("g", "orders", 0)


def test_a_producers_outcome_that_contradicts_an_operators_is_refused_and_shown(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    settle(broker, peer, "0", "rollback")
    assert not listing(broker, peer).transactions
    [stored] = broker.messages("RMQ_SYS_TRANS_HALF_TOPIC")
    end = EndTransactionRequest(
        producer_group="g",
        tran_state_table_offset=0,
        commit_log_offset=stored.commit_log_offset,
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        msg_id="k0",
    )
    assert broker.ask(peer, RequestCode.END_TRANSACTION, end).code == ResponseCode.ILLEGAL_OPERATION
    answer = broker.ask(peer, RequestCode.GATEWAY_SHOW_TRANSACTION, ShowTransactionRequest(id="0"))
    found = ListedTransaction.parse(answer.body)
    assert (found.state, found.conflicts) == ("ROLLED_BACK", 1)
    assert broker.messages("orders", 1) == []


def test_an_operator_cannot_contradict_a_producer(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    settle(broker, peer, "0", "commit")
    answer = settle(broker, peer, "0", "rollback")
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert "COMMITTED" in (answer.remark or "")
    assert audit(broker)[-1]["code"] == "ILLEGAL_OPERATION"


def test_what_an_operator_gives_up_is_listed_with_its_reason_and_can_be_resumed_and_committed(
    broker: WholeBroker,
) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    assert settle(broker, peer, "0", "discard", "its service is gone").code == ResponseCode.SUCCESS
    [copy] = listing(broker, peer, given_up=True).transactions
    assert (copy.reason, copy.state, copy.topic) == ("its service is gone", "DISCARDED", "orders")
    refused = settle(broker, peer, "0", "commit")
    assert refused.code == ResponseCode.ILLEGAL_OPERATION
    assert "transactions resume" in (refused.remark or "")
    resume = ResumeTransactionRequest(id=copy.message_id, operator="bob")
    answer = broker.ask(peer, RequestCode.GATEWAY_RESUME_TRANSACTION, resume)
    assert (answer.code, ListedTransaction.parse(answer.body).half_offset) == (ResponseCode.SUCCESS, 1)
    [copy] = listing(broker, peer, given_up=True).transactions
    assert copy.state == "PENDING"
    assert settle(broker, peer, "1", "commit").code == ResponseCode.SUCCESS
    assert len(broker.messages("orders", 1)) == 1
    assert broker.ask(peer, RequestCode.GATEWAY_RESUME_TRANSACTION, resume).code == ResponseCode.SYSTEM_ERROR


def test_a_given_up_message_is_resumed_by_its_unique_key_too(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    settle(broker, peer, "0", "discard")
    resume = ResumeTransactionRequest(id="k0", operator="bob")
    assert broker.ask(peer, RequestCode.GATEWAY_RESUME_TRANSACTION, resume).code == ResponseCode.SUCCESS
    unknown = ResumeTransactionRequest(id="k9", operator="bob")
    answer = broker.ask(peer, RequestCode.GATEWAY_RESUME_TRANSACTION, unknown)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


def test_a_check_is_asked_for_at_once_and_counted(broker: WholeBroker) -> None:
    operator, producer = broker.connect(), broker.connect()
    join(broker, producer)
    half(broker, operator, "k0")
    header = CheckTransactionRequest(id="0", operator="alice")
    assert broker.ask(operator, RequestCode.GATEWAY_CHECK_TRANSACTION, header).code == ResponseCode.SUCCESS
    broker.wait(0.5)
    [asked] = producer.received()
    assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
    assert asked.ext_fields["bname"] == "broker-a"
    assert listing(broker, operator).transactions[0].checks == 1
    settle(broker, operator, "0", "rollback")
    answer = broker.ask(operator, RequestCode.GATEWAY_CHECK_TRANSACTION, header)
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert "only a pending one" in (answer.remark or "")


def test_statistics_count_by_group(broker: WholeBroker) -> None:
    peer = broker.connect()
    for number in range(3):
        half(broker, peer, f"k{number}", group="large")
    half(broker, peer, "small", group="small")
    settle(broker, peer, "0", "commit")
    answer = broker.ask(peer, RequestCode.GATEWAY_TRANSACTION_STATISTICS, TransactionStatisticsRequest(max_num=1))
    found = TransactionStatistics.parse(answer.body)
    assert (found.pending, found.group_count) == (3, 2)
    assert [(group.group, group.pending, group.producers) for group in found.groups] == [("large", 2, 0)]
    assert (found.counts["committed"], found.counts["manual"]) == (1, 1)


def test_an_outcome_that_is_none_is_refused(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    assert settle(broker, peer, "0", "perhaps").code == ResponseCode.INVALID_PARAMETER


def test_nothing_is_done_when_the_audit_log_cannot_be_written(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    (broker.directory / "transaction" / "audit.jsonl").mkdir()
    answer = settle(broker, peer, "0", "commit")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "nothing was done" in (answer.remark or "")
    assert len(listing(broker, peer).transactions) == 1


@pytest.mark.parametrize(
    ("access", "host", "admitted"),
    [
        (OperatorAccess.LOOPBACK, "127.0.0.1", True),
        (OperatorAccess.LOOPBACK, "::1", True),
        (OperatorAccess.LOOPBACK, "10.1.2.3", False),
        (OperatorAccess.EVERYWHERE, "10.1.2.3", True),
        (OperatorAccess.NOWHERE, "127.0.0.1", False),
    ],
)
def test_the_setting_says_from_where_operators_are_admitted(
    tmp_path: Path, access: OperatorAccess, host: str, admitted: bool
) -> None:
    broker = WholeBroker(tmp_path, operator_access=access)
    peer = broker.connect()
    peer.channel.remote = host, 4321
    answer = broker.ask(peer, RequestCode.GATEWAY_TRANSACTION_STATISTICS, TransactionStatisticsRequest())
    assert answer.code == (ResponseCode.SUCCESS if admitted else ResponseCode.NO_PERMISSION)
    assert admitted or "gateway.operatorAccess" in (answer.remark or "")
    assert ("a loopback address" in (answer.remark or "")) == (not admitted and access is OperatorAccess.LOOPBACK)
    broker.stop()
