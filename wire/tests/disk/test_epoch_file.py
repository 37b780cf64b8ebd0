"""The file of epochs: bytes of Apache RocketMQ 5.5.0, any epochs, and files that are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.epoch_file import MAX_EPOCH, MAX_EPOCHS, MAX_START, EpochEntry, build_epochs, parse_epochs
from wire.errors import LayoutError

CAPTURED = b"1\n1725254278\n1-0\n"
EPOCHS = st.lists(
    st.tuples(st.integers(0, MAX_EPOCH), st.integers(0, MAX_START)),
    max_size=12,
    unique_by=(lambda pair: pair[0], lambda pair: pair[1]),
).map(lambda pairs: tuple(map(EpochEntry, sorted(one for one, _ in pairs), sorted(other for _, other in pairs))))


def test_a_captured_file_is_read_and_written() -> None:
    assert parse_epochs(CAPTURED) == (EpochEntry(1, 0),)
    assert build_epochs([EpochEntry(1, 0)]) == CAPTURED


@given(EPOCHS)
def test_what_is_written_is_read(epochs: tuple[EpochEntry, ...]) -> None:
    assert parse_epochs(build_epochs(epochs)) == epochs


def test_a_checksum_of_zero_is_not_checked() -> None:
    assert parse_epochs(b"2\n0\n1-0\n2-723\n") == (EpochEntry(1, 0), EpochEntry(2, 723))


def test_line_breaks_of_windows_are_read() -> None:
    assert parse_epochs(CAPTURED.replace(b"\n", b"\r\n")) == (EpochEntry(1, 0),)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "has 0 lines"),
        (b"0\n", "has 1 lines"),
        (CAPTURED[:-1], "line break"),
        (CAPTURED.replace(b"78", b"79"), "CRC-32"),
        (b"2\n0\n1-0\n", "announces 2 entries and has 1"),
        (b"1\n0\n1-0\n2-5\n", "announces 1 entries and has 2"),
        (b"2\n0\n1-5\n2-5\n", "follows 1"),
        (b"2\n0\n2-0\n2-5\n", "follows 2"),
        (b"2\n0\n2-0\n1-5\n", "follows 2"),
        (b"1\n0\n1\n", "start of an epoch"),
        (b"1\n0\n-1-0\n", "as epoch"),
        (b"1\n0\n1--2\n", "start of an epoch"),
        (b"1\n0\n1-0-0\n", "start of an epoch"),
        ("1\n0\n١-0\n".encode(), "as epoch"),
        (b"1\n0\n1-%d\n" % (MAX_START + 1), "from 9223372036854775808"),
        (b"1\n0\n%d-0\n" % (MAX_EPOCH + 1), "the epoch 2147483648"),
        (b"1\n0\n" + b"1" * 5000 + b"-0\n", "as epoch"),
        (b"%d\n0\n" % (MAX_EPOCHS + 1) + b"1-0\n" * (MAX_EPOCHS + 1), "the limit is 100000"),
        (b"{}\n\n", "as head"),
    ],
)
def test_a_file_that_is_not_whole_or_out_of_order_is_refused(raw: bytes, text: str) -> None:
    with pytest.raises(LayoutError, match=text):
        parse_epochs(raw)


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused_in_one_way(raw: bytes) -> None:
    with suppress(LayoutError):
        parse_epochs(raw)
