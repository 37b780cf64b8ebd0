"""The first bytes of a slave of ours: whole, in pieces, of another kind, broken."""

from __future__ import annotations

import pytest

from wire.errors import FrameError
from wire.replication.auto_switch import Greeting, build_greeting
from wire.replication.classic import build_report
from wire.replication.entry import ENTRY, MARK, TOKEN_BYTES, Entered, EntryReader, build_entry

TOKEN = bytes(range(TOKEN_BYTES))


def test_the_bytes_are_a_mark_and_a_token() -> None:
    assert build_entry(TOKEN) == b"\xffRMQGWHA" + TOKEN


def test_an_entry_in_pieces_of_any_size_is_the_same() -> None:
    sent = build_entry(TOKEN) + build_report(7)
    for size in range(1, len(sent) + 1):
        reader, found, rest = EntryReader(), None, b""
        for begin in range(0, len(sent), size):
            piece = sent[begin : begin + size]
            if found is None:
                found = reader.receive_data(piece)
                rest += b"" if found is None else found.rest
            else:
                rest += piece
        assert found is not None
        assert (found.token, rest) == (TOKEN, build_report(7)), size


@pytest.mark.parametrize("data", [build_report(0), build_report(1 << 62), build_greeting(Greeting(3)), b"\0", b"\x16"])
def test_words_of_both_protocols_are_no_entry(data: bytes) -> None:
    assert EntryReader().receive_data(data) == Entered(None, data)


def test_no_bytes_say_nothing() -> None:
    assert EntryReader().receive_data(b"") is None


@pytest.mark.parametrize("data", [b"\xff\0", MARK[:-1] + b"B", MARK[:3] + b"\xff" * 90])
def test_other_bytes_that_begin_alike_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError, match="no entry"):
        EntryReader().receive_data(data)


def test_at_most_one_entry_is_held() -> None:
    reader = EntryReader()
    for byte in build_entry(TOKEN)[: ENTRY.size - 1]:
        assert reader.receive_data(bytes([byte])) is None


@pytest.mark.parametrize("size", [0, TOKEN_BYTES - 1, TOKEN_BYTES + 1])
def test_a_token_has_one_length(size: int) -> None:
    with pytest.raises(FrameError, match="a token has 32 bytes"):
        build_entry(bytes(size))
