"""The guard of a whole broker and of a name server: who is let in, what is answered, and what is remembered."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gateway.access.audit import Told
from gateway.access.guard import MAX_CALLERS, MAX_KIND_CHARACTERS, MAX_PASSED, SEARCHED_BYTES, Guard
from gateway.access.plain.accounts import PlainAccount
from gateway.access.refusals import MAX_NAME
from gateway.broker.door import RequestAdmission
from gateway.in_thread import in_this_thread
from gateway.metadata.names import HALF_TOPIC, TRACE_TOPIC
from gateway.nameserver.service import NameServer
from gateway.remoting.declared import CREATE, GET, PUB, SUB, UPDATE, Kind, Need
from gateway.settings import Settings
from gateway.tests.access.accounts import CLUSTER, PLAIN, FakeAccount, everything, guard_of
from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from gateway.tests.remoting.conversation import Conversation, Peer, memory_reactor
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, MessageQueue
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.subscriptions import SubscriptionData
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.headers.declare import build_header
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.headers.transaction import CheckTransactionRequest
from wire.message.batch import BatchPart, build_batch
from wire.message.recall_handle import RecallHandle
from wire.quick.known_forms import FormReader
from wire.quick.sent import SendForm
from wire.quick.whole import whole_headers

ADMIN = FakeAccount("admin", is_admin=True)
SHOP = FakeAccount("shop", Need(Kind.TOPIC, "orders", PUB | SUB | GET), Need(Kind.GROUP, "g", SUB))
NOBODY = FakeAccount("nobody")
DISABLED = FakeAccount("disabled", *everything(), is_enabled=False)
ALL = (ADMIN, SHOP, NOBODY, DISABLED)


def broker_with(directory: Path, guard: Guard, **settings: bool) -> WholeBroker:
    broker = WholeBroker(directory, **settings)
    broker.conversation.dispatch._admit = RequestAdmission(broker.parts.settings, guard.admit).admit
    guard.client_of = broker.parts.heartbeats.clients.id_of
    return broker


def asked(peer: Peer, command: RemotingCommand, account: FakeAccount | None) -> RemotingCommand:
    channel = peer.channel
    peer.send(command if account is None else account.sign(command))
    for _ in range(4):
        channel._reactor.advance(0)  # type: ignore[attr-defined]
    (answer,) = [received for received in peer.received() if received.is_response]
    return answer


def send_to(topic: str, code: int = RequestCode.SEND_MESSAGE_V2) -> RemotingCommand:
    header = SendMessageRequest if code == RequestCode.SEND_MESSAGE else ShortSendMessageRequest
    fields = build_header(
        header(
            producer_group="p",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
        )
    )
    return RemotingCommand(code, opaque=7, ext_fields=fields, body=b"body")


@pytest.mark.parametrize(
    ("account", "topic", "code", "remark"),
    [
        (None, "orders", 16, "username cannot be null."),
        (FakeAccount("stranger"), "orders", 16, "User:stranger is not found."),
        (DISABLED, "orders", 16, "User:disabled is disabled."),
        (
            NOBODY,
            "orders",
            16,
            "User:nobody has no permission to access Topic:orders from 10.0.0.9, no matched policies. Pub is needed;",
        ),
        (SHOP, "others", 16, "User:shop has no permission to access Topic:others from 10.0.0.9, no matched policies."),
        (SHOP, "orders", 0, ""),
        (ADMIN, "others", 0, ""),
    ],
)
@pytest.mark.parametrize("request_code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_a_send_is_admitted_or_refused_with_the_words_of_5(
    tmp_path: Path, account: FakeAccount | None, topic: str, code: int, remark: str, request_code: int
) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    peer = broker.conversation.connect("10.0.0.9")
    answer = asked(peer, send_to(topic, request_code), account)
    assert (answer.code, (answer.remark or "")[: len(remark)]) == (code, remark)
    broker.stop()


@pytest.mark.parametrize(
    ("account", "request_code", "remark"),
    [
        (None, 10, "No accessKey is configured, "),
        (FakeAccount("stranger"), 10, "No acl config for stranger, "),
        (NOBODY, 10, "No default permission for topic:orders, accessKey=nobody needs Pub and has "),
        (NOBODY, 17, "Need admin permission for request code=17, but accessKey=nobody is not, "),
        (NOBODY, 25, "Need admin permission for request code=25, but accessKey=nobody is not, "),
        (NOBODY, 26, "Need admin permission for request code=26, but accessKey=nobody is not, "),
        (NOBODY, 9_999, "Need admin permission for request code=9999, but accessKey=nobody is not, "),
    ],
)
def test_refusals_have_the_words_of_4(
    tmp_path: Path, account: FakeAccount | None, request_code: int, remark: str
) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL, refusals=PLAIN))
    answer = asked(broker.connect(), RemotingCommand(request_code, ext_fields={"topic": "orders"}), account)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith(f"org.apache.rocketmq.acl.common.AclException: {remark}")
    broker.stop()


def test_a_wrong_signature_is_refused_in_both_generations(tmp_path: Path) -> None:
    for refusals, expected in ((None, "check signature failed."), (PLAIN, "Check signature failed for accessKey=shop")):
        guard = guard_of(*ALL) if refusals is None else guard_of(*ALL, refusals=refusals)
        broker = broker_with(tmp_path / expected[:5].strip(), guard)
        command = SHOP.sign(send_to("orders"))
        command.body = b"other"
        answer = asked(broker.connect(), command, None)
        assert expected in (answer.remark or "")
        broker.stop()


def test_a_request_that_was_signed_and_then_left_unsigned_is_refused(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    peer = broker.connect()
    assert asked(peer, send_to("orders"), SHOP).code == 0
    unsigned = SHOP.sign(send_to("orders"))
    del unsigned.ext_fields["Signature"]
    assert "check signature failed." in (asked(peer, unsigned, None).remark or "")
    broker.stop()


def test_a_refused_one_way_request_gets_no_answer_and_is_not_carried_out(tmp_path: Path) -> None:
    told: list[Told] = []
    broker = broker_with(tmp_path, guard_of(*ALL, told=told))
    peer = broker.connect()
    command = send_to("orders")
    command.flag = ONEWAY_FLAG
    peer.send(NOBODY.sign(command))
    assert peer.received() == []
    assert broker.parts.topics.get("orders") is None
    assert [one[:5] for one in told] == [("nobody", peer.channel.remote[0], 310, "Topic:orders", "Pub")]
    broker.stop()


def test_a_refusal_tells_the_client_id_that_its_connection_gave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "gateway.access")
    told: list[Told] = []
    broker = broker_with(tmp_path, guard_of(*ALL, told=told))
    known, other = broker.connect(), broker.connect()
    heartbeat = RemotingCommand(RequestCode.HEART_BEAT, body=HeartbeatData(client_id="10.0.0.9@7#1").build())
    assert asked(known, heartbeat, NOBODY).code == 0
    for peer in (known, other):
        assert asked(peer, send_to("orders"), NOBODY).code == 16
    assert [one.client for one in told] == ["10.0.0.9@7#1", ""]
    logged = [record.facts["client"] for record in caplog.records]  # type: ignore[attr-defined]
    assert logged == ["10.0.0.9@7#1", ""]
    broker.stop()


@pytest.mark.parametrize(
    ("body", "client"),
    [
        (b'{"clientID":"10.0.0.9@7#1","consumerDataSet":[]}', "10.0.0.9@7#1"),
        (b'{ "clientID" : "c\\u0041"}', "c"),
        ('{"clientID":"\u6d4b"}'.encode(), "\u6d4b"),
        (b'{"clientID":7}', ""),
        (b'{"clientID":"\xff"}', "\ufffd"),
        (b"", ""),
        (b" " * SEARCHED_BYTES + b'{"clientID":"c"}', ""),
        (b'{"clientID":"' + b"x" * 10_000_000, "x" * (SEARCHED_BYTES - len('{"clientID":"'))),
    ],
)
def test_a_refused_heartbeat_tells_the_client_id_near_its_begin(tmp_path: Path, body: bytes, client: str) -> None:
    told: list[Told] = []
    broker = broker_with(tmp_path, guard_of(*ALL, told=told))
    assert asked(broker.connect(), RemotingCommand(RequestCode.HEART_BEAT, body=body), None).code == 16
    assert [(one.client, one.rule) for one in told] == [(client, "no access key")]
    broker.stop()


def test_hosts_of_the_white_list_need_no_signature_and_no_right(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(white=["10.0.0.9"]))
    assert asked(broker.conversation.connect("10.0.0.9"), send_to("orders"), None).code == 0
    assert asked(broker.conversation.connect("10.0.0.8"), send_to("orders"), None).code == 16
    broker.stop()


def test_codes_of_the_white_lists_need_no_account_or_no_right_and_their_changes_are_told(tmp_path: Path) -> None:
    told, changed = list[Told](), list[Told]()
    make, delete = RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER
    guard = guard_of(
        *ALL,
        open_codes=[RequestCode.GET_BROKER_RUNTIME_INFO, make],
        free_codes=[RequestCode.SEND_MESSAGE_V2, delete, 9_999],
        told=told,
        changed=changed,
    )
    broker = broker_with(tmp_path, guard)
    peer = broker.connect()
    assert asked(peer, RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO), None).code == 0
    for _ in range(2):
        assert asked(peer, send_to("others"), NOBODY).code == 0
    assert changed == []
    fields = {"topic": "t", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    fields["topicFilterType"] = "SINGLE_TAG"
    assert asked(peer, RemotingCommand(make, ext_fields=fields), None).code == 0
    for _ in range(2):
        assert asked(peer, RemotingCommand(delete, ext_fields={"topic": "t"}), NOBODY).code == 0
    assert [(one.account, one.code, one.resource, one.action, one.rule) for one in changed] == [
        ("", 17, "Topic:t", "Create", "authenticationWhitelist"),
        *[("nobody", 215, "Topic:t", "Delete", "authorizationWhitelist")] * 2,
    ]
    assert asked(peer, RemotingCommand(9_999), NOBODY).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert told == []
    assert asked(peer, send_to("others"), None).code == 16
    broker.stop()


def test_without_authorization_an_account_may_do_what_concerns_no_cluster(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL, judges=False))
    peer = broker.connect()
    assert asked(peer, send_to("others"), NOBODY).code == 0
    for code in (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG):
        answer = asked(peer, RemotingCommand(code), NOBODY)
        assert (answer.code, (answer.remark or "")[:34]) == (16, "User:nobody has no permission to a")
    assert asked(peer, RemotingCommand(RequestCode.GET_BROKER_CONFIG), ADMIN).code == 0
    inner = {"topic": "SCHEDULE_TOPIC_XXXX", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}
    for account, expected in ((NOBODY, 16), (ADMIN, ResponseCode.QUERY_NOT_FOUND)):
        assert asked(peer, RemotingCommand(RequestCode.QUERY_MESSAGE, ext_fields=dict(inner)), account).code == expected
    broker.stop()


def test_a_judgement_is_made_once_until_the_account_changes(tmp_path: Path) -> None:
    shop = FakeAccount("shop", Need(Kind.TOPIC, "orders", PUB))
    guard = guard_of(shop)
    broker = broker_with(tmp_path, guard)
    peer = broker.connect()
    for _ in range(5):
        assert asked(peer, send_to("orders"), shop).code == 0
    assert shop.judged == 1
    guard._accounts.accounts["shop"] = FakeAccount("shop")  # type: ignore[attr-defined]
    assert asked(peer, send_to("orders"), shop).code == 16
    guard._accounts.accounts.clear()  # type: ignore[attr-defined]
    assert "is not found" in (asked(peer, send_to("orders"), shop).remark or "")
    broker.stop()


def test_what_is_remembered_of_a_caller_does_not_grow_without_end(tmp_path: Path) -> None:
    shop = FakeAccount("shop", *everything())
    guard = guard_of(shop)
    broker = broker_with(tmp_path, guard)
    peer = broker.connect()
    for number in range(MAX_PASSED + 5):
        fields = {"topic": f"t{number}", "queueId": "0"}
        asked(peer, RemotingCommand(RequestCode.GET_MIN_OFFSET, ext_fields=fields), shop)
    (caller,) = guard._callers.values()
    assert len(caller._passed) <= MAX_PASSED
    caller._passed.clear()
    for length, remembered in ((MAX_KIND_CHARACTERS, 1), (MAX_KIND_CHARACTERS + 1, 1), (10_000_000, 1)):
        fields = {"topic": "t" * length, "queueId": "0"}
        asked(peer, RemotingCommand(RequestCode.GET_MIN_OFFSET, ext_fields=fields), shop)
        assert len(caller._passed) == remembered
    broker.stop()


def test_what_all_callers_remember_has_one_limit_and_the_oldest_caller_makes_room() -> None:
    guard = guard_of(FakeAccount("shop", *everything()))
    guard.remembered_limit = limit = 100_000
    for host in range(100):
        caller = guard.known("shop", f"10.0.0.{host}")
        assert caller is not None
        for number in range(20):
            caller.has(Need(Kind.TOPIC, f"{number}".rjust(100, "t"), PUB))
            assert guard.remembered <= limit
        assert len(caller._may) == 20
        if host == 0:
            first, each = caller, guard.remembered
    assert each > 20 * 100
    assert len(guard._callers) == limit // each
    assert sum(known._remembered for known in guard._callers.values()) == guard.remembered
    assert not first._may
    assert first.has(Need(Kind.TOPIC, "t", PUB))
    assert not first._may, "nobody would forget it"
    guard._accounts.accounts["shop"] = FakeAccount("shop")  # type: ignore[attr-defined]
    before = guard.remembered
    for known in list(guard._callers.values()):
        guard.known("shop", known.host)
    assert before > guard.remembered == 0


def test_a_remembered_name_counts_with_the_form_that_python_keeps_beside_it() -> None:
    guard = guard_of(FakeAccount("shop", *everything()))
    caller = guard.known("shop", "10.0.0.9")
    assert caller is not None
    counted = []
    for character in "t\u00e4\u4e2d\U0001f600":
        name, before = character * 500, guard.remembered
        caller.has(Need(Kind.TOPIC, name, PUB))
        counted.append(guard.remembered - before)
        assert counted[-1] > len(name) + (0 if name.isascii() else len(name.encode()))
    assert counted == sorted(counted)
    assert counted[-1] > 8 * 500


def test_the_oldest_caller_makes_room_for_a_new_one_and_others_stay() -> None:
    guard = guard_of(SHOP)
    for host in range(MAX_CALLERS + 5):
        guard.known("shop", str(host))
    assert list(guard._callers) == [("shop", str(host)) for host in range(5, MAX_CALLERS + 5)]


def test_a_request_is_not_remembered_beyond_the_limit_of_all(tmp_path: Path) -> None:
    shop = FakeAccount("shop", *everything())
    guard = guard_of(shop)
    guard.remembered_limit = 1_000
    broker = broker_with(tmp_path, guard)
    for host in range(1, 9):
        peer = broker.conversation.connect(f"10.0.0.{host}")
        fields = {"topic": "t" * 400, "queueId": "0"}
        asked(peer, RemotingCommand(RequestCode.GET_MIN_OFFSET, ext_fields=fields), shop)
        assert 0 < guard.remembered <= 1_000
    assert [caller.host for caller in guard._callers.values() if caller._passed] == ["10.0.0.8"]
    broker.stop()


def test_wrong_keys_beyond_the_limit_close_their_connections_and_the_owner_goes_on(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL, limit=3))
    guesser, owner = broker.conversation.connect("10.0.0.9"), broker.conversation.connect("10.0.0.9")
    wrong = FakeAccount("shop")
    wrong.secret = b"guessed"
    for _ in range(4):
        assert not guesser.channel.closed
        assert asked(guesser, send_to("orders"), wrong).code == 16
    assert guesser.channel.closed
    assert asked(owner, send_to("orders"), SHOP).code == 0
    assert asked(broker.conversation.connect("10.0.0.9"), send_to("orders"), SHOP).code == 0
    broker.stop()


def test_long_names_are_cut_in_answers(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    answer = asked(broker.connect(), send_to("orders"), FakeAccount("x" * 100_000))
    assert len(answer.remark or "") < MAX_NAME + 200
    broker.stop()


def test_one_forbidden_topic_does_not_silence_other_consumers_of_a_client(tmp_path: Path) -> None:
    told: list[Told] = []
    broker = broker_with(tmp_path, guard_of(*ALL, told=told))
    peer = broker.connect()

    def consumer(group: str, *topics: str) -> ConsumerData:
        return ConsumerData(
            group=group, subscriptions=[SubscriptionData(topic=topic, sub_string="*") for topic in topics]
        )

    both = HeartbeatData(
        client_id="c", consumers=[consumer("g", "orders", "secret", "%RETRY%g"), consumer("h", "orders")]
    )
    answer = asked(peer, RemotingCommand(RequestCode.HEART_BEAT, body=both.build()), SHOP)
    assert answer.code == 0
    assert broker.parts.consumers.client_ids("g") == ["c"]
    assert broker.parts.consumers.client_ids("h") == []
    assert {(one.resource, one.action) for one in told} == {("Topic:secret", "Sub"), ("Group:h", "Sub")}
    assert asked(peer, RemotingCommand(RequestCode.HEART_BEAT, body=b'{"clientID":"p"}'), NOBODY).code == 0
    none = HeartbeatData(client_id="c", consumers=[consumer("h", "orders")])
    answer = asked(peer, RemotingCommand(RequestCode.HEART_BEAT, body=none.build()), SHOP)
    assert (answer.code, (answer.remark or "")[:51]) == (16, "User:shop has no permission to access Group:h from ")
    broker.stop()


def test_locks_are_given_for_topics_that_the_account_may_consume(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    peer = broker.connect()
    for topic in ("orders", "secret"):
        assert asked(peer, send_to(topic), ADMIN).code == 0
    asked(peer, RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"g"}'), ADMIN)
    queues = [MessageQueue(topic=topic, broker_name="broker-a", queue_id=0) for topic in ("orders", "secret")]
    for group, expected in (("g", ["orders"]), ("h", None)):
        body = LockBatchRequest(consumer_group=group, client_id="c", queues=queues).build()
        answer = asked(peer, RemotingCommand(RequestCode.LOCK_BATCH_MQ, body=body), SHOP)
        if expected is None:
            assert answer.code == 16
        else:
            granted = json.loads(LockBatchResponse.parse(answer.body).build())["lockOKMQSet"]
            assert [queue["topic"] for queue in granted] == expected
    broker.stop()


def test_groups_and_topics_of_a_body_need_create_each(tmp_path: Path) -> None:
    maker = FakeAccount("maker", Need(Kind.GROUP, "g", CREATE), Need(Kind.TOPIC, "t", CREATE))
    broker = broker_with(tmp_path, guard_of(maker))
    peer = broker.connect()
    for name, code in (("g", 0), ("h", 16)):
        body = json.dumps({"groupName": name}).encode()
        answer = asked(peer, RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body), maker)
        assert answer.code == code
    for names, code in ((["t"], 0), (["t", "u"], 16)):
        body = json.dumps({"topicConfigList": [{"topicName": name} for name in names]}).encode()
        answer = asked(peer, RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body), maker)
        assert answer.code == code, answer.remark
    assert broker.parts.topics.get("u") is None
    broker.stop()


def test_a_message_read_by_its_place_needs_its_own_topic_whatever_the_request_says(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    peer = broker.connect()
    assert asked(peer, send_to("secret"), ADMIN).code == 0
    view = {"offset": "0", "topic": "orders"}
    for account, code in ((ADMIN, 0), (SHOP, 16)):
        answer = asked(peer, RemotingCommand(RequestCode.VIEW_MESSAGE_BY_ID, ext_fields=dict(view)), account)
        assert answer.code == code
        assert "secret" not in (answer.remark or ""), "anybody may guess places"
    assert "Topic:(of the message at offset 0)" in (answer.remark or "")
    back = {"offset": "0", "group": "g", "delayLevel": "1", "originTopic": "orders"}
    asked(peer, RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"g"}'), ADMIN)
    for account, code in ((SHOP, 16), (ADMIN, 0)):
        command = RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, ext_fields=dict(back))
        answer = asked(peer, command, account)
        assert answer.code == code
        assert "secret" not in (answer.remark or "")
    broker.stop()


def test_a_message_is_read_by_its_place_by_accounts_of_4_that_may_receive_it_and_not_by_those_that_may_only_send(
    tmp_path: Path,
) -> None:
    """Clients before 5.3 do not name the topic."""
    sender, reader = FakeAccount("sender"), FakeAccount("reader")
    guard = guard_of(*ALL)
    for account, permission in ((sender, "PUB"), (reader, "SUB")):
        plain = PlainAccount(name=account.name, secret=account.secret, entries={"orders": permission})
        guard._accounts.accounts[account.name] = plain  # type: ignore[attr-defined]
    broker = broker_with(tmp_path, guard)
    peer = broker.connect()
    for topic, of_reader in (("orders", 0), (TRACE_TOPIC, 16)):
        answer = asked(peer, send_to(topic), ADMIN)
        place = {"offset": str(int(answer.ext_fields["msgId"][-16:], 16))}
        for account, code in ((sender, 16), (reader, of_reader), (ADMIN, 0)):
            for view in (place, {**place, "topic": topic}):
                answer = asked(peer, RemotingCommand(RequestCode.VIEW_MESSAGE_BY_ID, ext_fields=dict(view)), account)
                assert answer.code == code, answer.remark
        offset = RemotingCommand(RequestCode.GET_MAX_OFFSET, ext_fields={"topic": topic, "queueId": "0"})
        assert asked(peer, offset, sender).code == 0
    broker.stop()


def test_a_message_is_handed_to_a_consumer_for_accounts_that_may_consume_its_topic(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    peer, tool = broker.connect(), broker.connect()
    answer = asked(peer, send_to("secret"), ADMIN)
    own = HeartbeatData(
        client_id="c",
        consumers=[
            ConsumerData(group="g", subscriptions=[SubscriptionData(topic="orders", sub_string="*", sub_version=1)])
        ],
    )
    assert asked(peer, RemotingCommand(RequestCode.HEART_BEAT, version=513, body=own.build()), SHOP).code == 0
    peer.received()
    directly = {"consumerGroup": "g", "clientId": "c", "msgId": answer.ext_fields["msgId"], "brokerName": "broker-a"}
    for topic in ({}, {"topic": "orders"}):
        command = RemotingCommand(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext_fields={**directly, **topic})
        answer = asked(tool, command, SHOP)
        assert answer.code == 16
        assert "User:shop has no permission to access Topic:(of the message at offset 0) from" in (answer.remark or "")
        assert peer.received() == []
    broker.stop()


def test_a_message_is_handed_to_no_consumer_whose_account_may_not_consume_it_now(tmp_path: Path) -> None:
    guard = guard_of(*ALL)
    broker = broker_with(tmp_path, guard)
    consumer, tool = broker.connect(), broker.connect()
    answers = {topic: asked(tool, send_to(topic), ADMIN).ext_fields["msgId"] for topic in ("orders", "secret")}
    own = HeartbeatData("c", consumers=(ConsumerData(group="g", subscriptions=()),))
    assert asked(consumer, RemotingCommand(RequestCode.HEART_BEAT, version=513, body=own.build()), SHOP).code == 0

    def handed(topic: str) -> RemotingCommand | None:
        """Ask for it; return the refusal, None if the consumer was asked."""
        fields = {"consumerGroup": "g", "clientId": "c", "msgId": answers[topic], "brokerName": "broker-a"}
        tool.send(ADMIN.sign(RemotingCommand(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext_fields=fields)))
        broker.wait(0.1)
        return None if consumer.received() else tool.received()[-1]

    assert handed("orders") is None
    refused = handed("secret")
    assert refused is not None
    assert (refused.code, "secret" in (refused.remark or "")) == (ResponseCode.NO_PERMISSION, False)
    del guard._accounts.accounts["shop"]  # type: ignore[attr-defined]
    assert handed("orders") is not None
    broker.stop()


def test_a_name_server_is_guarded_by_the_same_accounts(tmp_path: Path) -> None:
    watcher = FakeAccount("watcher", Need(Kind.CLUSTER, "DefaultCluster", GET))
    settings = Settings(kv_config_path=str(tmp_path / "kv.json"))
    guard = guard_of(ADMIN, NOBODY, watcher)
    service = NameServer(settings, lambda: 0, memory_reactor(), in_this_thread, admit=guard.admit)
    peer = Conversation(service.dispatch).connect()
    fields = {"namespace": "n", "key": "k", "value": "v"}
    for account, code in ((None, 16), (NOBODY, 16), (watcher, 16), (ADMIN, 0)):
        command = RemotingCommand(RequestCode.PUT_KV_CONFIG, ext_fields=dict(fields))
        assert asked(peer, command, account).code == code
    for account, code in ((None, 16), (NOBODY, 16), (watcher, 0), (ADMIN, 0)):
        assert asked(peer, RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO), account).code == code
    for account in (None, NOBODY):
        command = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": "orders"})
        assert asked(peer, command, account).code == ResponseCode.TOPIC_NOT_EXIST
    body = RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=b"{}")  # of brokers, which share the guard
    broker = broker_with(tmp_path / "broker", guard)
    assert asked(broker.connect(), body, NOBODY).code == 0
    broker.stop()
    assert asked(peer, RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=b"{}"), NOBODY).code == 16
    other = {"clusterName": "another", "brokerName": "b", "brokerAddr": "10.0.0.1:1", "brokerId": "0"}
    owner = FakeAccount("owner", Need(Kind.CLUSTER, "DefaultCluster", UPDATE))
    guard._accounts.accounts["owner"] = owner  # type: ignore[attr-defined]
    command = RemotingCommand(RequestCode.UNREGISTER_BROKER, ext_fields=dict(other))
    assert asked(peer, command, owner).code == 16


def test_only_an_administrator_sends_a_marker_that_takes_back_the_timer_message_of_any_topic(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    peer = broker.connect()
    for account, code in ((ADMIN, 0), (SHOP, 16)):
        marker = send_to("orders")
        marker.ext_fields["i"] = "TIMER_DELAY_SEC\x0160\x02TIMER_DEL_UNIQKEY\x01KEYOFSECRET\x02"
        assert asked(peer, marker, account).code == code
    broker.stop()


def test_a_recall_takes_back_a_message_of_the_topic_that_it_names_only(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL), recall_message_enable=True)
    peer, due = broker.connect(), str(START_MS + 5_000)
    for topic, account in (("orders", SHOP), ("secret", ADMIN)):
        timed = send_to(topic)
        timed.ext_fields["i"] = f"TIMER_DELIVER_MS\x01{due}\x02UNIQ_KEY\x01K{topic}\x02"
        assert asked(peer, timed, account).code == 0
    for key in ("Korders", "Ksecret", "secret+Ksecret"):
        handle = RecallHandle("orders", "broker-a", due, key).build()
        recall = RemotingCommand(RequestCode.RECALL_MESSAGE, ext_fields={"topic": "orders", "recallHandle": handle})
        assert asked(peer, recall, SHOP).code == 0
    broker.wait(7)
    assert [len(broker.messages(topic)) for topic in ("orders", "secret")] == [0, 1]
    broker.stop()


def in_light_queues(code: int, names: str) -> RemotingCommand:
    """Return a send to the topic orders that names light queues, in the header or, for a batch, in its message."""
    properties = f"INNER_MULTI_DISPATCH\x01{names}\x02"
    command = send_to("orders", code)
    if code == RequestCode.SEND_BATCH_MESSAGE:
        command.ext_fields["m"] = "true"
        command.body = build_batch([BatchPart(0, b"body", properties.encode())])
    else:
        command.ext_fields["i"] = properties
    if code == RequestCode.SEND_REPLY_MESSAGE_V2:
        command.ext_fields["b"] = f"{CLUSTER}_REPLY_TOPIC"
    return command


@pytest.mark.parametrize(
    "code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2]
)
def test_who_names_light_queues_needs_to_send_to_each_of_them(tmp_path: Path, code: int) -> None:
    light = FakeAccount("light", *(Need(Kind.TOPIC, name, PUB) for name in ("orders", "%LMQ%mine", "parent")))
    broker = broker_with(tmp_path, guard_of(light), enable_lmq=True, enable_multi_dispatch=True)
    peer = broker.connect()
    replied = ResponseCode.SYSTEM_ERROR if code == RequestCode.SEND_REPLY_MESSAGE_V2 else ResponseCode.SUCCESS
    for names, expected in (
        ("%LMQ%mine", replied),
        ("%LMQ%mine,%LMQ%theirs", ResponseCode.NO_PERMISSION),
        ("%LMQ%$secret$lite", ResponseCode.NO_PERMISSION),
        ("%LMQ%$parent$lite,theirs", replied),
    ):
        answer = asked(peer, in_light_queues(code, names), light)
        assert answer.code == expected, (names, answer.remark)
    assert [len(broker.messages(name)) for name in ("%LMQ%mine", "%LMQ%theirs", "%LMQ%$secret$lite")] == [1, 0, 0]
    assert len(broker.messages("%LMQ%$parent$lite")) == 1
    broker.stop()


def test_a_broker_is_moved_to_another_cluster_only_by_who_may_update_both(tmp_path: Path) -> None:
    owner = FakeAccount("owner", Need(Kind.CLUSTER, "mine", UPDATE))
    settings = Settings(kv_config_path=str(tmp_path / "kv.json"))
    guard = guard_of(ADMIN, owner)
    service = NameServer(settings, lambda: 0, memory_reactor(), in_this_thread, admit=guard.admit)
    peer = Conversation(service.dispatch).connect()
    body = RegisterBrokerBody(topic_config_table={name: TopicConfig(name) for name in "tu"}).build(compressed=False)

    def tell(code: RequestCode, account: FakeAccount, cluster: str, address: str, name: str = "b") -> int:
        fields = {"clusterName": cluster, "brokerName": name, "brokerAddr": address, "brokerId": "0"}
        fields |= {"haServerAddr": "", "compressed": "false", "bodyCrc32": "0"}
        return asked(peer, RemotingCommand(code, ext_fields=fields, body=body), account).code

    assert tell(RequestCode.REGISTER_BROKER, ADMIN, "theirs", "10.0.0.1:1") == 0
    assert tell(RequestCode.REGISTER_BROKER, owner, "mine", "10.0.0.1:1", "own") == 16
    for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.BROKER_HEARTBEAT):
        assert tell(code, owner, "mine", "10.0.0.6:1") == 16
    assert service.routes.group_addresses("theirs", "b", "10.0.0.9") == {0: "10.0.0.1:1"}
    assert tell(RequestCode.REGISTER_BROKER, owner, "mine", "10.0.0.6:1", "own") == 0
    assert tell(RequestCode.UNREGISTER_BROKER, owner, "mine", "10.0.0.6:1", "own") == 0


def test_a_send_of_a_known_form_is_judged_by_its_own_signature(tmp_path: Path) -> None:
    told: list[Told] = []
    broker = broker_with(tmp_path, guard_of(*ALL, told=told))
    broker.conversation.server.whole_headers.update(whole_headers(learns=True))
    peer = broker.connect()
    guessed = FakeAccount("shop")
    guessed.secret = b"guessed"
    for number, (account, sent_body, code) in enumerate(
        [
            *[(SHOP, b"body", 0)] * 4,
            (guessed, b"body", 16),
            (SHOP, b"other", 16),
            (SHOP, b"body", 0),
            (NOBODY, b"body", 16),
            *[(ADMIN, b"body", 0)] * 3,
        ]
    ):
        peer.send_bytes(signed_frame(account, f"0A0B{number}", sent_body))
        for _ in range(4):
            peer.channel._reactor.advance(0)  # type: ignore[attr-defined]
        (answer,) = peer.received()
        assert answer.code == code, answer.remark
    assert [one.rule for one in told] == ["wrong signature", "wrong signature", "no matched policies"]
    (reader,) = [one for one in broker.conversation.server.whole_headers.values() if isinstance(one, FormReader)][:1]
    assert {form.access_key for form in reader._forms if isinstance(form, SendForm)} >= {"shop", "admin"}
    broker.stop()


def test_a_send_whose_header_has_two_codes_is_judged_by_the_topic_to_which_it_goes(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, guard_of(*ALL))
    broker.conversation.server.whole_headers.update(whole_headers(learns=True))
    peer = broker.connect()
    assert asked(peer, send_to("secret"), ADMIN).code == 0
    for number in range(3):
        command = SHOP.sign(
            RemotingCommand(
                RequestCode.SEND_MESSAGE_V2,
                ext_fields={**sent_fields(f"0A0B{number}"), "b": "secret", "topic": "orders"},
                body=b"body",
            )
        )
        peer.send_bytes(framed(command, b"body", ending=',"code":10}'))
        for _ in range(4):
            peer.channel._reactor.advance(0)  # type: ignore[attr-defined]
        peer.received()
    assert broker.parts.store.max_offset("secret", 0) == 1
    broker.stop()


def signed_frame(account: FakeAccount, key: str, sent_body: bytes) -> bytes:
    """Return a send as a Java client writes it, signed for the body ``body``."""
    fields = sent_fields(key)
    command = account.sign(RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=b"body"))
    return framed(command, sent_body)


def sent_fields(key: str) -> dict[str, str]:
    """Return the fields of a send to ``orders`` as a Java client writes them."""
    return {
        "a": "p",
        "b": "orders",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1795",
        "h": "0",
        "i": f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "vm",
    }


def framed(command: RemotingCommand, sent_body: bytes, ending: str = "}") -> bytes:
    """Return the frame of a signed send as a Java client writes it, but for the ending of its header."""
    fields = command.ext_fields
    names = {name: fields[name] for name in ("Signature", "AccessKey")}
    members = {"code": 310, "extFields": names | fields, "flag": 0, "language": "JAVA", "opaque": 7}
    members |= {"serializeTypeCurrentRPC": "JSON", "version": 513}
    header = f"{json.dumps(members, separators=(',', ':'))[:-1]}{ending}".encode()
    size = 4 + len(header) + len(sent_body)
    return size.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + sent_body


def test_every_administrative_change_is_told_and_nothing_else(tmp_path: Path) -> None:
    changed: list[Told] = []
    maker = FakeAccount("maker", *everything())
    broker = broker_with(tmp_path, guard_of(ADMIN, maker, changed=changed))
    peer = broker.connect()
    make = {"topic": "t", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    make["topicFilterType"] = "SINGLE_TAG"
    group = b'{"groupName":"g"}'
    for _ in range(2):  # what is remembered as allowed is told as well
        for account, command in (
            (maker, RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, ext_fields=dict(make))),
            (maker, RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)),
            (ADMIN, RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6")),
            (maker, RemotingCommand(RequestCode.GET_BROKER_CONFIG)),
            (maker, send_to("t")),
        ):
            assert asked(peer, command, account).code == 0
    made = [("maker", 17, "Topic:t", "Create"), ("maker", 200, "Group:g", "Create")]
    expected = [*made, ("admin", 25, "Cluster:DefaultCluster", "Update")]
    assert [(one.account, one.code, one.resource, one.action) for one in changed] == expected * 2
    assert asked(peer, RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG), maker).code == 16
    assert len(changed) == 6
    white = broker_with(tmp_path / "white", guard_of(white=["10.0.0.9"], changed=changed))
    command = RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, ext_fields=dict(make))
    assert asked(white.conversation.connect("10.0.0.9"), command, None).code == 0
    assert changed[-1] == ("", "10.0.0.9", 17, "Topic:t", "Create", "white: 10.0.0.9", "")
    command = RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
    assert asked(white.conversation.connect("10.0.0.9"), command, None).code == 0
    assert changed[-1] == ("", "10.0.0.9", 200, "Group:g", "Create", "white: 10.0.0.9", "")
    broker.stop()
    white.stop()


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("code", [RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP])
def test_who_was_let_in_by_a_white_list_under_a_name_is_told_as_not_proven(
    tmp_path: Path, code: RequestCode, is_open: bool
) -> None:
    changed: list[Told] = []
    guard = guard_of(
        ADMIN, white=[] if is_open else ["10.0.0.9"], open_codes=[code] if is_open else [], changed=changed
    )
    broker = broker_with(tmp_path, guard)
    peer = broker.conversation.connect("10.0.0.9")
    make = {"topic": "t", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    make["topicFilterType"] = "SINGLE_TAG"
    forged = FakeAccount("admin")
    forged.secret = b"guessed"
    rule = "authenticationWhitelist" if is_open else "white: 10.0.0.9"
    for account, is_proven in ((forged, False), (ADMIN, is_open)):
        command = RemotingCommand(code, ext_fields=dict(make), body=b'{"groupName":"g"}')
        assert asked(peer, command, account).code == 0
        (told,) = changed
        assert told.account == "admin"
        assert (told.rule == f"account not proven; {rule}") is not is_proven
        changed.clear()
    broker.stop()


SENDING = {"secret": Need(Kind.TOPIC, "secret", PUB), "%RETRY%secret": Need(Kind.GROUP, "secret", SUB)}
"""The need of who sends to a topic, by the name of the topic."""


@pytest.mark.parametrize("topic", SENDING)
def test_only_producers_that_may_send_to_its_topic_are_asked_about_a_half_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setattr("gateway.broker.parts.steady_clock", lambda clock_ms: clock_ms)  # the reactor's time counts
    sender = FakeAccount("sender", SENDING[topic])
    guard = guard_of(ADMIN, NOBODY, sender)
    broker = broker_with(tmp_path, guard)
    spy, honest, operator = broker.connect(), broker.connect(), broker.conversation.connect("127.0.0.1")
    half = send_to(topic)
    half.ext_fields["i"] = "TRAN_MSG\x01true\x02PGROUP\x01p\x02"
    assert asked(operator, half, ADMIN).code == 0

    def told(*peers: Peer) -> list[bool]:
        """Whether each got the half message when somebody of the group is asked for the outcome."""
        check = CheckTransactionRequest(id="0", operator="o")
        command = RemotingCommand(RequestCode.GATEWAY_CHECK_TRANSACTION, ext_fields=build_header(check))
        asked(operator, command, ADMIN)
        broker.wait(0.5)
        return [any(b"body" in got.body for got in peer.received()) for peer in peers]

    body = HeartbeatData("c", producers=("p",)).build()
    assert asked(spy, RemotingCommand(RequestCode.HEART_BEAT, body=body), NOBODY).code == 0
    assert told(spy) == [False]
    assert asked(honest, RemotingCommand(RequestCode.HEART_BEAT, body=body), sender).code == 0
    for _ in range(3):
        assert told(spy, honest) == [False, True]
    guard._accounts.accounts["sender"] = FakeAccount("sender")  # type: ignore[attr-defined]
    assert told(spy, honest) == [False, False]
    guard._accounts.accounts["nobody"] = FakeAccount("nobody", *everything())  # type: ignore[attr-defined]
    assert told(spy, honest) == [True, False]
    broker.stop()


@pytest.mark.parametrize("topic", SENDING)
@pytest.mark.parametrize("by_admin", [True, False])
@pytest.mark.parametrize("named", [None, HALF_TOPIC])
def test_an_outcome_needs_the_topic_of_its_half_message_whether_clients_name_none_or_as_of_5_that_of_all_half_messages(
    tmp_path: Path, topic: str, by_admin: bool, named: str | None
) -> None:
    seller = FakeAccount("seller", SENDING[topic])
    settler = ADMIN if by_admin else seller
    broker = broker_with(tmp_path, guard_of(*ALL, seller))
    peer = broker.connect()
    half = send_to(topic)
    half.ext_fields.update({"f": "4", "i": "TRAN_MSG\x01true\x02PGROUP\x01p\x02"})
    answer = asked(peer, half, ADMIN)
    assert answer.code == 0
    end = {
        "producerGroup": "p",
        "tranStateTableOffset": answer.ext_fields["queueOffset"],
        "commitOrRollback": "8",
        "commitLogOffset": str(int(answer.ext_fields["msgId"][-16:], 16)),
        "msgId": answer.ext_fields["msgId"],
    }
    if named is not None:
        end["topic"] = named
    unanswered = broker.parts.transactions.counts.checks_unknown
    unknown = {**end, "commitOrRollback": "0", "fromTransactionCheck": "true"}
    for account, count in ((SHOP, 0), (settler, 1)):
        peer.send(account.sign(RemotingCommand(RequestCode.END_TRANSACTION, ext_fields=dict(unknown))))
        refused = [got.code for got in peer.received() if got.is_response]
        assert (refused, unanswered.value) == ([16] * (1 - count), count)
    for account, code in ((SHOP, 16), (settler, 0)):
        command = RemotingCommand(RequestCode.END_TRANSACTION, ext_fields=dict(end))
        answer = asked(peer, command, account)
        assert answer.code == code
        assert "secret" not in (answer.remark or "")
    assert not broker.parts.transactions.pending.count
    broker.stop()
