"""Common parts of the tests of known forms: reading with and without them, and headers that are nearly of a form."""

from __future__ import annotations

from hypothesis import strategies as st

from wire.connection import Connection
from wire.errors import RemoteError
from wire.frame import FRAME_HEAD
from wire.headers.declare import Header, read_header
from wire.json_header import WHOLE_START_BYTES
from wire.quick.known_forms import FormReader


def reading(reader: FormReader | None, text: bytes, declared: type[Header]) -> tuple[object, ...] | str:
    """All that a command with a body says, or why there is none."""
    start = text[:WHOLE_START_BYTES]
    frame = FRAME_HEAD.pack(len(text) + 4 + 4, len(text)) + text + b"body"
    try:
        (command,) = Connection(whole_headers={} if reader is None else {start: reader}).receive_data(frame)
    except RemoteError as error:
        return str(error)
    facts = (command.code, command.opaque, command.flag, command.language, command.version, command.remark)
    try:
        fields: object = read_header(declared, command)
    except RemoteError as error:
        fields = str(error)
    return (*facts, command.body, command.serialize_type, fields, command.ext_fields)


def assert_read_as_ever(reader: FormReader, text: bytes, declared: type[Header]) -> None:
    """Check that a header reads the same with the reader and without it."""
    assert reading(reader, text, declared) == reading(None, text, declared)


@st.composite
def changed(draw: st.DrawFn, header: bytes) -> bytes:
    """A header some bytes of which are others, behind its first."""
    text = bytearray(header)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(WHOLE_START_BYTES, len(text) - 1))
        some = draw(st.binary(max_size=2) | st.sampled_from([b'"', b"0", b"7", b"A", b"\\", b",", "ä".encode()]))
        text[place : place + draw(st.integers(0, 2))] = some
    return bytes(text)
