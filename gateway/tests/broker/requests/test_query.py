"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID as a client sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.broker.cold_reads import ColdReads
from gateway.broker.requests.query import MAX_ANSWER_BYTES, QueryMessages
from gateway.in_thread import Failed, in_this_thread
from gateway.store.index.index_entries import KeyKind
from gateway.tests.desks import desk_of
from gateway.tests.remoting.conversation import Conversation
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand

if TYPE_CHECKING:
    pass


class IndexedStore:
    """Records by offset; every key finds all of them."""

    def __init__(self) -> None:
        self.records: dict[int, bytes] = {}
        self.queries: list[tuple[Any, ...]] = []
        self.gone: set[int] = set()

    def each_with_key(self, *query: Any) -> list[Any]:
        self.queries.append(query)
        found = sorted(self.records.items(), reverse=True)
        return [
            SimpleNamespace(commit_log_offset=offset, total_size=len(record), stored_at_ms=1000 + offset, has_body=True)
            for offset, record in found
        ]

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        return None if commit_log_offset in self.gone else self.records.get(commit_log_offset)


class Queried:
    """A broker that answers queries, and a client."""

    def __init__(self, in_thread: Any = in_this_thread) -> None:
        self.store = IndexedStore()
        self.server = Conversation()
        desk = desk_of(store=self.store, cold_reads=ColdReads(in_thread, threads=1, limit=1))
        QueryMessages(desk).register(self.server.dispatch)
        self.peer = self.server.connect()

    def query(self, **changed: str) -> RemotingCommand:
        fields = {
            "topic": "t",
            "key": "k",
            "maxNum": "10",
            "beginTimestamp": "5",
            "endTimestamp": "9",
            **changed,
        }
        return self.peer.ask(RequestCode.QUERY_MESSAGE, fields=fields)

    def view(self, offset: str) -> RemotingCommand:
        return self.peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, fields={"offset": offset})


@pytest.fixture
def queried() -> Queried:
    return Queried()


def test_the_records_of_a_key_are_given_in_the_order_of_the_log(queried: Queried) -> None:
    queried.store.records = {0: b"first", 5: b"second"}
    answer = queried.query()
    assert answer.body == b"firstsecond"
    assert answer.ext_fields == {"indexLastUpdateTimestamp": "1005", "indexLastUpdatePhyoffset": "5"}
    assert queried.store.queries == [("t", "k", 5, 9, KeyKind.ANY)]


def test_a_key_without_messages_is_not_found(queried: Queried) -> None:
    answer = queried.query()
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark is not None
    assert "topic t by the key k" in answer.remark


@pytest.mark.parametrize(("asked", "given"), [("1000", 64), ("0", 1), ("-5", 1), ("64", 64)])
def test_a_query_gives_one_to_sixty_four_messages(queried: Queried, asked: str, given: int) -> None:
    queried.store.records = dict.fromkeys(range(100), b"x")
    assert len(queried.query(maxNum=asked).body) == given


def test_messages_that_the_client_may_not_see_do_not_count(queried: Queried) -> None:
    queried.store.records = {0: b"first", 5: b"second", 6: b"hidden"}
    queried.store.gone = {6}
    assert queried.query(maxNum="1").body == b"second"


def test_a_query_by_unique_id_has_its_own_number(queried: Queried) -> None:
    queried.store.records = dict.fromkeys(range(100), b"x")
    assert len(queried.query(maxNum="1", _UNIQUE_KEY_QUERY="true").body) == 32


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, KeyKind.ANY),
        ({"indexType": "K"}, KeyKind.ANY),
        ({"indexType": "U"}, KeyKind.UNIQUE),
        ({"indexType": "T"}, KeyKind.TAG),
        ({"indexType": "?"}, KeyKind.ANY),
        ({"_UNIQUE_KEY_QUERY": "true", "indexType": "T"}, KeyKind.UNIQUE),
        ({"_UNIQUE_KEY_QUERY": "false", "indexType": "T", "lastKey": "x"}, KeyKind.TAG),
    ],
)
def test_a_query_says_what_kind_of_key_it_has(queried: Queried, fields: dict[str, str], kind: KeyKind) -> None:
    queried.query(**fields)
    assert queried.store.queries[0][4] is kind


@pytest.mark.parametrize(
    ("sizes", "answer_bytes"),
    [([MAX_ANSWER_BYTES // 2] * 10, MAX_ANSWER_BYTES), ([MAX_ANSWER_BYTES + 1], MAX_ANSWER_BYTES + 1)],
)
def test_large_messages_do_not_make_an_answer_larger_than_a_frame(
    queried: Queried, sizes: list[int], answer_bytes: int
) -> None:
    queried.store.records = {offset: b"x" * size for offset, size in enumerate(sizes)}
    assert len(queried.query().body) == answer_bytes


def test_messages_that_retention_removed_meanwhile_are_left_out(queried: Queried) -> None:
    queried.store.records = {0: b"first", 5: b"second"}
    queried.store.gone = {0}
    assert queried.query().body == b"second"


def test_a_message_is_found_at_its_offset(queried: Queried) -> None:
    queried.store.records = {77: b"record"}
    assert queried.view("77").body == b"record"


@pytest.mark.parametrize("offset", ["78", "-1", "9223372036854775807"])
def test_an_offset_without_a_message_is_an_error_with_the_offset(queried: Queried, offset: str) -> None:
    answer = queried.view(offset)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"can not find message by the offset, {offset}"


def test_a_read_that_fails_is_answered(queried: Queried) -> None:
    def failing(work: Any, done: Any) -> None:
        done(Failed(OSError(5, "Input/output error")))

    answer = Queried(failing).view("0")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "Input/output error" in answer.remark
