"""The errors that the wire package raises.

    WireError
    ├── LocalError               we asked for something illegal: a bug on our side
    └── RemoteError              a peer sent, or a file holds, what the protocol does not allow
        ├── FrameError           length, serialize type or header length of a frame
        ├── HeaderError          JSON or binary header that cannot be read
        ├── FieldError           an ext field is missing or is not of its type
        ├── BodyError            JSON body, batch body or property list
        ├── RecordError          a stored message record
        └── LayoutError          a file format: consume queue, index file, checkpoint, config JSON

Malformed input raises only kinds of ``RemoteError``. Wrong use of this package raises ``LocalError``. An error holds
its facts in fields. Its text says in one sentence what is wrong, where, and which limit applies.
"""

from __future__ import annotations


class WireError(Exception):
    """The root of all errors of this package."""


class LocalError(WireError):
    """An attempt of our own code to build something that the protocol cannot carry."""


class RemoteError(WireError):
    """Bytes of a peer or of a file that break the protocol."""


class FrameError(RemoteError):
    """A malformed frame around a command; the connection cannot be resynchronised."""


class HeaderError(RemoteError):
    """A header that is neither readable JSON nor a readable binary header."""


class FieldError(RemoteError):
    """An ext field that is missing or does not have its declared type."""

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
    """A body that does not have the shape for the code of its command."""


class RecordError(RemoteError):
    """A damaged message record: magic, sizes or checksum do not match."""


class LayoutError(RemoteError):
    """A file on disk that does not have the layout for its place."""
