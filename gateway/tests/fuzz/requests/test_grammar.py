"""The grammar reaches every request, makes the same ones of the same seed, and leaves the honest clients alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from gateway.tests.fuzz import honest
from gateway.tests.fuzz.requests import names
from gateway.tests.fuzz.requests.frames import frame_of, spoiled
from gateway.tests.fuzz.requests.grammar import OWN_BROKERS_ONLY, Asked, Grammar, Pairs, implemented, json_text
from gateway.tests.fuzz.requests.sequences import SEQUENCES, Requests, a_sequence
from wire.codes import RequestCode as Code
from wire.connection import Connection
from wire.errors import RemoteError

REQUESTS = 5_000


def grammar(seed: int = 1) -> Grammar:
    return Grammar(Random(seed), lambda: 1_750_000_000_000)


def unanswered(requests: Requests) -> Iterator[Asked]:
    """The requests of a sequence that is never answered."""
    yield from requests


@cache
def many() -> list[Asked]:
    """A mixture of single requests and sequences."""
    made = grammar()
    mixed: list[Asked] = []
    for number in range(REQUESTS):
        mixed += [made.any_request()] if number % 10 else unanswered(a_sequence(made))
    return mixed


def test_the_same_seed_makes_the_same_requests() -> None:
    first, again = grammar(7), grammar(7)
    for _ in range(200):
        assert frame_of(first.any_request()) == frame_of(again.any_request())


def test_every_code_that_a_server_answers_is_asked() -> None:
    asked = {(request.server, request.code) for request in many()}
    wanted = {(server, code) for server, codes in implemented().items() for code in codes}
    assert Code.UPDATE_BROKER_CONFIG in {code for _, code in wanted}
    assert not wanted - asked


def test_honest_clients_are_never_named() -> None:
    for request in many():
        assert b"honest" not in frame_of(request)
        assert b"ho\\u006eest" not in frame_of(request)
    assert all("honest" in name for name in (honest.TOPIC, honest.POP_TOPIC, honest.GROUP))


def test_requests_that_take_a_broker_away_name_brokers_of_the_fuzzer() -> None:
    for request in many():
        if request.code in OWN_BROKERS_ONLY:
            assert ("brokerName", names.BROKER) not in request.fields
        if request.code == Code.GATEWAY_SETTLE_TRANSACTION:
            ids = [value for name, value in request.fields if name == "id"]
            assert all(value in names.TRANSACTION_IDS for value in ids), ids


def test_something_is_wrong_in_every_way() -> None:
    made = many()
    assert any(len({name for name, _ in request.fields}) < len(request.fields) for request in made)
    assert any(not isinstance(value, str) for request in made for _, value in request.fields)
    assert {1, 2, 3} <= {request.flag for request in made}
    texts = [frame_of(request) for request in made]
    for part in (b"9223372036854775808", b"\xc2\x9b", b'"$ref"', b"%s%n", b"../../", b"[[[[[["):
        assert any(part in text for text in texts), part


@pytest.mark.parametrize("is_binary", [False, True])
def test_a_whole_request_is_what_was_meant_in_both_forms_of_header(is_binary: bool) -> None:
    made = grammar()
    for server, codes in implemented().items():
        for code in codes:
            request = made.request(server, code)
            if is_binary and not -(2**15) <= code < 2**15:
                continue
            request.is_binary = is_binary
            (command,) = Connection().receive_data(frame_of(request))
            assert command.code == code
            # The binary form has no empty values: Java leaves them out as well.
            assert command.ext_fields == {name: value for name, value in request.fields if value or not is_binary}
            assert command.body == request.body


def test_spoiled_frames_are_refused_or_read_but_never_fail_otherwise() -> None:
    made = grammar()
    refused = 0
    for _ in range(2_000):
        frame = spoiled(frame_of(made.any_request()), made.random)
        try:
            Connection().receive_data(frame)
        except RemoteError:
            refused += 1
    assert refused > 500


def test_sequences_end_without_answers() -> None:
    for sequence in SEQUENCES:
        assert list(unanswered(sequence(grammar())))


def test_json_may_name_a_member_twice() -> None:
    assert json_text(Pairs([("a", 1), ("a", [True, None, "\x00\ud800"])])) == r'{"a":1,"a":[true,null,"\u0000\ud800"]}'
