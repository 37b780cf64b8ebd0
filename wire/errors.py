"""Every error the wire package raises.

    WireError
    ├── LocalError               we asked for something illegal: a bug on our side
    └── RemoteError              a peer sent, or a file holds, what the protocol does not allow
        ├── FrameError           length, serialize type or header length of a frame
        ├── HeaderError          JSON or binary header that cannot be read
        ├── FieldError           an ext field is missing or is not of its type
        ├── BodyError            JSON body, batch body or property list
        ├── RecordError          a stored message record
        └── LayoutError          a file format: consume queue, index file, checkpoint, config JSON

Malformed input raises nothing but ``RemoteError`` kinds; wrong use of this package raises ``LocalError``.
An error holds its facts in fields and says in one sentence what, where and which limit.
"""

from __future__ import annotations


class WireError(Exception):
    """Root of all errors of this package."""


class LocalError(WireError):
    """We tried to build something that the protocol cannot carry."""


class RemoteError(WireError):
    """The bytes of a peer or a file break the protocol."""


class FrameError(RemoteError):
    """The frame around a command is malformed; the connection cannot be resynchronised."""


class HeaderError(RemoteError):
    """The header of a frame is neither readable JSON nor a readable binary header."""


class FieldError(RemoteError):
    """An ext field of a command is missing or is not of its declared type."""

    def __init__(self, header: str, field: str, value: str | None, expected: str) -> None:
        super().__init__(header, field, value, expected)
        self.header = header
        self.field = field
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        found = "is missing" if self.value is None else f"is {self.value[:64]!r}"
        return f"{self.header}: field {self.field!r} {found}, expected {self.expected}"


class BodyError(RemoteError):
    """The body of a command does not have the shape its code asks for."""


class RecordError(RemoteError):
    """A stored message record is damaged: magic, sizes or checksum do not fit together."""


class LayoutError(RemoteError):
    """A file on disk does not have the layout its place promises."""
