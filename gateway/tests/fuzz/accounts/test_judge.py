"""The judge knows what each request needs, who signed it, and tells what was carried out and should not have been."""

from __future__ import annotations

import re
import zlib
from random import Random
from typing import Any

import pytest

from gateway.tests.fuzz.accounts.judge import Judge, Named, Rule, read, rules
from gateway.tests.fuzz.accounts.party import ROOT, Kind, Member, party, signature
from gateway.tests.fuzz.accounts.said import said
from gateway.tests.fuzz.accounts.signing import Signing
from gateway.tests.fuzz.requests.frames import frame_of
from gateway.tests.fuzz.requests.grammar import Asked, Grammar, Server, implemented
from gateway.tests.fuzz.requests.names import PASSWORD
from wire.codes import RequestCode as Code
from wire.command import RemotingCommand

CANARY = b"canary-text"
REFUSALS = {Kind.USERS: (16, "User:x"), Kind.PLAIN: (1, "org.apache.rocketmq.acl.common.AclException: x")}
KINDS = [Kind.USERS, Kind.PLAIN]


def judge(kind: Kind = Kind.USERS) -> Judge:
    return Judge(party(kind), CANARY)


def frame(member: Member, code: int, **fields: str) -> bytes:
    signed = {**fields, "AccessKey": member.name}
    signed["Signature"] = signature(member.secret, signed, b"")
    return frame_of(Asked(Server.BROKER, code, list(signed.items()), opaque=7))


def answer(code: int, **more: Any) -> RemotingCommand:
    return RemotingCommand(code, opaque=7, flag=1, **more)


def test_each_code_that_is_answered_has_a_rule() -> None:
    known = rules()
    assert {code for codes in implemented().values() for code in codes} <= known.keys()
    assert {rule.who for rule in known.values()} == {"everybody", "any account", "account", "admin", "operator"}
    assert known[Code.GET_CONSUME_STATS] == Rule(
        "account",
        [
            Named("Group", "consumerGroup", ["Get"], False, ""),
            Named("Topic", "topic", ["Get"], True, ""),
            Named("Topic", "topicList", ["Get"], True, ""),
        ],
    )
    assert known[Code.SEND_REPLY_MESSAGE_V2].named == [Named("Topic", "b", ["Pub"], False, "_REPLY_TOPIC")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "code", "fields", "may"),
    [
        ("fuzz_narrow", Code.SEND_MESSAGE_V2, {"b": "fuzz_a"}, True),
        ("fuzz_narrow", Code.SEND_MESSAGE_V2, {"b": "fuzz_b"}, False),
        ("fuzz_narrow", Code.SEND_MESSAGE_V2, {}, False),
        ("fuzz_narrow", Code.PULL_MESSAGE, {"consumerGroup": "fuzz_group_a", "topic": "fuzz_b"}, True),
        ("fuzz_narrow", Code.PULL_MESSAGE, {"consumerGroup": "fuzz_group_a", "topic": "%RETRY%fuzz_group_a"}, True),
        ("fuzz_narrow", Code.PULL_MESSAGE, {"consumerGroup": "fuzz_group_a", "topic": "%RETRY%fuzz_group_b"}, False),
        ("fuzz_narrow", Code.PULL_MESSAGE, {"consumerGroup": "fuzz_group_a", "topic": "%RETRY%fuzz_group_a_x"}, False),
        ("fuzz_narrow", Code.GET_BROKER_CONFIG, {}, False),
        ("fuzz_narrow", Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "canary"}, True),
        ("fuzz_denied", Code.SEND_MESSAGE_V2, {"b": "anything"}, True),
        ("fuzz_denied", Code.SEND_MESSAGE_V2, {"b": "canary"}, False),
        ("fuzz_denied", Code.SEND_MESSAGE_V2, {"b": "rmq_sys_REVIVE_LOG_DefaultCluster"}, False),
        ("fuzz_denied", Code.PULL_MESSAGE, {"consumerGroup": "x", "topic": "SCHEDULE_TOPIC_XXXX"}, False),
        ("fuzz_narrow", Code.SEND_REPLY_MESSAGE_V2, {"b": "DefaultCluster_REPLY_TOPIC"}, True),
        ("fuzz_narrow", Code.SEND_REPLY_MESSAGE_V2, {"b": "canary_REPLY_TOPIC"}, False),
        ("fuzz_denied", Code.UPDATE_BROKER_CONFIG, {}, False),
        ("fuzz_root", Code.UPDATE_BROKER_CONFIG, {}, True),
        ("fuzz_root", 99, {}, True),
        ("fuzz_denied", 99, {}, False),
    ],
)
def test_what_is_forbidden_and_carried_out_is_told(
    kind: Kind, name: str, code: int, fields: dict[str, str], may: bool
) -> None:
    for carried_out in (answer(0), answer(17, remark="no topic")):
        seen = judge(kind)
        seen.sent(1, frame(seen.party.members[name], code, **fields))
        seen.answered(1, carried_out)
        assert (seen.wrong == []) is may
    seen = judge(kind)
    seen.sent(1, frame(seen.party.members[name], code, **fields))
    refusal, remark = REFUSALS[kind]
    seen.answered(1, answer(refusal, remark=remark))
    assert seen.wrong == []


def test_a_wrong_signature_and_a_disabled_account_are_forbidden() -> None:
    seen = judge()
    for sent in (
        frame(Member(ROOT.name + "x"), Code.GET_BROKER_CONFIG),
        frame(ROOT, Code.GET_BROKER_CONFIG).replace(b'"Signature":"', b'"Signature":"A'),
        frame(seen.party.members["fuzz_off"], Code.GET_BROKER_CONFIG),
    ):
        asked = read(sent)
        assert asked is None or seen.forbids(asked) is not None


def test_an_answer_that_may_be_for_several_requests_is_wrong_if_it_is_wrong_for_each() -> None:
    seen = judge()
    for name in ("fuzz_root", "fuzz_narrow"):
        seen.sent(1, frame(seen.party.members[name], Code.GET_BROKER_CONFIG))
    for carried_out in (answer(0), answer(0)):
        seen.answered(1, carried_out)
    assert seen.wrong == []
    for _ in range(2):
        seen.sent(1, frame(seen.party.members["fuzz_narrow"], Code.GET_BROKER_CONFIG))
    seen.answered(2, answer(0))
    assert seen.wrong == []
    seen.answered(1, answer(0))
    assert len(seen.wrong) == 1
    seen.answered(1, answer(16))
    assert len(seen.wrong) == 1


def test_a_secret_and_the_protected_message_are_told() -> None:
    for member, shown, is_wrong in (
        (ROOT, b"x", False),
        (ROOT, ROOT.secret.encode(), True),
        (ROOT, CANARY, False),
        (party(Kind.USERS).members["fuzz_denied"], CANARY, True),
    ):
        seen = judge()
        seen.sent(1, frame(member, Code.CHECK_CLIENT_CONFIG))
        seen.answered(1, answer(0, body=b"a" + shown + b"b"))
        assert bool(seen.wrong) is is_wrong


@pytest.mark.parametrize(
    ("sent", "asked", "is_wrong"),
    [
        (Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE, False),
        (Code.SEND_MESSAGE_V2, Code.AUTH_GET_USER, True),
        (Code.SEND_MESSAGE_V2, Code.GET_BROKER_CONFIG, True),
        (Code.AUTH_CREATE_USER, Code.PULL_MESSAGE, True),
    ],
)
def test_a_password_that_the_fuzzer_sent_as_a_message_comes_back_from_there_only(
    sent: int, asked: int, is_wrong: bool
) -> None:
    seen = judge()
    assert any(member.secret == PASSWORD for member in seen.party.members.values())
    seen.sent(1, frame(ROOT, sent, b="fuzz_a", i=f"password={PASSWORD}"))
    seen.answered(1, answer(0))
    seen.sent(1, frame(ROOT, asked, topic="fuzz_a"))
    seen.answered(1, answer(0, body=PASSWORD.encode()))
    assert bool(seen.wrong) is is_wrong


@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_signed_rightly_and_wrongly_and_never_do_harm(kind: Kind) -> None:
    seen = judge(kind)
    grammar = Grammar(Random(3), lambda: 1_750_000_000_000)
    signing = Signing(grammar.random, seen.party, seen, "AC" * 16)
    senders: dict[str, int] = {}
    for _ in range(1_000):
        asked = read(signing.frame(grammar.any_request()))
        if asked is None:
            continue
        sender = seen.sender(asked)
        senders["" if sender is None else sender.name] = senders.get("" if sender is None else sender.name, 0) + 1
        if sender is not None and sender.is_admin and sender.is_enabled:
            texts = [value for name, value in asked.fields.items() if name not in ("AccessKey", "Signature")]
            assert b"canary" not in asked.body
            assert not any("canary" in text for text in texts)
    assert senders.keys() == {"", *(member.name for member in seen.party.signers)}
    assert 200 < senders[""] < 700


@pytest.mark.parametrize("kind", KINDS)
def test_no_registration_that_is_carried_out_lists_a_protected_topic(kind: Kind) -> None:
    """Whoever may register a broker: its topics are in the routes of all clients."""
    seen = judge(kind)
    grammar = Grammar(Random(5), lambda: 1_750_000_000_000)
    signing = Signing(grammar.random, seen.party, seen, "AC" * 16)
    carried_out = aimed = 0
    for _ in range(2_000):
        asked = grammar.request(Server.NAME_SERVER, Code.REGISTER_BROKER)
        registration = read(signing.frame(asked))
        if registration is None or registration.code != Code.REGISTER_BROKER:
            continue
        is_protected = re.search('"(?:canary|honest|%RETRY%canary)', said(registration.fields, registration.body))
        if seen.forbids(registration) is None:
            carried_out += 1
            assert not is_protected, registration
        aimed += is_protected is not None
    assert carried_out > 200
    assert aimed > 100


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"topic": "honest"}, b""),
        ({"topicPerms": "fuzz_a=PUB,honest=SUB"}, b""),
        ({}, b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"honest":{"topicName":"honest"}}}}'),
        ({}, b'{"topicConfigList":[{"topicName":"honest"}]}'),
        ({}, b'{"topicName":"\\u0068one\\u0073t"}'),
        ({}, zlib.compress(b"honest 4 4 6 SINGLE_TAG")),
        ({}, zlib.compress(b"honest 4 4 6 SINGLE_TAG")[:-4]),
    ],
)
def test_a_name_is_found_wherever_a_request_says_it(fields: dict[str, str], body: bytes) -> None:
    assert "honest" in said(fields, body)
    assert "honest" not in said({"AccessKey": "honest"}, b"\xff")
