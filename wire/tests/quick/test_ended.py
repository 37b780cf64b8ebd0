"""Outcomes that are recognised by their form are those that a parser reads."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings

from wire.headers.transaction import EndTransactionRequest
from wire.quick.ended import EndedHeader, end_reader, ended
from wire.quick.known_forms import FormReader
from wire.quick.whole import decoder
from wire.tests.quick.known_reading import assert_read_as_ever, changed


def header(
    key: str = "0A0B", log: int = 684, half: int = 2, outcome: int = 8, check: str = "false", opaque: int = 27
) -> bytes:
    """Return the header as the Java client writes it."""
    return (
        f'{{"code":37,"extFields":{{"producerGroup":"g0","bname":"vm","commitLogOffset":"{log}","topic":"Bench",'
        f'"msgId":"{key}","tranStateTableOffset":"{half}","commitOrRollback":"{outcome}","transactionId":"{key}",'
        f'"fromTransactionCheck":"{check}"}},"flag":2,"language":"JAVA","opaque":{opaque},'
        f'"serializeTypeCurrentRPC":"JSON","version":513}}'
    ).encode()


def reader() -> FormReader:
    return end_reader(decoder(EndTransactionRequest), learns=True)


def facts(of: object) -> tuple[object, ...]:
    assert isinstance(of, EndedHeader)
    offsets = (of.tran_state_table_offset, of.commit_log_offset)
    return (of.producer_group, *offsets, of.commit_or_rollback, of.from_transaction_check)


@pytest.mark.parametrize(("outcome", "check"), [(8, "false"), (12, "true"), (0, "TRUE")])
def test_a_form_is_known_after_one_header_and_tells_what_parsing_tells(outcome: int, check: str) -> None:
    learning = reader()
    first = learning.read(header(outcome=outcome, check=check), b"")
    assert first is not None
    assert isinstance(first.header, EndTransactionRequest)
    assert facts(ended(first.header)) == ("g0", 2, 684, outcome, check != "false")
    text = header("F0F1", 10**14, 10**9, outcome, check, 16)

    known = learning.read(text, b"")

    assert known is not None
    assert facts(known.header) == ("g0", 10**9, 10**14, outcome, check != "false")
    assert_read_as_ever(learning, text, EndTransactionRequest)


def test_commits_and_rollbacks_are_told_apart() -> None:
    learning = reader()
    for outcome in (8, 12, 8, 12, 8, 12):
        command = learning.read(header(outcome=outcome), b"")
    for outcome in (12, 8):
        command = learning.read(header(outcome=outcome), b"")
        assert command is not None
        assert facts(command.header)[3] == outcome


@settings(deadline=None, max_examples=300)
@given(changed(header("CD")))
@example(header("CD").replace(b'"opaque":27', b'"opaque":2E7'))
@example(header("CD").replace(b'"opaque":27', b'"opaque":"27"'))
@example(header("CD").replace(b'"version":513', b'"version":5e2'))
def test_headers_with_other_bytes_are_read_as_ever(text: bytes) -> None:
    learning = reader()
    for key in "AB":
        learning.read(header(key), b"")
    assert_read_as_ever(learning, text, EndTransactionRequest)
