"""One side of a connection: turns arriving bytes into commands, and commands into bytes.

Only this module cuts the stream into frames. Sockets, back-pressure and time-outs belong to the caller that feeds this
class. A length over the limit is refused before anything is buffered. For this reason a peer can make us hold one frame
and one read at most. The next frame after a damaged frame cannot be found. The first error is therefore final, and the
caller closes the connection, as Apache RocketMQ does.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from wire.command import RemotingCommand
from wire.errors import FrameError, RemoteError
from wire.frame import (
    FRAME_HEAD,
    MAX_FRAME_BYTES,
    WholeHeaders,
    build_frame,
    check_header_mark,
    parse_marked_frame,
)

_HEAD_BYTES: Final = FRAME_HEAD.size
_LENGTH_BYTES: Final = FRAME_HEAD.offset("header_mark")
_LEAST_FRAME_BYTES: Final = _HEAD_BYTES - _LENGTH_BYTES

# What a wrong length most likely is: the first bytes of other protocols spoken to this port.
_OTHER_PROTOCOLS: Final = (
    (
        (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "),
        "HTTP request?",
    ),
    (b"\x16\x03", "TLS hello?"),
    ((b"PROX", b"\r\n\r\n\x00\r\nQ"), "PROXY protocol header?"),
    (b"SSH-", "SSH client?"),
)

FirstLook: TypeAlias = Callable[[bytes], bool]


class Connection:
    """The receiving and the sending half of a connection, for clients and servers alike.

    :param max_frame_bytes: the largest accepted frame, with its length field.
    :param whole_headers: the readers of frequent requests, whose command and header are read in one step.
    """

    __slots__ = ("_failure", "_max_frame_bytes", "_needed_bytes", "_partial", "_whole_headers", "first_look")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES, whole_headers: WholeHeaders | None = None) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._whole_headers: WholeHeaders = {} if whole_headers is None else whole_headers
        self._partial = bytearray()
        self._needed_bytes = _HEAD_BYTES
        self._failure: RemoteError | None = None
        self.first_look: FirstLook | None = None
        """A function that gets the header of each frame without a body, and returns True if it has handled the frame.

        A handled frame becomes no command. The function is for one kind of answer that is frequent enough to be read in
        one step. The function must not raise.
        """

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes held of an incomplete frame."""
        return len(self._partial)

    @property
    def failure(self) -> RemoteError | None:
        """The error that ended the reading of this connection, or None.

        Intact commands that come before the damage within one read are still returned. Callers check for a failure
        after these commands.
        """
        return self._failure

    def receive_data(self, data: bytes) -> list[RemotingCommand]:
        """Take the bytes of one read; return all commands that these bytes complete, in order.

        :raises FrameError: the stream has no readable frame at this place.
        :raises HeaderError: a frame is complete but its header is not readable.
        """
        if self._failure is not None:
            raise self._failure
        if self._partial:
            if len(self._partial) + len(data) < self._needed_bytes:
                self._partial += data
                return []
            data = b"".join((self._partial, data))
            self._partial = bytearray()
        commands: list[RemotingCommand] = []
        try:
            self._keep(data, self._parse_all(data, commands))
        except RemoteError as error:
            self._failure = error
            if not commands:
                raise
        return commands

    def discard(self) -> None:
        """Drop the incomplete frame, because the connection is closed and no more bytes will come."""
        self._partial = bytearray()

    def send(self, command: RemotingCommand) -> bytes:
        """Return the bytes that carry a command to the other side.

        :raises LocalError: the command does not fit into a frame.
        """
        return build_frame(command)

    def _parse_all(self, data: bytes, commands: list[RemotingCommand]) -> int:
        """Append the command of every complete frame.

        Return the position at which the first incomplete frame starts.
        """
        position = 0
        frame_bytes: int
        mark: int
        available = len(data)
        limit = self._max_frame_bytes - _LENGTH_BYTES
        first_look = self.first_look
        whole = self._whole_headers
        while available - position >= _HEAD_BYTES:
            frame_bytes, mark = FRAME_HEAD.unpack_from(data, position)
            if not _LEAST_FRAME_BYTES <= frame_bytes <= limit:
                raise _bad_length(frame_bytes, limit, data[position : position + _HEAD_BYTES])
            end = position + _LENGTH_BYTES + frame_bytes
            if end > available:
                check_header_mark(mark, frame_bytes)
                self._needed_bytes = end - position
                return position
            begin = position + _HEAD_BYTES
            position = end
            if first_look is not None and mark == end - begin and first_look(data[begin:end]):
                continue
            commands.append(parse_marked_frame(data, mark, begin, end, whole))
        self._needed_bytes = _HEAD_BYTES
        return position

    def _keep(self, data: bytes, position: int) -> None:
        if position < len(data):
            self._partial = bytearray(memoryview(data)[position:])


def _bad_length(frame_bytes: int, limit: int, first: bytes) -> FrameError:
    if frame_bytes < _LEAST_FRAME_BYTES:
        return FrameError(f"frame length {frame_bytes} has no room for a header")
    guesses = [guess for start, guess in _OTHER_PROTOCOLS if first.startswith(start)]
    guess = f": {guesses[0]}" if guesses else ""
    return FrameError(f"frame length {frame_bytes} exceeds {limit}, first bytes {first!r}{guess}")
