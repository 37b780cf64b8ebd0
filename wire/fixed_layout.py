"""Fixed-width layouts: declared once in construct's form, and executed by a ``struct.Struct`` derived from it.

construct is the specification for people and tests. Interpreting it costs about 15 µs for a message head; the derived
packer takes 0.15 µs. Code asks for offsets by field name and never states numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from wire.errors import LocalError
from wire.layout_kinds import Struct

if TYPE_CHECKING:
    import construct

Readable: TypeAlias = bytes | bytearray | memoryview
Writable: TypeAlias = bytearray | memoryview


class FixedLayout:
    """A run of fixed-width big-endian fields.

    :param name: the layout's name in error messages.
    :param declared: a ``Struct`` of ``layout_kinds`` or of construct. Its members are big-endian integers (``Int8ub``,
        ``Int32sb``, ``Int64sb`` …) or ``Bytes(n)``, and every member has a name.
    :raises LocalError: a member has no name or is of another kind.
    """

    __slots__ = (
        "_declared",
        "_offsets",
        "_struct",
        "iter_unpack",
        "name",
        "names",
        "pack",
        "size",
        "unpack_from",
    )

    def __init__(self, name: str, declared: Struct | construct.Struct) -> None:
        self.name = name
        self._declared = declared
        formats: list[str] = []
        names: list[str] = []
        self._offsets: dict[str, int] = {}
        members: list[Any] = list(declared.subcons)
        for member in members:
            if member.name is None:
                raise LocalError(f"layout {name}: every member needs a name")
            field_format = _format_of(name, member.subcon)
            self._offsets[member.name] = struct.calcsize(">" + "".join(formats))
            formats.append(field_format)
            names.append(member.name)
        self.names = tuple(names)
        self._struct = struct.Struct(">" + "".join(formats))
        self.size = self._struct.size
        self.pack = self._struct.pack
        self.unpack_from = self._struct.unpack_from
        self.iter_unpack = self._struct.iter_unpack

    @property
    def declaration(self) -> construct.Struct:
        """The layout in a form that construct interprets; loads construct."""
        declared = self._declared
        return declared.interpreted() if isinstance(declared, Struct) else declared

    def offset(self, field: str) -> int:
        """Return the byte offset of a field from the start of the layout."""
        return self._offsets[field]

    def packer(self, field: str) -> struct.Struct:
        """Return a packer for one field alone, to patch the field in place."""
        member: Any = self._declared.subcons[self.names.index(field)]
        return struct.Struct(">" + _format_of(self.name, member.subcon))

    def repeated(self, count: int) -> struct.Struct:
        """Return a packer for ``count`` layouts one after the other, as one row of values."""
        return struct.Struct(">" + self._struct.format.removeprefix(">") * count)

    def picker(self, fields: Iterable[str]) -> struct.Struct:
        """Return a packer as long as the layout that reads only these fields, given in the order of the layout."""
        form, position = ">", 0
        for field in fields:
            packer = self.packer(field)
            form += f"{self.offset(field) - position}x{packer.format[1:]}"
            position = self.offset(field) + packer.size
        return struct.Struct(f"{form}{self.size - position}x")

    def pack_into(self, buffer: Writable, offset: int, *values: int | bytes) -> None:
        """Write all fields at ``offset`` of a writable buffer."""
        self._struct.pack_into(buffer, offset, *values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)


def _format_of(layout: str, subcon: Any) -> str:
    fmt = getattr(subcon, "fmtstr", None)
    length = getattr(subcon, "length", None)
    if isinstance(fmt, str):
        if fmt[0] == ">":
            return fmt[1:]
    elif isinstance(length, int):
        return f"{length}s"
    raise LocalError(f"layout {layout}: {subcon!r} is not a big-endian integer or a fixed run of bytes")
