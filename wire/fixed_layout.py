"""Fixed-width layouts: declared once in construct, executed by a ``struct.Struct`` derived from it.

construct is the specification that people and tests read; interpreting it costs about 15 µs for a message
head, the derived packer 0.15 µs. Offsets are asked for by field name and are never typed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from construct import Bytes, FormatField, Struct

from wire.errors import LocalError

Readable: TypeAlias = bytes | bytearray | memoryview
Writable: TypeAlias = bytearray | memoryview


class FixedLayout:
    """A run of fixed-width big-endian fields.

    :param name: what the layout is called in error messages.
    :param declaration: a construct ``Struct`` whose members are big-endian integers (``Int8ub``, ``Int32sb``,
        ``Int64sb`` …) or ``Bytes(n)``; every member is named.
    :raises LocalError: a member is unnamed or is of another kind.
    """

    __slots__ = (
        "_offsets",
        "_struct",
        "declaration",
        "iter_unpack",
        "name",
        "names",
        "pack",
        "size",
        "unpack_from",
    )

    def __init__(self, name: str, declaration: Struct) -> None:
        self.name = name
        self.declaration = declaration
        formats: list[str] = []
        names: list[str] = []
        self._offsets: dict[str, int] = {}
        members: list[Any] = list(declaration.subcons)
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

    def offset(self, field: str) -> int:
        """The byte offset of a field from the start of the layout."""
        return self._offsets[field]

    def packer(self, field: str) -> struct.Struct:
        """The packer of one field alone, for patching it in place."""
        member: Any = self.declaration.subcons[self.names.index(field)]
        return struct.Struct(">" + _format_of(self.name, member.subcon))

    def picker(self, fields: Iterable[str]) -> struct.Struct:
        """A packer as long as the layout that reads these fields, named in their order, and passes over the rest."""
        form, position = ">", 0
        for field in fields:
            packer = self.packer(field)
            form += f"{self.offset(field) - position}x{packer.format[1:]}"
            position = self.offset(field) + packer.size
        return struct.Struct(f"{form}{self.size - position}x")

    def pack_into(self, buffer: Writable, offset: int, *values: int | bytes) -> None:
        """Write all fields at ``offset`` of a writable buffer."""
        self._struct.pack_into(buffer, offset, *values)

    def as_dict(self, buffer: Readable, offset: int = 0) -> dict[str, int | bytes]:
        """All fields by name, for tests and for tools that print."""
        return dict(zip(self.names, self.unpack_from(buffer, offset), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)


def _format_of(layout: str, subcon: object) -> str:
    if isinstance(subcon, FormatField):
        fmt: str = subcon.fmtstr
        if fmt[0] == ">":
            return fmt[1:]
    if isinstance(subcon, Bytes) and isinstance(subcon.length, int):
        return f"{subcon.length}s"
    raise LocalError(f"layout {layout}: {subcon!r} is not a big-endian integer or a fixed run of bytes")
