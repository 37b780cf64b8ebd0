"""Every request of a broker that is a slave: which ones are refused, with which words, and that reading goes on.

The table is made from what the requests declare, so a request that is added is tested without a line here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory

import pytest

from gateway.errors import RequestRefused
from gateway.remoting.declared import CREATE, DELETE, EVERYBODY, PUB, SERVED, UPDATE, Kind, OnSlave, Right, Size, Who
from gateway.remoting.dispatch import Answer, Dispatch, Entry, Request
from gateway.replication.slave.refusals import SlaveRefusals
from gateway.tests.remoting.conversation import Conversation
from wire.codes import RequestCode as Code
from wire.codes import ResponseCode
from wire.command import RemotingCommand

SCRIPT = Path(__file__).parents[4] / "docs" / "request_codes.py"
MASTER = "192.0.2.7:10911"
OF_EACH_BROKER = {
    *(Code.UPDATE_BROKER_CONFIG, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.DELETE_EXPIRED_COMMITLOG),
    *(Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER),
    *(Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL, Code.GATEWAY_CHANGE_ROLE),
}
"""Changes of what each broker has for itself: settings, the space on its disk, accounts."""
READS = {Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE}


@cache
def entries() -> dict[int, Entry]:
    """Return the requests of a broker by code."""
    with TemporaryDirectory() as directory:
        broker: dict[int, Entry]
        broker, _ = run_path(str(SCRIPT))["_declared"](Path(directory))
    return broker


def refusal(code: int, *, is_readable: bool = True, master: str | None = MASTER) -> RequestRefused | None:
    """Return what a slave answers instead; None if it carries the request out."""
    refuse = SlaveRefusals(is_readable, lambda: master).refusal_of(Code(code), entries()[code].slave)
    if refuse is None:
        return None
    with pytest.raises(RequestRefused) as refused:
        refuse(Request(Conversation().connect().channel, RemotingCommand(code)))
    return refused.value


CODES = sorted(entries())


@pytest.mark.parametrize("code", CODES)
def test_a_slave_refuses_all_that_is_not_declared_as_served_and_names_its_master(code: int) -> None:
    declared = entries()[code].slave
    refused = refusal(code)
    assert (refused is None) is (declared is not OnSlave.REFUSED)
    if refused is not None:
        assert refused.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SLAVE_NOT_AVAILABLE)
        assert refused.remark == f"this broker is a slave and takes no changes: its master is {MASTER}"


@pytest.mark.parametrize("code", CODES)
def test_no_slave_serves_a_request_that_needs_the_right_to_change_topics_or_groups(code: int) -> None:
    entry = entries()[code]
    changing = PUB | CREATE | DELETE
    for named in entry.right.named:
        if named.kind is not Kind.CLUSTER and (named.actions & changing or named.actions == UPDATE):
            assert entry.slave is OnSlave.REFUSED, f"{entry.code.name} changes a {named.kind.value}"
        if named.kind is Kind.CLUSTER and named.actions == UPDATE and code not in OF_EACH_BROKER:
            assert entry.slave is OnSlave.REFUSED, f"{entry.code.name} changes the cluster"
    if entry.right.who is Who.OPERATOR or "Create" in entry.right.in_body:
        assert entry.slave is OnSlave.REFUSED


def test_pulls_alone_depend_on_slave_read_enable() -> None:
    assert {code for code, entry in entries().items() if entry.slave is OnSlave.READ} == READS
    for code in READS:
        assert refusal(code) is None
        refused = refusal(code, is_readable=False)
        assert refused is not None
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark == (
            f"this broker is a slave and answers no pulls, slaveReadEnable is false: its master is {MASTER}"
        )


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (Code.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY),
        (Code.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_BUSY),
        (Code.END_TRANSACTION, ResponseCode.SLAVE_NOT_AVAILABLE),
        (Code.LOCK_BATCH_MQ, ResponseCode.SYSTEM_BUSY),
        (Code.UPDATE_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY),
        (Code.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_BUSY),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ResponseCode.SYSTEM_BUSY),
        (Code.POP_MESSAGE, ResponseCode.SYSTEM_BUSY),
    ],
)
def test_senders_and_consumers_get_the_codes_of_upstreams_slaves(code: Code, answer: ResponseCode) -> None:
    refused = refusal(code, master=None)
    assert refused is not None
    assert refused.code == answer
    assert refused.remark == "this broker is a slave and takes no changes: its master is not known yet"


@pytest.mark.parametrize(
    "code",
    [
        *(Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID, Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET),
        *(Code.GET_MIN_OFFSET, Code.GET_BROKER_RUNTIME_INFO, Code.GET_BROKER_CONFIG, Code.GET_BROKER_HA_STATUS),
        *(Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ALL_CONSUMER_OFFSET),
        *(Code.HEART_BEAT, Code.QUERY_CONSUMER_OFFSET, Code.GET_CONSUMER_LIST_BY_GROUP),
    ],
)
def test_a_slave_serves_what_readers_tools_and_further_slaves_ask(code: Code) -> None:
    assert refusal(code) is None


@pytest.mark.parametrize("size", list(Size))
def test_a_refused_request_never_reaches_its_method_whatever_its_answer_would_cost(size: Size) -> None:
    refusals = SlaveRefusals(True, lambda: MASTER)
    dispatch = Dispatch(refusal_of=refusals.refusal_of)
    dispatch.answers(Code.CLONE_GROUP_OFFSET, None, lambda _request, _header: Answer(), EVERYBODY, size)
    dispatch.answers(Code.GET_CONSUME_STATS, None, lambda _request, _header: Answer(), EVERYBODY, size, SERVED)
    peer = Conversation(dispatch).connect()
    answer = peer.ask(Code.CLONE_GROUP_OFFSET)
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert answer.remark is not None
    assert MASTER in answer.remark
    assert peer.ask(Code.GET_CONSUME_STATS).code == ResponseCode.SUCCESS


def test_the_right_is_looked_at_first_so_that_strangers_learn_nothing_of_the_master() -> None:
    def admit(_request: Request, _right: Right) -> None:
        raise RequestRefused(ResponseCode.NO_PERMISSION, "who are you?")

    dispatch = Dispatch(admit, SlaveRefusals(True, lambda: MASTER).refusal_of)
    dispatch.answers(Code.CLONE_GROUP_OFFSET, None, lambda _request, _header: Answer(), EVERYBODY)
    assert Conversation(dispatch).connect().ask(Code.CLONE_GROUP_OFFSET).remark == "who are you?"
