"""Generated values for fixed layouts, and the one test every layout has to pass."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from wire.fixed_layout import FixedLayout


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
    """The interpreted declaration and the derived packer write and read the same bytes."""
    packed = layout.pack(*values)
    assert len(packed) == layout.size == layout.declaration.sizeof()
    assert layout.declaration.build(dict(zip(layout.names, values, strict=True))) == packed
    parsed = layout.declaration.parse(packed)
    assert tuple(parsed[name] for name in layout.names) == values
    assert layout.unpack_from(packed, 0) == values
