"""The stream of a connection: frames in any pieces, limits, other protocols."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import FrameError, HeaderError
from wire.frame import MAX_FRAME_BYTES, build_frame
from wire.tests.test_frame import ANY_COMMAND, facts

ROWS = st.lists(ANY_COMMAND, min_size=1, max_size=5)


def frame_of(opaque: int, body: bytes = b"") -> bytes:
    """A small valid frame."""
    return build_frame(RemotingCommand(34, opaque=opaque, body=body))


def opaques(commands: list[RemotingCommand]) -> list[int]:
    """Return the numbers of the commands."""
    return [command.opaque for command in commands]


@settings(deadline=None)
@given(ROWS)
def test_all_frames_of_one_read_come_out_in_order(row: list[RemotingCommand]) -> None:
    connection = Connection()

    found = connection.receive_data(b"".join(map(connection.send, row)))

    assert list(map(facts, found)) == list(map(facts, row))
    assert connection.buffered_bytes == 0


@settings(deadline=None, max_examples=50)
@given(ROWS, st.data())
def test_pieces_of_any_size_make_the_same_commands(row: list[RemotingCommand], data: st.DataObject) -> None:
    stream = b"".join(map(build_frame, row))
    connection = Connection()
    found: list[RemotingCommand] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += connection.receive_data(stream[:size])
        stream = stream[size:]

    assert list(map(facts, found)) == list(map(facts, row))
    assert connection.buffered_bytes == 0


def test_single_bytes_make_the_same_commands() -> None:
    stream = frame_of(1) + frame_of(2, b"body") + frame_of(3)
    connection = Connection()

    found = [command for byte in stream for command in connection.receive_data(bytes([byte]))]

    assert opaques(found) == [1, 2, 3]
    assert found[1].body == b"body"


def test_an_incomplete_frame_waits_for_its_rest() -> None:
    connection = Connection()
    frame = frame_of(1, b"x" * 50)

    assert connection.receive_data(frame[:-20]) == []
    assert connection.buffered_bytes == len(frame) - 20
    assert opaques(connection.receive_data(frame[-20:] + frame_of(2)[:3])) == [1]
    assert connection.buffered_bytes == 3


def test_an_empty_read_changes_nothing() -> None:
    connection = Connection()

    assert connection.receive_data(b"") == []
    connection.receive_data(frame_of(1)[:10])
    assert connection.receive_data(b"") == []
    assert connection.buffered_bytes == 10


def test_the_largest_frame_arrives_in_pieces_and_one_byte_more_is_refused() -> None:
    room = MAX_FRAME_BYTES - len(frame_of(1))
    frame = frame_of(1, bytes(room))
    connection = Connection()
    pieces = [frame[start : start + 65_536] for start in range(0, len(frame), 65_536)]

    assert len(frame) == MAX_FRAME_BYTES
    assert all(connection.receive_data(piece) == [] for piece in pieces[:-1])
    assert len(connection.receive_data(pieces[-1])[0].body) == room
    with pytest.raises(FrameError, match="frame length 16777213 exceeds 16777212"):
        connection.receive_data((MAX_FRAME_BYTES - 3).to_bytes(4, "big") + frame[4:8])


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        (b"\x7f\xff\xff\xff\x00\x00\x00\x10", "frame length 2147483647 exceeds"),
        (b"\x80\x00\x00\x00\x00\x00\x00\x10", "frame length 2147483648 exceeds"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00", "frame length 0 has no room"),
        (b"\x00\x00\x00\x03\x00\x00\x00\x00", "frame length 3 has no room"),
        (b"\x00\x00\x00\x20\x00\x00\x00\x1d", "header of 29 bytes is longer than its frame of 32"),
        (b"\x00\x00\x00\x20\x05\x00\x00\x10", "serialize type 5 is unknown"),
        (b"GET / HTTP/1.1\r\n", "HTTP request?"),
        (b"POST /topic HTTP/1.1\r\n", "HTTP request?"),
        (b"PRI * HTTP/2.0\r\n", "HTTP request?"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS hello?"),
        (b"PROXY TCP4 10.0.0.1", "PROXY protocol header?"),
        (b"\r\n\r\n\x00\r\nQUIT\n", "PROXY protocol header?"),
        (b"SSH-2.0-OpenSSH_9.2", "SSH client?"),
    ],
)
def test_what_is_no_frame_is_refused_from_its_first_eight_bytes(start: bytes, problem: str) -> None:
    connection = Connection()

    with pytest.raises(FrameError) as caught:
        connection.receive_data(start)

    assert problem in str(caught.value)
    assert connection.buffered_bytes == 0


def test_a_readable_head_is_checked_before_its_frame_is_complete() -> None:
    connection = Connection()
    connection.receive_data(b"\x00\x00\x00\x20\x05")

    with pytest.raises(FrameError, match="serialize type 5"):
        connection.receive_data(b"\x00\x00\x10")


def test_commands_before_the_damage_are_returned_and_the_failure_is_kept() -> None:
    connection = Connection()

    found = connection.receive_data(frame_of(1) + frame_of(2) + b"\xff" * 20)

    assert opaques(found) == [1, 2]
    assert isinstance(connection.failure, FrameError)
    with pytest.raises(FrameError):
        connection.receive_data(b"")


def test_after_an_error_nothing_is_read_any_more() -> None:
    connection = Connection()
    with pytest.raises(HeaderError):
        connection.receive_data(b"\x00\x00\x00\x05\x00\x00\x00\x01[")

    with pytest.raises(HeaderError):
        connection.receive_data(frame_of(1))
    assert isinstance(connection.failure, HeaderError)


def test_a_smaller_limit_holds() -> None:
    connection = Connection(max_frame_bytes=200)

    assert opaques(connection.receive_data(frame_of(1))) == [1]
    with pytest.raises(FrameError, match="exceeds 196"):
        connection.receive_data(frame_of(2, b"x" * 200))


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=10))
def test_arbitrary_bytes_in_arbitrary_pieces_end_in_commands_or_a_frame_or_header_error(
    pieces: list[bytes],
) -> None:
    connection = Connection(max_frame_bytes=256)
    fed = 0
    try:
        for piece in pieces:
            fed += len(piece)
            connection.receive_data(piece)
            assert connection.buffered_bytes <= min(fed, 256)
    except (FrameError, HeaderError):
        assert connection.failure is not None


def test_a_closed_connection_lets_go_of_its_incomplete_frame() -> None:
    connection = Connection()
    connection.receive_data(frame_of(1)[:10])
    connection.discard()
    assert connection.buffered_bytes == 0


def test_a_first_look_may_take_frames_without_a_body() -> None:
    connection = Connection()
    seen: list[bytes] = []

    def look(header: bytes) -> bool:
        seen.append(header)
        return b'"opaque":2' in header

    connection.first_look = look
    frames = frame_of(1) + frame_of(2) + frame_of(3, b"body") + frame_of(4)
    found = connection.receive_data(frames[:-5])
    found += connection.receive_data(frames[-5:])
    assert opaques(found) == [1, 3, 4]
    assert [header[:1] for header in seen] == [b"{"] * 3
