"""Layouts as construct declares them, generated values for them, and the one test every layout has to pass."""

from __future__ import annotations

import struct
from typing import Any

import construct
from construct import Construct, this
from hypothesis import strategies as st

from wire.fixed_layout import FixedLayout, Int8sb, Int8ub, Int16sb, Int16ub, Int32sb, Int32ub, Int64sb
from wire.message.flags import SysFlag
from wire.message.message_id import HOST_V4_BYTES, HOST_V6_BYTES
from wire.message.record_layout import HEADS, MAGIC_V2

KINDS: dict[str, Construct[Any, Any]] = {
    Int8sb: construct.Int8sb,
    Int8ub: construct.Int8ub,
    Int16sb: construct.Int16sb,
    Int16ub: construct.Int16ub,
    Int32sb: construct.Int32sb,
    Int32ub: construct.Int32ub,
    Int64sb: construct.Int64sb,
}
"""The kinds of fields, each as construct has it."""


def declared(layout: FixedLayout) -> construct.Struct:
    """The layout for construct to interpret."""
    return construct.Struct(*[name / _kind(layout.packer(name).format[1:]) for name in layout])


def _kind(code: str) -> Construct[Any, Any]:
    return construct.Bytes(int(code[:-1])) if code.endswith("s") else KINDS[code]


def declared_record() -> Construct[Any, Any]:
    """The specification of a whole record for construct to interpret; ``record`` is its quick form."""

    def host(bit: int) -> Construct[Any, Any]:
        return construct.Bytes(lambda record: HOST_V6_BYTES if record.sys_flag & bit else HOST_V4_BYTES)

    hosts = {"born_host": host(SysFlag.BORN_HOST_V6), "store_host": host(SysFlag.STORE_HOST_V6)}
    head: list[Any] = list(declared(HEADS[0]).subcons)
    return construct.Struct(
        *(member.name / hosts[member.name] if member.name in hosts else member for member in head),
        "body" / construct.Bytes(this.body_bytes),
        "topic_bytes" / construct.IfThenElse(this.magic == MAGIC_V2, construct.Int16sb, construct.Int8sb),
        "topic" / construct.Bytes(this.topic_bytes),
        "properties_bytes" / construct.Int16sb,
        "properties" / construct.Bytes(this.properties_bytes),
    )


def values_of(layout: FixedLayout) -> st.SearchStrategy[tuple[Any, ...]]:
    """All values a layout can hold, in its order."""
    return st.tuples(*[_field_values(layout.packer(name).format[1:]) for name in layout.names])


def _field_values(code: str) -> st.SearchStrategy[Any]:
    if code.endswith("s"):
        size = int(code[:-1])
        return st.binary(min_size=size, max_size=size)
    bits = 8 * struct.calcsize(">" + code)
    if code.isupper():
        return st.integers(0, 2**bits - 1)
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def assert_declared_and_derived_agree(layout: FixedLayout, values: tuple[Any, ...]) -> None:
    """Construct and the derived packer write and read the same bytes."""
    interpreted = declared(layout)
    packed = layout.pack(*values)
    assert len(packed) == layout.size == interpreted.sizeof()
    assert interpreted.build(dict(zip(layout.names, values, strict=True))) == packed
    parsed = interpreted.parse(packed)
    assert tuple(parsed[name] for name in layout.names) == values
    assert layout.unpack_from(packed, 0) == values
