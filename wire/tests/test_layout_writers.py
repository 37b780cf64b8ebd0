"""The writers made of declarations are up to date, and write what is declared."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from hypothesis import given
from librt.strings import BytesWriter

from wire.disk.consume_queue import UNIT
from wire.disk.index_file import ENTRY
from wire.fixed_layout import FixedLayout
from wire.layout_writers import write_index_entry, write_record_head, write_unit
from wire.message.record_layout import HEADS
from wire.tests.message.layouts import declared, values_of
from wire.tests.message.strategies import QUICK

SCRIPT = Path(__file__).parents[2] / "docs" / "layout_writers.py"

WRITERS: list[tuple[Callable[..., None], FixedLayout]] = [
    *[(write_record_head, head) for head in HEADS.values()],
    (write_unit, UNIT),
    (write_index_entry, ENTRY),
]
each_writer = pytest.mark.parametrize(("write", "layout"), WRITERS, ids=[layout.name for _, layout in WRITERS])


def test_the_module_is_what_its_script_writes() -> None:
    script = run_path(str(SCRIPT))
    module: str = script["module"]()
    assert script["MODULE"].read_text(encoding="utf-8") == module, "run: python docs/layout_writers.py"


@each_writer
def test_a_writer_writes_what_is_declared_behind_what_was_written(
    write: Callable[..., None], layout: FixedLayout
) -> None:
    @QUICK
    @given(values_of(layout))
    def agree(values: tuple[Any, ...]) -> None:
        out = BytesWriter()
        out.write(b"before")
        write(out, *values)
        assert out.getvalue() == b"before" + declared(layout).build(dict(zip(layout.names, values, strict=True)))

    agree()


def _beyond(layout: FixedLayout) -> list[tuple[str, int]]:
    """Each number with the first values on both sides of its range."""
    beyond = []
    for field in layout:
        code = layout.packer(field).format[1:]
        if not code.endswith("s"):
            limit = 1 << 8 * struct.calcsize(">" + code) - 1
            beyond += [(field, limit), (field, -limit - 1)]
    return beyond


@each_writer
def test_numbers_out_of_range_are_refused(write: Callable[..., None], layout: FixedLayout) -> None:
    zeros = [bytes(8) if layout.packer(field).format.endswith("s") else 0 for field in layout]
    for field, value in _beyond(layout):
        values = [*zeros]
        values[layout.names.index(field)] = value
        with pytest.raises((ValueError, TypeError)):  # TypeError: interpreted code that calls a compiled writer
            write(BytesWriter(), *values)
