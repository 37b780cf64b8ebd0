"""The bytes between master and slave: captured ones of Apache RocketMQ 5.5.0, any pieces, and what is refused."""

from __future__ import annotations

import pytest
from construct import Int32sb, Int64sb, Struct
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import FrameError
from wire.replication.classic import (
    MAX_STRETCH_BODY_BYTES,
    MAX_STRETCH_BYTES,
    REPORT,
    STRETCH_HEAD,
    ReportReader,
    Stretch,
    StretchReader,
    build_report,
    build_stretch_head,
)
from wire.tests.growth import MOST_PER_DOUBLING, growth_per_doubling

OFFSETS = st.integers(0, (1 << 63) - 1)
STRETCHES = st.lists(st.builds(Stretch, OFFSETS, st.binary(max_size=40)), max_size=5)


def bytes_of(stretch: Stretch) -> bytes:
    """The bytes that a master sends."""
    return build_stretch_head(stretch.offset, len(stretch.body)) + stretch.body


def pieces(stream: bytes, data: st.DataObject) -> list[bytes]:
    """A stream cut anywhere."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    return [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def test_captured_reports_are_read_and_written() -> None:
    captured = bytes.fromhex("0000000000000000 00000000000001ea 00000000000002db")

    assert ReportReader().receive_data(captured) == [0, 490, 731]
    assert b"".join(map(build_report, [0, 490, 731])) == captured


def test_captured_stretches_are_read_and_written() -> None:
    captured = bytes.fromhex("00000000000001ea 00000003 aabbcc 00000000000002db 00000000")

    assert StretchReader().receive_data(captured) == [Stretch(490, b"\xaa\xbb\xcc"), Stretch(731, b"")]
    assert bytes_of(Stretch(490, b"\xaa\xbb\xcc")) + bytes_of(Stretch(731, b"")) == captured


@given(OFFSETS, st.integers(0, MAX_STRETCH_BODY_BYTES))
def test_the_layouts_are_those_that_construct_builds(offset: int, size: int) -> None:
    head = Struct("offset" / Int64sb, "body_bytes" / Int32sb)

    assert head.build({"offset": offset, "body_bytes": size}) == build_stretch_head(offset, size)
    assert Int64sb.build(offset) == build_report(offset)
    assert (REPORT.size, STRETCH_HEAD.size) == (8, 12)


@given(st.lists(OFFSETS, max_size=6), st.data())
def test_reports_come_out_of_any_pieces(offsets: list[int], data: st.DataObject) -> None:
    reader = ReportReader()

    stream = b"".join(map(build_report, offsets))

    assert [found for piece in pieces(stream, data) for found in reader.receive_data(piece)] == offsets


@given(STRETCHES, st.data())
def test_stretches_come_out_of_any_pieces(stretches: list[Stretch], data: st.DataObject) -> None:
    reader = StretchReader()

    stream = b"".join(map(bytes_of, stretches))

    assert [found for piece in pieces(stream, data) for found in reader.receive_data(piece)] == stretches
    assert reader.buffered_bytes == 0


def test_an_incomplete_stretch_is_held_until_its_last_byte() -> None:
    reader = StretchReader()
    stream = bytes_of(Stretch(5, b"body"))

    assert reader.receive_data(stream[:-1]) == []
    assert reader.buffered_bytes == len(stream) - 1
    assert reader.receive_data(stream[-1:]) == [Stretch(5, b"body")]


@pytest.mark.parametrize("size", [MAX_STRETCH_BODY_BYTES + 1, -1, 1 << 30])
def test_a_size_that_no_slave_can_take_is_refused_at_its_head(size: int) -> None:
    with pytest.raises(FrameError, match="the limit is 4194292"):
        StretchReader().receive_data(build_stretch_head(7, size))


def test_the_largest_stretch_is_taken() -> None:
    body = bytes(MAX_STRETCH_BODY_BYTES)
    stream = bytes_of(Stretch(7, body))

    assert len(stream) == MAX_STRETCH_BYTES
    assert StretchReader().receive_data(stream) == [Stretch(7, body)]


def test_negative_offsets_are_refused() -> None:
    with pytest.raises(FrameError, match="at offset -1"):
        StretchReader().receive_data(build_stretch_head(-1, 0))
    with pytest.raises(FrameError, match="reports the offset -5"):
        ReportReader().receive_data(build_report(3) + build_report(-5))


def test_many_small_pieces_cost_no_more_than_their_number() -> None:
    def feed(stream: bytes) -> None:
        reader = StretchReader()
        for position in range(0, len(stream), 64):
            reader.receive_data(stream[position : position + 64])

    assert growth_per_doubling(feed, lambda size: bytes_of(Stretch(0, bytes(size)))) < MOST_PER_DOUBLING
